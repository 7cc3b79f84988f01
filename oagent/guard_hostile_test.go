package oagent_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// TestValues wants no spelling of a value to pass a limit that it is beyond.
func TestValues(t *testing.T) {
	a := agent(t, `
capabilities:
  below:
    input_restriction: {assertion: recent.below.inputs.n < 5}
  not-above:
    input_restriction: {assertion: '!(recent.not-above.inputs.n >= 5)'}
  path:
    input_restriction: {assertion: 'recent.path.inputs.p.startsWith("public/") && !recent.path.inputs.p.contains("..")'}
  either:
    input_restriction: {assertion: 'recent.either.inputs.n < 5 || user.id == "bob"'}
`)
	g := newGuard(t, oagent.GuardOptions{})
	const refused = engagement.KindInputRestriction
	for n, wanted := range map[string]engagement.Kind{
		`4`: "", `-0`: "", `-0.0`: "", `5e-1`: "", `0.4e1`: "", `-9223372036854775808`: "",
		`5`: refused, `5.0`: refused, `5e0`: refused, `4.9999999999999999999`: refused, `9223372036854775808`: refused, `1e400`: refused, `-1e400`: refused,
		`-99999999999999999999`: refused, `null`: refused, `"4"`: refused, `[4]`: refused, `{"n":4}`: refused, `true`: refused,
	} {
		for _, name := range []string{"below", "not-above", "either"} {
			want(t, name+" "+n, outcomeOf(t, g, call(a, name, `{"n":`+n+`}`), `{}`), wanted)
		}
	}
	for inputs, wanted := range map[string]engagement.Kind{
		`{}`: refused, `{"N":4}`: refused, `{"n ":4}`: refused, `{"\u006e":4}`: "", `{"n":9,"n":4}`: engagement.KindInvalid, `[]`: engagement.KindInvalid,
		`{"n":4}{"n":9}`: engagement.KindInvalid, `{"n":"` + "\xff" + `"}`: engagement.KindInvalid, `{"_shed":1,"n":4}`: refused,
	} {
		want(t, inputs, outcomeOf(t, g, call(a, "below", inputs), `{}`), wanted)
	}
	for path, wanted := range map[string]engagement.Kind{
		`public/a`: "", `\u0070ublic/a`: "", `Public/a`: refused, `ｐublic/a`: refused, `public/../a`: refused, `public/\u002e./a`: refused,
		`public/` + strings.Repeat("a", 70_000): refused, // longer than what is looked at
	} {
		want(t, path[:min(20, len(path))], outcomeOf(t, g, call(a, "path", `{"p":"`+path+`"}`), `{}`), wanted)
	}
	bob := call(a, "either", `{}`)
	bob.User.ID = "bob"
	want(t, "what does not matter need not be there", outcomeOf(t, g, bob, `{}`), "")
}

// TestLongValues wants no call to hold its Engagement for long, whatever it is
// made of.
func TestLongValues(t *testing.T) {
	a := agent(t, `
capabilities:
  act: {}
  look:
    input_restriction:
      assertion: history.act.all(c, !(c.inputs.id in recent.look.inputs.ids))
`)
	g := newGuard(t, oagent.GuardOptions{Store: hasty{openBolt(t)}})
	for i := range 2000 {
		want(t, "act", outcomeOf(t, g, call(a, "act", fmt.Sprintf(`{"id":"x%d"}`, i)), `{}`), "")
	}
	began := time.Now()
	want(t, "look", outcomeOf(t, g, call(a, "look", `{"ids":["`+strings.Repeat(`a","`, 9990)+`"]}`), `{}`), engagement.KindInputRestriction)
	// The refusal shows that the evaluation was cut off, because the assertion would hold.
	if took := time.Since(began); took > testkit.Patience {
		t.Errorf("it took %s", took)
	}
}

// TestTicketOrder wants a ticket to be used once, in whichever way.
func TestTicketOrder(t *testing.T) {
	a := agent(t, "capabilities: {act: {}}\nlifespan: {short_circuit: 3}\n")
	g := newGuard(t, oagent.GuardOptions{})
	begin := func() *oagent.Ticket {
		ticket, err := g.Begin(t.Context(), call(a, "act", `{}`))
		if err != nil {
			t.Fatal(err)
		}
		return ticket
	}
	first := begin()
	first.Abort(t.Context(), strings.Repeat("a", 10_000))
	first.Abort(t.Context(), "again")
	want(t, "Finish after Abort", kindOf(t, first.Finish(t.Context(), jsontext.Value(`{}`), 200)), engagement.KindInvalid)
	second := begin()
	want(t, "Finish", kindOf(t, second.Finish(t.Context(), jsontext.Value(`{}`), 200)), "")
	want(t, "Finish again", kindOf(t, second.Finish(t.Context(), jsontext.Value(`{}`), 200)), engagement.KindInvalid)
	second.Abort(t.Context(), "after Finish")
	// A call that was aborted is one that was made, as far as anyone knows.
	want(t, "the third", outcomeOf(t, g, call(a, "act", `{}`), `{}`), engagement.KindShortCircuit)
	b := binding(a)
	entries := audit(t, g, b.Key())
	if got := whats(entries); got != "begun aborted begun finished refused:short_circuit" || len(entries[1].Why) > 3000 {
		t.Errorf("%s, %d bytes", got, len(entries[1].Why))
	}
}

// TestAgent_is_no_tool wants oagent://name not to let the tool of that name pass.
func TestAgent_is_no_tool(t *testing.T) {
	a := agent(t, "capabilities:\n  oagent://planner: {}\n  helper: {}\n")
	g := newGuard(t, oagent.GuardOptions{})
	for name, wanted := range map[string]engagement.Kind{"planner": engagement.KindNotAllowed, "helper": ""} {
		c := call(a, name, `{}`)
		want(t, "the tool "+name, outcomeOf(t, g, c, `{}`), wanted)
		c.IsAgent = true
		want(t, "the agent "+name, outcomeOf(t, g, c, `{}`), "")
	}
}

// TestReviewFaults wants no more calls to pass than were approved, and no result to
// be released twice, whatever the store makes of a change. Only calls that are made
// at the same time share a result.
func TestReviewFaults(t *testing.T) {
	for name, document := range map[string]string{"inputs": reviewed, "outputs": held} {
		t.Run(name, func(t *testing.T) {
			a := agent(t, document)
			plain := openBolt(t)
			sure := newGuard(t, oagent.GuardOptions{Store: plain})
			g := newGuard(t, oagent.GuardOptions{Store: &faulty{Store: plain, fails: true}})
			var given, made atomic.Int64
			approved := int64(0)
			for range 40 {
				var all sync.WaitGroup
				for range 4 {
					all.Go(func() {
						ticket, err := g.Begin(t.Context(), call(a, "pay", `{"amount":5}`))
						if err != nil {
							kindOf(t, err)
							return
						}
						if ticket.Replayed == nil {
							made.Add(1)
						}
						if ticket.Finish(t.Context(), jsontext.Value(`{"ok":true}`), 200) == nil {
							given.Add(1)
						}
					})
				}
				all.Wait()
				reviews, err := sure.Reviews.List(t.Context(), "boss")
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range reviews {
					if _, err := sure.Reviews.Decide(t.Context(), r.ID, "boss", true, ""); err == nil {
						approved++
					}
				}
			}
			if name == "inputs" && (given.Load() > approved || made.Load() > approved) || given.Load() == 0 {
				t.Errorf("%d were given and %d made, %d approved", given.Load(), made.Load(), approved)
			}
			b := binding(a)
			released, begun := 0, int64(0)
			for _, e := range audit(t, sure, b.Key()) {
				switch e.Event {
				case engagement.EntryBegun:
					begun++
				case engagement.EntryReleased:
					released++
				}
			}
			if int64(released) > approved || begun < made.Load() {
				t.Errorf("%d released, %d approved; %d begun, %d made", released, approved, begun, made.Load())
			}
		})
	}
}
