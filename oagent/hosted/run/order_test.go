package run_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// repetitions is how often a test repeats what would otherwise depend on chance.
const repetitions = 20

// recorded returns the calls in the record of a run, with their inputs, and their results.
func (n *node) recorded(id string) (calls, results []string) {
	n.t.Helper()
	of := engagement.Ref{Agent: n.agent.Name, ID: id, User: ada}
	entries, err := n.guard.Engagements.Entries(n.t.Context(), of.Key(), 0, 100)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, e := range entries {
		switch e.Event {
		case engagement.EntryBegun:
			calls = append(calls, e.Name+" "+string(e.Inputs))
		case engagement.EntryFinished:
			results = append(results, string(e.Outputs))
		}
	}
	return calls, results
}

// TestOrder_of_one_message checks that the calls of one message are decided and recorded in the order of the message, however
// long each takes, and that they run in parallel.
func TestOrder_of_one_message(t *testing.T) {
	for range repetitions {
		n := newNode(t, openStore(t), readAgent(t, "capabilities: {get-faq: {}}\n"),
			script(wants("get-faq", `{"n":1}`, "get-faq", `{"n":2}`, "get-faq", `{"n":3}`), says("Done.")))
		var made [3]chan struct{}
		for i := range made {
			made[i] = make(chan struct{})
		}
		n.tools.tools["get-faq"] = func(ctx context.Context, i *run.Invocation) (string, error) {
			number := i.Index
			close(made[number])
			if number < len(made)-1 { // each call ends after the next one has begun
				select {
				case <-made[number+1]:
				case <-ctx.Done():
				}
			}
			return fmt.Sprintf(`{"n":%d}`, number+1), nil
		}
		st := n.idle(n.start("Three.").ID)
		want := []string{`get-faq {"n":1}`, `get-faq {"n":2}`, `get-faq {"n":3}`}
		calls, results := n.recorded(st.ID)
		if !slices.Equal(calls, want) || !slices.Equal(results, []string{`{"n":1}`, `{"n":2}`, `{"n":3}`}) {
			t.Fatalf("recorded calls %q, results %q", calls, results)
		}
	}
}

// TestOrder_decisions has a case for each kind of rule that depends on the calls before. The outcome is always the same.
func TestOrder_decisions(t *testing.T) {
	t.Parallel()
	three := wants("get-faq", `{}`, "get-orders", `{}`)
	for name, test := range map[string]struct {
		body    string
		message []*model.Response
		status  run.Status
		made    []string
		model   string // a word that the results for the model contain
	}{
		"short_circuit": {
			"capabilities: {get-faq: {}, get-orders: {}}\nlifespan: {short_circuit: 3}\n",
			[]*model.Response{three, three, three},
			run.StatusError,
			[]string{"get-faq", "get-orders", "get-faq", "get-orders", "get-faq"},
			"",
		},
		"history": {
			"capabilities: {get-faq: {}, get-orders: {input_restriction: {assertion: 'has(history.get-faq)'}}}\n",
			[]*model.Response{three},
			run.StatusComplete,
			[]string{"get-faq", "get-orders"},
			"",
		},
		"recent": {
			"capabilities: {get-faq: {}, get-orders: {input_restriction: {assertion: 'recent._name == \"get-faq\"'}}}\n",
			[]*model.Response{three},
			run.StatusComplete,
			[]string{"get-faq", "get-orders"},
			"",
		},
		"a later call": {
			"capabilities: {get-faq: {input_restriction: {assertion: '!has(history.get-orders)'}}, get-orders: {}}\n",
			[]*model.Response{three},
			run.StatusComplete,
			[]string{"get-faq", "get-orders"},
			"",
		},
		"outputs of a call that runs": {
			"capabilities: {get-faq: {}, get-orders: {input_restriction: {assertion: 'recent.get-faq.outputs.ok'}}}\n",
			[]*model.Response{three},
			run.StatusComplete,
			[]string{"get-faq"},
			"in a message of its own",
		},
		"outputs that are not null": {
			"capabilities: {get-faq: {}, get-orders: {input_restriction: {assertion: 'history.get-faq.all(c, c.outputs == null)'}}}\n",
			[]*model.Response{three},
			run.StatusComplete,
			[]string{"get-faq"},
			"in a message of its own",
		},
		"outputs of an earlier message": {
			"capabilities: {get-faq: {}, get-orders: {input_restriction: {assertion: 'recent.get-faq.outputs.ok'}}}\n",
			[]*model.Response{wants("get-faq", `{}`), wants("get-orders", `{}`)},
			run.StatusComplete,
			[]string{"get-faq", "get-orders"},
			"",
		},
		"outputs of a call that was made alone": {
			"capabilities: {book: {}, get-orders: {input_restriction: {assertion: 'recent.book.outputs.ok'}}}\n",
			[]*model.Response{wants("book", `{}`, "get-orders", `{}`)},
			run.StatusComplete,
			[]string{"book", "get-orders"},
			"",
		},
		"a held call holds up none": {
			"capabilities: {get-faq: {input_restriction: {require_review: sam}}, get-orders: {}}\n",
			[]*model.Response{three},
			run.StatusAwaitingReview,
			[]string{"get-orders"},
			"",
		},
		"a held call that is read": {
			"capabilities: {get-faq: {input_restriction: {require_review: sam}}, get-orders: {input_restriction: {assertion: 'has(history.get-faq)'}}}\n",
			[]*model.Response{three},
			run.StatusAwaitingReview, nil, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range repetitions {
				n := newNode(t, openStore(t), readAgent(t, test.body), script(append(slices.Clone(test.message), says("Done."))...))
				st := n.idle(n.start("Go.").ID)
				made, _ := n.recorded(st.ID)
				for i := range made {
					made[i] = strings.Fields(made[i])[0]
				}
				if st.Status != test.status || !slices.Equal(made, test.made) || !strings.Contains(n.results(), test.model) {
					t.Fatalf("status %s, ending %+v, calls %q; the model got %s", st.Status, st.Ending, made, n.results())
				}
				n.close()
			}
		})
	}
}
