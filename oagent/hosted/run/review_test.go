package run_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// TestReview_decisions checks what a run that decides a review reports. The report at its end is repeated
// until it succeeds.
func TestReview_decisions(t *testing.T) {
	for name, c := range map[string]struct {
		responses []*model.Response
		want      []string
	}{
		"approve": {[]*model.Response{wants("approve", `{"comment":"fine"}`)}, []string{"approve fine", " ", " "}},
		"first":   {[]*model.Response{wants("deny", `{}`, "approve", `{}`)}, []string{"deny ", " ", " "}},
		"none":    {[]*model.Response{wants("ask-user", `{"question":"May I?"}`), says("Yes.")}, []string{" ", " "}},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var decided []string
			n := newNode(t, openStore(t), readAgent(t, "capabilities: {approve: {}}\n"), script(c.responses...), func(_ *node, o *run.Options) {
				o.Sweep = 10 * time.Millisecond
				o.Decide = func(_ context.Context, st *run.State, decision, comment string) error {
					mu.Lock()
					defer mu.Unlock()
					decided = append(decided, decision+" "+comment)
					if decision == "" && !slices.Contains(decided[:len(decided)-1], " ") {
						return errors.New("the store is down")
					}
					return nil
				}
			})
			st, err := n.Start(t.Context(), run.StartOptions{Agent: n.agent, User: ada, Input: "May it?", Review: "R"})
			if err != nil {
				t.Fatal(err)
			}
			if st = n.idle(st.ID); st.Status != run.StatusComplete {
				t.Errorf("status %s, ending %+v", st.Status, st.Ending)
			}
			reported := func() []string {
				mu.Lock()
				defer mu.Unlock()
				return slices.Clone(decided)
			}
			testkit.Eventually(t, "the reports", func() bool { return len(reported()) >= len(c.want) })
			if got := reported(); !slices.Equal(got, c.want) {
				t.Errorf("reported %q, want %q", got, c.want)
			}
			if calls := n.tools.calls(); len(calls) != 0 {
				t.Errorf("the capability approve was called: %q", calls)
			}
			for _, r := range n.model.all() {
				var names []string
				for _, described := range r.Tools {
					names = append(names, described.Name)
				}
				if !slices.Equal(names, []string{"approve", "deny"}) {
					t.Errorf("tools %q", names)
				}
			}
			if st.IsOf(ada.ID) {
				t.Error("the run belongs to the user whose call is under review")
			}
		})
	}
}
