package oagent_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
)

// editable returns a call that reviewers may change.
func editable(a *oagent.Agent, inputs string) oagent.Call {
	c := call(a, "pay", inputs)
	c.Editable, c.NoWait = true, true
	return c
}

// edit approves the only open review of a reviewer with other inputs.
func edit(t *testing.T, g *oagent.Guard, reviewer, user, inputs string) *review.Review {
	t.Helper()
	r, err := g.Reviews.ApproveEdited(t.Context(), openReview(t, g, reviewer), reviewer, engagement.Decider{User: user, Entry: user}, jsontext.Value(inputs), "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// openReview returns the id of the only open review of a reviewer.
func openReview(t *testing.T, g *oagent.Guard, reviewer string) string {
	t.Helper()
	open, err := g.Reviews.List(t.Context(), reviewer)
	if err != nil || len(open) != 1 {
		t.Fatalf("%s has %d reviews, error %v", reviewer, len(open), err)
	}
	return open[0].ID
}

// repeat makes the call of a client as package route does: with the inputs of a reviewer if the Guard says so. inspect sets what
// inspectors require of these inputs; it may be nil.
func repeat(t *testing.T, g *oagent.Guard, c oagent.Call, inspect func(*oagent.Call)) (*oagent.Ticket, error) {
	t.Helper()
	for range 8 {
		if inspect != nil {
			inspect(&c)
		}
		ticket, err := g.Begin(t.Context(), c)
		changed, ok := errors.AsType[*oagent.Edit](err)
		if !ok {
			return ticket, err
		}
		c.Edit, c.Inputs = changed, changed.Inputs
	}
	t.Fatal("the inputs never stop changing")
	return nil, nil
}

// TestEdit_makes_the_call_once_with_the_inputs_of_the_reviewer has both versions, and who changed them, in the record.
func TestEdit_makes_the_call_once_with_the_inputs_of_the_reviewer(t *testing.T) {
	a := agent(t, reviewed)
	g := newGuard(t, oagent.GuardOptions{Store: openBolt(t)})
	pay := editable(a, `{"amount":480,"to":"x","urgent":true}`)
	_, err := repeat(t, g, pay, nil)
	want(t, "the first call", kindOf(t, err), engagement.KindReviewPending)
	r := edit(t, g, "boss", "ann", `{"amount":300,"to":"x","note":"half"}`)
	const changes = `amount from 480 to 300, urgent removed, note added as "half"`
	if r.Status != engagement.ReviewApproved || r.Changed != changes || string(r.Inputs) != string(pay.Inputs) {
		t.Errorf("the review has %s %q with the inputs %s", r.Status, r.Changed, r.Inputs)
	}
	ticket, err := repeat(t, g, pay, nil)
	if err != nil {
		t.Fatal(err)
	}
	if ticket.Changed != changes || ticket.Review != r.ID || ticket.Number != 1 {
		t.Errorf("the ticket has %+v", ticket)
	}
	if err := ticket.Finish(t.Context(), jsontext.Value(`{"ok":true}`), 200); err != nil {
		t.Fatal(err)
	}
	var was, is, begun string
	for _, e := range audit(t, g, pay.Key()) {
		switch e.Event {
		case engagement.EntryReview:
			was = string(e.Inputs)
		case engagement.EntryDecided:
			is = e.DecidedBy.User + " " + e.Why + " " + string(e.Inputs)
		case engagement.EntryBegun:
			begun += string(e.Inputs) + e.Review
		}
	}
	if was != string(pay.Inputs) || is != `ann changed amount, urgent, note {"amount":300,"to":"x","note":"half"}` || begun != `{"amount":300,"to":"x","note":"half"}`+r.ID {
		t.Errorf("the record has %s, then %s, then %s", was, is, begun)
	}
	_, err = repeat(t, g, pay, nil)
	if want(t, "a further identical call", kindOf(t, err), engagement.KindReviewPending); openReview(t, g, "boss") == r.ID {
		t.Error("the approval was used twice")
	}
	if _, err = g.Begin(t.Context(), editable(a, `{"amount":300,"to":"x","note":"half"}`)); kindOf(t, err) != engagement.KindReviewPending {
		t.Errorf("a call of the client with the inputs of the reviewer: %v", err)
	}
}

// TestEdit_does_not_lift_other_rules decides about the inputs of the reviewer as about those of a client.
func TestEdit_does_not_lift_other_rules(t *testing.T) {
	a := agent(t, reviewed)
	changed := agent(t, strings.Replace(reviewed, "1000", "2000", 1))
	for name, c := range map[string]struct {
		inputs string
		change func(*oagent.Call)
		kind   engagement.Kind
	}{
		"a restriction":           {`{"amount":1000}`, nil, engagement.KindInputRestriction},
		"the document changed":    {`{"amount":3}`, func(c *oagent.Call) { c.Agent = changed }, engagement.KindReviewPending},
		"a request that is plain": {`{"amount":3}`, func(c *oagent.Call) { c.Editable = false }, engagement.KindReviewPending},
		"no change":               {`{"amount": 5 }`, nil, ""},
		"a header that overrides": {`{"amount":3}`, func(c *oagent.Call) {
			if c.Edit != nil {
				c.Inputs = jsontext.Value(`{"amount":4}`)
			}
		}, engagement.KindInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuard(t, oagent.GuardOptions{Store: openBolt(t)})
			pay := editable(a, `{"amount":5}`)
			_, err := repeat(t, g, pay, nil)
			want(t, "the first call", kindOf(t, err), engagement.KindReviewPending)
			edit(t, g, "boss", "ann", c.inputs)
			_, err = repeat(t, g, pay, c.change)
			want(t, "the repeated call", kindOf(t, err), c.kind)
		})
	}
}

// TestEdit_is_decided_by_the_other_reviewers_too requires that a reviewer approves the inputs that another one has changed, also if it
// has approved those before, or if only the new inputs require it.
func TestEdit_is_decided_by_the_other_reviewers_too(t *testing.T) {
	a := agent(t, reviewed)
	audited := func(isWanted func(string) bool) func(*oagent.Call) {
		return func(c *oagent.Call) {
			c.Originals, c.Inspected = newOriginals(), nil
			if isWanted(string(c.Inputs)) {
				c.Inspected = &oagent.Inspected{Inputs: c.Inputs, Required: []oagent.RequiredReview{{Reviewer: "audit", Rule: "inspect.limit", Inspector: "limit"}}}
			}
		}
	}
	const before, after = `{"amount":5}`, `{"amount":7}`
	for name, c := range map[string]struct {
		inspect func(*oagent.Call)
		edits   []string // by whom, in order; others approve
	}{
		"the first changes":                {audited(func(string) bool { return true }), []string{"boss", ""}},
		"the second changes":               {audited(func(string) bool { return true }), []string{"", "audit", ""}},
		"only the new inputs require it":   {audited(func(inputs string) bool { return inputs == after }), []string{"boss", ""}},
		"only the old inputs required two": {audited(func(inputs string) bool { return inputs == before }), []string{"boss"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuard(t, oagent.GuardOptions{Store: openBolt(t)})
			pay := editable(a, before)
			var editor string
			for i, by := range c.edits {
				_, err := repeat(t, g, pay, c.inspect)
				want(t, "before decision", kindOf(t, err), engagement.KindReviewPending)
				reviewer := "boss"
				if open, _ := g.Reviews.List(t.Context(), "boss"); len(open) == 0 {
					reviewer = "audit"
				}
				if by != "" && by != reviewer {
					t.Fatalf("decision %d is one of %s, want %s", i, reviewer, by)
				}
				r, err := g.Reviews.Get(t.Context(), openReview(t, g, reviewer), reviewer)
				if err != nil || r.Editor != editor {
					t.Fatalf("the review has the editor %q, want %q, error %v", r.Editor, editor, err)
				}
				if by != "" {
					editor = "user of " + by
					edit(t, g, reviewer, editor, after)
				} else if _, err := g.Reviews.Decide(t.Context(), r.ID, reviewer, true, ""); err != nil {
					t.Fatal(err)
				}
			}
			ticket, err := repeat(t, g, pay, c.inspect)
			if err != nil || ticket.Changed != "amount from 5 to 7" {
				t.Fatalf("got %+v, %v", ticket, err)
			}
			e, err := g.Engagements.Get(t.Context(), pay.Key())
			if err != nil || len(e.Reviews) > 0 || e.Total != 1 {
				t.Errorf("after the call there are the reviews %v and %d calls, error %v", e.Reviews, e.Total, err)
			}
		})
	}
}

// TestEdit_result_is_held_for_the_client finds the held result of the changed call by the inputs of the client.
func TestEdit_result_is_held_for_the_client(t *testing.T) {
	a := agent(t, "\ncapabilities:\n  pay:\n    input_restriction: {require_review: boss}\n    output_restriction: {require_review: audit}\n")
	g := newGuard(t, oagent.GuardOptions{Store: openBolt(t)})
	pay := editable(a, `{"amount":5}`)
	_, err := repeat(t, g, pay, nil)
	want(t, "the first call", kindOf(t, err), engagement.KindReviewPending)
	edit(t, g, "boss", "ann", `{"amount":3}`)
	ticket, err := repeat(t, g, pay, nil)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "the result", kindOf(t, ticket.Finish(t.Context(), jsontext.Value(`{"ok":true}`), 200)), engagement.KindReviewPending)
	r, err := g.Reviews.Get(t.Context(), openReview(t, g, "audit"), "audit")
	if err != nil {
		t.Fatal(err)
	}
	if string(r.Inputs) != `{"amount":3}` || r.Changed != "amount from 5 to 3" || r.Editable {
		t.Errorf("the review of the result is %+v", r)
	}
	if _, err := g.Reviews.ApproveEdited(t.Context(), r.ID, "audit", engagement.Decider{User: "eve"}, jsontext.Value(`{}`), ""); !errors.Is(err, review.ErrNotEditable) {
		t.Errorf("changing the inputs of a call that was made: %v", err)
	}
	if _, err := g.Reviews.Decide(t.Context(), r.ID, "audit", true, ""); err != nil {
		t.Fatal(err)
	}
	if ticket, err = repeat(t, g, pay, nil); err != nil || ticket.Replayed == nil || ticket.Changed != "amount from 5 to 3" {
		t.Errorf("got %+v, %v", ticket, err)
	}
}

// TestEdit_of_a_decision is final: the same one can be repeated, and another one cannot. What the record has no room for is refused.
func TestEdit_of_a_decision(t *testing.T) {
	a := agent(t, reviewed)
	g := newGuard(t, oagent.GuardOptions{Store: openBolt(t), MaxPayload: 100})
	pay := editable(a, `{"amount":5}`)
	_, err := repeat(t, g, pay, nil)
	want(t, "the first call", kindOf(t, err), engagement.KindReviewPending)
	id := openReview(t, g, "boss")
	by := engagement.Decider{User: "ann", Entry: "ann"}
	for _, c := range []struct {
		inputs string
		err    error
	}{
		{`{"amount":5,"note":"` + strings.Repeat("x", 100) + `"}`, review.ErrTooLarge},
		{`{"amount":3}`, nil},
		{`{ "amount": 3 }`, nil},
		{`{"amount":4}`, review.ErrDecided},
		{`{"amount":5}`, review.ErrDecided}, // no change
	} {
		if _, err := g.Reviews.ApproveEdited(t.Context(), id, "boss", by, jsontext.Value(c.inputs), ""); !errors.Is(err, c.err) {
			t.Errorf("%s: got %v, want %v", c.inputs, err, c.err)
		}
	}
	for _, approve := range []bool{true, false} {
		if _, err := g.Reviews.Decide(t.Context(), id, "boss", approve, ""); !errors.Is(err, review.ErrDecided) {
			t.Errorf("another decision: got %v", err)
		}
	}
	ticket, err := repeat(t, g, pay, nil)
	if err != nil || ticket.Changed != "amount from 5 to 3" {
		t.Errorf("got %+v, %v", ticket, err)
	}
	plain := pay
	plain.Editable, plain.Inputs = false, jsontext.Value(`{"amount":6}`)
	_, err = g.Begin(t.Context(), plain)
	want(t, "a plain request", kindOf(t, err), engagement.KindReviewPending)
	if _, err := g.Reviews.ApproveEdited(t.Context(), openReview(t, g, "boss"), "boss", by, jsontext.Value(`{"amount":3}`), ""); !errors.Is(err, review.ErrNotEditable) {
		t.Errorf("changing a plain request: %v", err)
	}
}

// TestEdit_is_used_by_one_of_two_calls makes one call. The other one must be repeated.
func TestEdit_is_used_by_one_of_two_calls(t *testing.T) {
	a := agent(t, reviewed)
	g := newGuard(t, oagent.GuardOptions{Store: openBolt(t)})
	pay := editable(a, `{"amount":5}`)
	_, err := repeat(t, g, pay, nil)
	want(t, "the first call", kindOf(t, err), engagement.KindReviewPending)
	id := edit(t, g, "boss", "ann", `{"amount":3}`).ID
	_, err = g.Begin(t.Context(), pay)
	changed, ok := errors.AsType[*oagent.Edit](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	if _, err = repeat(t, g, pay, nil); err != nil {
		t.Fatal(err)
	}
	late := pay
	late.Edit, late.Inputs = changed, changed.Inputs
	_, err = g.Begin(t.Context(), late)
	r := refusal(t, err)
	if want(t, "the other call", r.Kind, engagement.KindReviewPending); r.Review == id || r.RetryAfter == 0 {
		t.Errorf("got %+v", r)
	}
	if open, err := g.Reviews.List(t.Context(), "boss"); err != nil || len(open) != 0 {
		t.Errorf("it requests the reviews %v, error %v", open, err)
	}
}
