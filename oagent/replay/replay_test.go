package replay_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/assertion"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/replay"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
)

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// site is a guard whose clock goes on by a minute with each call.
type site struct {
	t     testing.TB
	guard *oagent.Guard
	agent *oagent.Agent
	store store.Store

	mu  sync.Mutex
	now time.Time
}

// clock returns the time, after it has passed.
func (s *site) clock(pass time.Duration) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(pass)
	return s.now
}

func read(t testing.TB, body string) *oagent.Agent {
	t.Helper()
	a, err := oagent.ReadAgent([]byte("kind: openagentspec:v1/agent\nname: clerk\ndescription: Answers.\nintent: You answer.\nowner: team\n"+body), "clerk.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newSite(t testing.TB, body string) *site {
	t.Helper()
	records, err := embedded.Open(filepath.Join(t.TempDir(), "records.db"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = records.Close() })
	s := &site{t: t, agent: read(t, body), store: records, now: start}
	s.guard, err = oagent.NewGuard(oagent.GuardOptions{Store: records, ReviewWait: -1, MaxPayload: 200, Now: func() time.Time { return s.clock(0) }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *site) binding(user string) oagent.Binding {
	return oagent.Binding{Agent: s.agent, Engagement: "e1", User: engagement.User{ID: user}, Identity: &identity.User{ID: user, Groups: []string{"staff"}}}
}

// call makes a call. It returns why it was refused.
func (s *site) call(user, name, inputs, outputs string) error {
	s.clock(time.Minute)
	ticket, err := s.guard.Begin(s.t.Context(), oagent.Call{Binding: s.binding(user), Name: name, Inputs: jsontext.Value(inputs)})
	if err != nil {
		return err
	}
	return ticket.Finish(s.t.Context(), jsontext.Value(outputs), 200)
}

// replay replays the calls of the agent with another document.
func (s *site) replay(body string) *replay.Report {
	s.t.Helper()
	return s.run(replay.Engagements{Rules: map[string]replay.Rules{"clerk": {InForce: s.agent, Changed: read(s.t, body)}}}, start, s.now.Add(time.Hour))
}

func (s *site) run(e replay.Engagements, since, until time.Time) *replay.Report {
	s.t.Helper()
	report := replay.NewReport(since, until)
	e.Records = s.guard.Engagements
	if err := e.Run(s.t.Context(), report); err != nil {
		s.t.Fatal(err)
	}
	report.Finish()
	return report
}

// counts returns the numbers of a report that are not 0.
func counts(r *replay.Report) string {
	var text []string
	for _, n := range []struct {
		name string
		n    int64
	}{
		{"calls", r.Calls},
		{"reproduced", r.Reproduced},
		{"mismatched", r.Mismatched},
		{"unchecked", r.Unchecked},
		{"unchanged", r.Unchanged},
		{"refused", r.NewRefused},
		{"held", r.NewHeld},
		{"allowed", r.NewAllowed},
		{"undecidable", r.Undecidable},
	} {
		if n.n != 0 {
			text = append(text, fmt.Sprintf("%s %d", n.name, n.n))
		}
	}
	return strings.Join(text, ", ")
}

func rules(rows []*replay.Row) string {
	var text []string
	for _, w := range rows {
		text = append(text, fmt.Sprintf("%s %s now %d before %d changes %d users %v", w.Rule, w.Verdict, w.Now, w.Before, w.Changes, w.Users))
	}
	return strings.Join(text, "\n")
}

const base = `
capabilities:
  refund: {input_restriction: {assertion: recent.refund.inputs.amount < 500}}
  find: {}
  order: {input_restriction: {require_review: boss}}
  read: {output_restriction: {assertion: recent.read.outputs.stock > 0}}
  secret: {collect_results: false}
  group: {input_restriction: {assertion: "'staff' in user.groups"}}
`

// traffic makes calls by the document base: 4 of refund, of which one is refused, and one of each other capability.
func traffic(s *site) {
	for i, amount := range []int{100, 300, 480, 900} {
		_ = s.call([]string{"ada", "bob"}[i%2], "refund", fmt.Sprintf(`{"amount":%d}`, amount), `{"ok":true}`)
	}
	_ = s.call("ada", "find", `{"text":"a"}`, `{"n":1}`)
	_ = s.call("ada", "find", `{"text":"`+strings.Repeat("x", 300)+`"}`, `{"n":2}`)
	_ = s.call("ada", "order", `{"id":1}`, "")
	_ = s.call("ada", "read", `{"id":1}`, `{"stock":3}`)
	_ = s.call("ada", "read", `{"id":2}`, `{"stock":0}`)
	_ = s.call("ada", "secret", `{}`, `{"pin":1}`)
	_ = s.call("ada", "group", `{}`, `{}`)
	_ = s.call("ada", "unknown", `{}`, `{}`)
}

// TestEngagements_classes replays a document with one change at a time.
func TestEngagements_classes(t *testing.T) {
	s := newSite(t, base)
	traffic(s)
	const same = "calls 12, reproduced 10, unchecked 2" // two rules read what is not recorded: the groups of the user, and the outputs that are withheld
	for name, test := range map[string]struct{ old, new, counts, rules string }{
		"nothing": {"", "", same + ", unchanged 12", ""},
		"newly refused": {
			"amount < 500", "amount < 300", same + ", unchanged 10, refused 2",
			"capabilities.refund.input_restriction.assertion refused now 3 before 1 changes 2 users map[ada:1 bob:1]",
		},
		"newly allowed": {
			"amount < 500", "amount < 1000", same + ", unchanged 11, allowed 1",
			"capabilities.refund.input_restriction.assertion refused now 0 before 1 changes 1 users map[bob:1]",
		},
		"newly held": {
			"amount < 500}", "amount < 500, require_review: boss}", same + ", unchanged 9, held 3",
			"capabilities.refund.input_restriction.require_review held now 3 before 0 changes 3 users map[ada:2 bob:1]",
		},
		"held calls are allowed":     {"{input_restriction: {require_review: boss}}", "{}", same + ", unchanged 11, allowed 1", "capabilities.order.input_restriction.require_review held now 0 before 1 changes 1 users map[ada:1]"},
		"held calls are refused":     {"{require_review: boss}", "{assertion: recent.order.inputs.id > 1, require_review: boss}", same + ", unchanged 11, refused 1", "capabilities.order.input_restriction.assertion refused now 1 before 0 changes 1 users map[ada:1]"},
		"a capability is removed":    {"  find: {}\n", "", same + ", unchanged 10, refused 2", "capabilities refused now 2 before 0 changes 2 users map[ada:2]"},
		"a capability is added":      {"  find: {}\n", "  find: {}\n  unknown: {}\n", same + ", unchanged 11, allowed 1", "capabilities refused now 0 before 1 changes 1 users map[ada:1]"},
		"a result":                   {"outputs.stock > 0", "outputs.stock > 5", same + ", unchanged 10, refused 1, undecidable 1", "capabilities.read.output_restriction.assertion refused now 1 before 0 changes 1 users map[ada:1]"},
		"a result is held":           {"{output_restriction: {assertion: recent.read.outputs.stock > 0}}", "{output_restriction: {require_review: boss}}", same + ", unchanged 10, held 2", "capabilities.read.output_restriction.require_review held now 2 before 0 changes 2 users map[ada:2]"},
		"a result that is not kept":  {"secret: {collect_results: false}", "secret: {output_restriction: {assertion: recent.secret.outputs.pin > 0}}", same + ", unchanged 11, undecidable 1", ""},
		"inputs that are not kept":   {"find: {}", "find: {input_restriction: {assertion: recent.find.inputs.text == 'b'}}", same + ", unchanged 10, refused 1, undecidable 1", "capabilities.find.input_restriction.assertion refused now 1 before 0 changes 1 users map[ada:1]"},
		"history":                    {"find: {}", "find: {input_restriction: {assertion: \"size(history.find) < 1 && history.refund.all(r, r.outputs.ok)\"}}", same + ", unchanged 11, refused 1", "capabilities.find.input_restriction.assertion refused now 1 before 0 changes 1 users map[ada:1]"},
		"groups are not recorded":    {"{assertion: \"'staff' in user.groups\"}", "{assertion: \"'boss' in user.groups\"}", same + ", unchanged 11, undecidable 1", ""},
		"the user is recorded":       {"find: {}", "find: {input_restriction: {assertion: user.id == 'bob' && started_at < timestamp('2026-11-02T00:00:00Z')}}", same + ", unchanged 10, refused 2", "capabilities.find.input_restriction.assertion refused now 2 before 0 changes 2 users map[ada:2]"},
		"a branch that is not taken": {"find: {}", "find: {input_restriction: {assertion: user.id == 'ada' || 'staff' in user.groups}}", same + ", unchanged 12", ""},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(base, test.old, test.new, 1)
			if test.old != "" && changed == base {
				t.Fatal("the document has not changed")
			}
			r := s.replay(changed)
			if got := counts(r); got != test.counts {
				t.Errorf("got  %s\nwant %s\n%v", got, test.counts, r.Reasons)
			}
			if got := rules(r.Rules); got != test.rules {
				t.Errorf("got rules\n%s\nwant\n%s", got, test.rules)
			}
			if r.Changes() != (r.NewRefused+r.NewHeld+r.NewAllowed > 0) || len(r.Mismatches) > 0 {
				t.Errorf("changes %t, mismatches %s", r.Changes(), rules(r.Mismatches))
			}
		})
	}
}

// TestEngagements_example checks the calls that a report names, and the time range and user.
func TestEngagements_example(t *testing.T) {
	s := newSite(t, base)
	traffic(s)
	all := map[string]replay.Rules{"clerk": {InForce: s.agent, Changed: read(t, strings.Replace(base, "amount < 500", "amount < 300", 1))}}
	r := s.run(replay.Engagements{Rules: all}, start, s.now.Add(time.Hour))
	c := r.Rules[0].Examples[0]
	if got, want := fmt.Sprint(len(r.Rules[0].Examples), c.User, c.Arguments, c.At.Sub(start), c.Before, c.Now), fmt.Sprint(2, "ada", `{"amount":480}`, 3*time.Minute, replay.Allowed, replay.Refused); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !strings.HasPrefix(c.ID, c.Engagement+".") || !engagement.IsKey(c.Engagement) {
		t.Errorf("got the id %s in %s", c.ID, c.Engagement)
	}
	for name, test := range map[string]struct {
		user         string
		since, until time.Duration
		want         string
	}{
		"a user":       {"bob", 0, time.Hour, "calls 2, reproduced 2, unchanged 1, refused 1"},
		"another user": {"eve", 0, time.Hour, ""},
		"since":        {"", 3 * time.Minute, 4 * time.Minute, "calls 1, reproduced 1, refused 1"},
		"until":        {"", 0, 3 * time.Minute, "calls 2, reproduced 2, unchanged 1, refused 1"},
		"later":        {"", 10 * time.Hour, 11 * time.Hour, ""},
	} {
		if got := counts(s.run(replay.Engagements{Rules: all, User: test.user}, start.Add(test.since), start.Add(test.until))); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
	if got := counts(s.run(replay.Engagements{Rules: map[string]replay.Rules{"other": all["clerk"]}}, start, s.now.Add(time.Hour))); got != "" {
		t.Errorf("another agent: got %s", got)
	}
}

// TestEngagements_mismatch replays records that another document has decided.
func TestEngagements_mismatch(t *testing.T) {
	s := newSite(t, base)
	traffic(s)
	s.agent = read(t, strings.Replace(base, "amount < 500", "amount < 200", 1)) // in force now
	r := s.replay(strings.Replace(base, "amount < 500", "amount < 100", 1))
	if got, want := counts(r), "calls 12, reproduced 8, mismatched 2, unchecked 2, unchanged 11, refused 1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := rules(r.Mismatches), "capabilities.refund.input_restriction.assertion refused now 2 before 0 changes 2 users map[ada:1 bob:1]"; got != want {
		t.Errorf("got mismatches %s, want %s", got, want)
	}
}

// TestEngagements_review judges a call that a reviewer has approved once, and its result once more.
func TestEngagements_review(t *testing.T) {
	s := newSite(t, base)
	if err := s.call("ada", "order", `{"id":1}`, ""); err == nil {
		t.Fatal("the call was not held")
	}
	open, _, err := s.guard.Reviews.All(t.Context())
	if err != nil || len(open) != 1 {
		t.Fatalf("%v, %v", open, err)
	}
	if _, err := s.guard.Reviews.DecideBy(t.Context(), open[0].ID, "boss", engagement.Decider{User: "boss"}, true, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.call("ada", "order", `{"id":1}`, `{"total":7}`); err != nil {
		t.Fatal(err)
	}
	if got, want := counts(s.replay(base)), "calls 1, reproduced 1, unchanged 1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	changed := strings.Replace(base, "order: {input", "order: {output_restriction: {assertion: recent.order.outputs.total < 5}, input", 1)
	if got, want := counts(s.replay(changed)), "calls 2, reproduced 2, unchanged 1, refused 1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestEngagements_inspector does not read values that an inspector has masked, and keeps its review.
func TestEngagements_inspector(t *testing.T) {
	s := newSite(t, base)
	_, err := s.guard.Begin(t.Context(), oagent.Call{
		Binding: s.binding("ada"), Name: "find", Inputs: jsontext.Value(`{"text":"4111"}`), Originals: review.NewOriginals([]string{"0123456789abcdef0123456789abcdef"}),
		Inspected: &oagent.Inspected{Inputs: jsontext.Value(`{"text":"***"}`), Required: []oagent.RequiredReview{{Reviewer: "boss", Rule: "inspect.pii", Inspector: "pii"}}},
	})
	if err == nil {
		t.Fatal("the call was not held")
	}
	for restriction, want := range map[string]string{
		"{}": "calls 1, reproduced 1, unchanged 1",
		"{input_restriction: {assertion: recent.find.inputs.text != '4111'}}": "calls 1, reproduced 1, undecidable 1",
		"{input_restriction: {assertion: user.id == 'bob'}}":                  "calls 1, reproduced 1, refused 1",
	} {
		if got := counts(s.replay(strings.Replace(base, "find: {}", "find: "+restriction, 1))); got != want {
			t.Errorf("%s: got %s, want %s", restriction, got, want)
		}
	}
}

const guarded = `
capabilities: {}
guardrails:
  input: {tool_name: check, assertion: "score < 5"}
`

// TestEngagements_guardrail evaluates the recorded output of a guardrail's tool.
func TestEngagements_guardrail(t *testing.T) {
	s := newSite(t, guarded)
	for i, output := range []string{`{"score":1}`, `{"score":3}`, `{"score":9}`, `{"other":1}`, `{"score":1,"text":"` + strings.Repeat("x", 300) + `"}`} {
		b := s.binding(fmt.Sprintf("user%d", i))
		_ = s.guard.CheckGuardrail(t.Context(), b, engagement.SideInput, jsontext.Value(output))
	}
	for _, test := range []struct{ changed, want string }{
		{guarded, "calls 4, reproduced 3, unchecked 1, unchanged 3, undecidable 1"},
		{strings.Replace(guarded, "< 5", "< 2", 1), "calls 4, reproduced 3, unchecked 1, unchanged 2, refused 1, undecidable 1"},
		{strings.Replace(guarded, "check", "other", 1), "calls 4, reproduced 3, unchecked 1, undecidable 4"},
		{"capabilities: {}\n", "calls 4, reproduced 3, unchecked 1, unchanged 3, allowed 1"},
	} {
		if got := counts(s.replay(test.changed)); got != test.want {
			t.Errorf("%s: got %s, want %s", test.changed, got, test.want)
		}
	}
	notes := replay.Rules{InForce: read(t, "capabilities: {}\n"), Changed: read(t, guarded+"lifespan: {short_circuit: 3}\n")}.Notes()
	if len(notes) != 2 || !strings.Contains(notes[0], "guardrail") || !strings.Contains(notes[1], "short_circuit") {
		t.Errorf("got the notes %q", notes)
	}
}

// TestEngagements_log_only replays rules that are not enforced yet: the same documents, enforced, would refuse what the rules have reported.
func TestEngagements_log_only(t *testing.T) {
	s := newSite(t, base)
	for i := range s.agent.Capabilities {
		s.agent.Capabilities[i].LogOnly = true
	}
	for _, amount := range []int{100, 500, 900} {
		if err := s.call("ada", "refund", fmt.Sprintf(`{"amount":%d}`, amount), `{}`); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := counts(s.replay(base)), "calls 3, reproduced 3, unchanged 1, refused 2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	s = newSite(t, guarded)
	s.agent.GuardrailsLogOnly = true
	if _, err := s.guard.TryGuardrail(t.Context(), s.binding("ada"), engagement.SideInput, jsontext.Value(`{"score":9}`)); err != nil {
		t.Fatal(err)
	}
	if got, want := counts(s.replay(guarded)), "calls 1, reproduced 1, refused 1"; got != want {
		t.Errorf("a guardrail: got %s, want %s", got, want)
	}
}

// TestEngagements_renewed starts the history again where the Engagement was renewed.
func TestEngagements_renewed(t *testing.T) {
	s := newSite(t, base)
	for range 2 {
		for range 3 {
			_ = s.call("ada", "find", `{}`, `{}`)
		}
		b := s.binding("ada")
		if _, err := s.guard.Renew(t.Context(), b.Key(), engagement.Renewal{By: "eve", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	_ = s.call("ada", "find", `{}`, `{}`)
	for expression, want := range map[string]string{
		"history._total < 2":           "calls 7, reproduced 7, unchanged 5, refused 2",
		"size(history.find) < 1":       "calls 7, reproduced 7, unchanged 3, refused 4",
		"!('refund' in history._list)": "calls 7, reproduced 7, unchanged 7",
		"started_at > timestamp('" + start.Add(4*time.Minute).Format(time.RFC3339) + "')": "calls 7, reproduced 7, unchanged 1, refused 6",
	} {
		if got := counts(s.replay(strings.Replace(base, "find: {}", "find: {input_restriction: {assertion: \""+expression+"\"}}", 1))); got != want {
			t.Errorf("%s: got %s, want %s", expression, got, want)
		}
	}
}

// TestEngagements_running does not guess what a call has seen of another one that had no result yet.
func TestEngagements_running(t *testing.T) {
	s := newSite(t, base)
	first, err := s.guard.Begin(t.Context(), oagent.Call{Binding: s.binding("ada"), Name: "find", Inputs: jsontext.Value(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.call("ada", "secret", `{}`, `{}`)
	if err := first.Finish(t.Context(), jsontext.Value(`{"n":1}`), 200); err != nil {
		t.Fatal(err)
	}
	_ = s.call("ada", "secret", `{}`, `{}`)
	changed := strings.Replace(base, "secret: {", "secret: {input_restriction: {assertion: recent.find.outputs != null}, ", 1)
	if got, want := counts(s.replay(changed)), "calls 3, reproduced 3, unchanged 2, undecidable 1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestEngagements_change_nothing compares the store before and after a replay.
func TestEngagements_change_nothing(t *testing.T) {
	s := newSite(t, base)
	traffic(s)
	state := func() string {
		page, _, err := s.guard.Engagements.Page(t.Context(), "", "", 100)
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for _, e := range page {
			text = append(text, fmt.Sprintf("%+v", *e))
		}
		return strings.Join(text, "\n")
	}
	before := state()
	s.now = s.now.Add(time.Hour)
	s.replay(strings.Replace(base, "amount < 500", "amount < 1", 1))
	if after := state(); after != before {
		t.Errorf("got\n%s\nbefore\n%s", after, before)
	}
}

// TestEngagements_canceled ends when the context does.
func TestEngagements_canceled(t *testing.T) {
	s := newSite(t, base)
	traffic(s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e := replay.Engagements{Records: s.guard.Engagements, Rules: map[string]replay.Rules{"clerk": {InForce: s.agent, Changed: s.agent}}}
	if err := e.Run(ctx, replay.NewReport(start, s.now)); err == nil {
		t.Error("there is no error")
	}
}

// TestReport_is_bounded adds calls of many users and rules.
func TestReport_is_bounded(t *testing.T) {
	r := replay.NewReport(start, start)
	const calls = 20_000
	for i := range calls {
		r.Add(replay.Case{
			At: start.Add(time.Duration(i)), Tool: "refund", User: fmt.Sprint("user", i), Recorded: replay.Decision{Verdict: replay.Allowed},
			InForce: replay.Decision{Verdict: replay.Allowed, Unknown: fmt.Sprint("reason ", i)}, Changed: replay.Decision{Verdict: replay.Refused, Rule: fmt.Sprint("rule ", i%2)},
		})
	}
	for i := range calls {
		r.Add(replay.Case{Changed: replay.Decision{Verdict: replay.Refused, Rule: fmt.Sprint("rule ", i)}, InForce: replay.Decision{Verdict: replay.Allowed}, Recorded: replay.Decision{Verdict: replay.Allowed}})
	}
	r.Finish()
	first := r.Rules[0]
	if got, want := fmt.Sprint(len(r.Rules), len(first.Users), len(first.Examples), len(r.Reasons), r.NewRefused), fmt.Sprint(1000, 50, 5, 21, 2*calls); got != want {
		t.Errorf("got %s rules, users, examples, reasons and refused calls, want %s", got, want)
	}
	n := first.Others
	for user := range maps.Values(first.Users) {
		n += user
	}
	if int64(n) != first.Changes {
		t.Errorf("got %d calls of users, want %d", n, first.Changes)
	}
	if !slices.IsSortedFunc(first.Examples, func(a, b replay.Case) int { return b.At.Compare(a.At) }) || first.Examples[0].At.Sub(start) < calls-3 {
		t.Errorf("the calls are not the newest: %v", first.Examples)
	}
}

// many makes Engagements with calls of a capability that reads its history.
func many(t testing.TB, engagements, calls int) *site {
	s := newSite(t, base)
	var callers sync.WaitGroup
	for first := range 50 {
		callers.Go(func() {
			for i := first; i < engagements*calls; i += 50 {
				if err := s.call(fmt.Sprint("user", i%engagements), "refund", `{"amount":100,"note":"some text that is recorded"}`, `{"ok":true,"id":"a-1"}`); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	return s
}

const manyRules = `
capabilities:
  refund: {input_restriction: {assertion: recent.refund.inputs.amount < 400 && history._total < 1000}, output_restriction: {assertion: recent.refund.outputs.ok}}
`

// measured is a store that measures the memory in use at each page of Engagements.
type measured struct {
	store.Store
	peak uint64
}

func (m *measured) Keys(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	m.peak = max(m.peak, heap())
	return m.Store.Keys(ctx, prefix, after, limit)
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// TestEngagements_memory replays ten times as many Engagements in the same memory.
func TestEngagements_memory(t *testing.T) {
	s := many(t, 5000, 1)
	all := map[string]replay.Rules{"clerk": {InForce: s.agent, Changed: read(t, manyRules)}}
	used := func(until int) uint64 {
		m, before := &measured{Store: s.store}, heap()
		e := replay.Engagements{Records: engagement.NewRecords(engagement.Options{Store: m, Now: time.Now}), Rules: all}
		report := replay.NewReport(start, start.Add(time.Duration(until)*time.Minute+time.Second))
		if err := e.Run(t.Context(), report); err != nil {
			t.Fatal(err)
		}
		if report.Calls < int64(until)-60 || report.Calls > int64(until)+60 { // those that were made at the same time
			t.Fatalf("got %d calls, want about %d", report.Calls, until)
		}
		return m.peak - min(before, m.peak)
	}
	used(100) // fills caches of the store
	few, most := used(500), used(5000)
	t.Logf("%d bytes are in use for 500 calls, %d for 5,000", few, most)
	if most > few+256<<10 {
		t.Errorf("%d bytes are in use for 5,000 calls, %d for 500", most, few)
	}
}

// BenchmarkEngagements compares a replay of one document by another with the evaluation of their rules alone.
func BenchmarkEngagements(b *testing.B) {
	s := many(b, 100, 10)
	s.agent = read(b, strings.ReplaceAll(manyRules, "400", "500"))
	changed := read(b, manyRules)
	var alone, whole time.Duration
	for b.Loop() {
		from := time.Now()
		for i := range 100 {
			binding := s.binding(fmt.Sprint("user", i))
			_ = s.guard.Engagements.Read(b.Context(), binding.Key(), func(tx *engagement.Tx) error {
				for range 10 {
					for _, a := range []*oagent.Agent{s.agent, changed} {
						p := assertion.Pending{Name: "refund", Nth: 1, Payloads: engagement.Payloads{
							Inputs: jsontext.Value(`{"amount":100,"note":"some text that is recorded"}`), Outputs: jsontext.Value(`{"ok":true,"id":"a-1"}`),
						}}
						_ = a.Capabilities[0].Input.Assertion.Check(b.Context(), &assertion.View{Tx: tx, Pending: &p})
						_ = a.Capabilities[0].Output.Assertion.Check(b.Context(), &assertion.View{Tx: tx, Pending: &p})
					}
				}
				return nil
			})
		}
		alone += time.Since(from)
		from = time.Now()
		s.run(replay.Engagements{Rules: map[string]replay.Rules{"clerk": {InForce: s.agent, Changed: changed}}}, start, s.now.Add(time.Hour))
		whole += time.Since(from)
	}
	b.ReportMetric(float64(whole)/float64(cmp.Or(alone, 1)), "replay/rules")
}
