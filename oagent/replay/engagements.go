package replay

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/celenv"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/assertion"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

const (
	pageSize = 100  // Engagements, and entries of an Engagement, that are in memory
	maxOpen  = 1000 // calls of an Engagement whose result is awaited; others are judged without it
)

// Rules judge the calls of an agent.
type Rules struct {
	InForce, Changed *oagent.Agent
}

// Judge decides about a call of an Engagement by other rules than those of documents, such as the rule of a toolset. Inputs are nil if they are
// not recorded. If of is false, the call is not counted.
type Judge func(user engagement.User, name string, inputs jsontext.Value) (inForce, changed Decision, of bool)

// Engagements replays the records of Engagements. Set Rules or Judge.
type Engagements struct {
	Records *engagement.Records
	User    string           // only of this user; "" for all
	Rules   map[string]Rules // by name of the agent; other agents are not replayed
	Judge   Judge            // decides about the calls of all agents

	report *Report
	past   *engagement.Past
	of     *engagement.Summary
	rules  Rules
	at     int64 // number of the entry
	open   map[int64]*openCall

	view    assertion.View
	pending assertion.Pending
}

// openCall is a call whose result is not reached yet.
type openCall struct {
	Case
	inputs   jsontext.Value
	reviewed bool // it was judged when its review was requested, so only its result counts
}

// Run adds the calls from report.Since to report.Until to the report. The error is one of the store, or of ctx.
func (e *Engagements) Run(ctx context.Context, report *Report) error {
	e.report = report
	for after := ""; ; {
		page, next, err := e.Records.Page(ctx, e.User, after, pageSize)
		if err != nil {
			return err
		}
		for _, of := range page {
			if e.rules = e.Rules[of.Agent]; e.Judge == nil && e.rules.Changed == nil || of.LastAt.Before(report.Since) || !of.StartedAt.Before(report.Until) && of.Renewals == 0 {
				continue
			}
			if err := e.replay(ctx, of); err != nil {
				return err
			}
		}
		if after = next; after == "" {
			return nil
		}
	}
}

// replay judges the calls of one Engagement.
func (e *Engagements) replay(ctx context.Context, of *engagement.Summary) error {
	e.of, e.past, e.at, e.open = of, e.Records.Past(of), 0, make(map[int64]*openCall)
	for e.at < of.Entries {
		entries, err := e.Records.Log(ctx, of.Key, e.at, int(min(pageSize, of.Entries-e.at)))
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			break // it has expired
		}
		for i := range entries {
			if !entries[i].At.Before(e.report.Until) {
				e.closeAll()
				return nil
			}
			if err := e.entry(ctx, &entries[i]); err != nil {
				return err
			}
			e.past.Apply(&entries[i])
			e.at++
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	e.closeAll()
	return nil
}

// closeAll adds the calls without a result.
func (e *Engagements) closeAll() {
	for _, c := range e.open {
		e.add(c)
	}
	clear(e.open)
}

func (e *Engagements) add(c *openCall) {
	if c.At.Before(e.report.Since) || c.reviewed && c.Recorded == passed && c.InForce == passed && c.Changed == passed {
		return
	}
	e.report.Add(c.Case)
}

// entry judges what an entry records, by the state before it.
func (e *Engagements) entry(ctx context.Context, entry *engagement.Entry) error {
	switch entry.Event {
	case engagement.EntryBegun:
		return e.begun(ctx, entry)
	case engagement.EntryFinished, engagement.EntryHeld:
		return e.ended(ctx, entry)
	case engagement.EntryAborted, engagement.EntryLate:
		if c := e.open[entry.Call]; c != nil {
			delete(e.open, entry.Call)
			e.add(c)
		}
	case engagement.EntryRenewed:
		e.closeAll()
	case engagement.EntryRefused, engagement.EntryReview:
		return e.refused(ctx, entry)
	case engagement.EntryGuardrail:
		return e.guardrail(ctx, entry)
	}
	return nil
}

func (e *Engagements) newCase(entry *engagement.Entry, inputs jsontext.Value, recorded Decision) *openCall {
	return &openCall{inputs: inputs, Case: Case{
		At: entry.At, ID: e.of.Key + "." + strconv.FormatInt(e.at, 10), Engagement: e.of.Key, Tool: entry.Name, User: e.of.User.ID,
		Arguments: CutArguments(inputs), Recorded: recorded,
	}}
}

// begun judges the inputs of a call that was made. Its result is judged later. A call that a reviewer has approved was judged when the
// review was requested.
func (e *Engagements) begun(ctx context.Context, entry *engagement.Entry) error {
	c := e.newCase(entry, entry.Inputs, passed)
	isCounted, err := true, error(nil)
	if c.reviewed = entry.Review != ""; c.reviewed {
		c.InForce, c.Changed = c.Recorded, c.Recorded
	} else if !entry.At.Before(e.report.Since) {
		isCounted, err = e.inputs(ctx, c)
	}
	switch {
	case err != nil || !isCounted:
	case len(e.open) < maxOpen:
		e.open[entry.Call] = c
	default:
		e.add(c)
	}
	return err
}

// refused judges a call that was refused or held before it was made.
func (e *Engagements) refused(ctx context.Context, entry *engagement.Entry) error {
	recorded := Decision{Verdict: Refused, Rule: entry.Rule}
	switch {
	case entry.Event == engagement.EntryReview && entry.Side == engagement.SideInput:
		recorded.Verdict = Held
	case entry.Kind != engagement.KindNotAllowed && entry.Kind != engagement.KindInputRestriction:
		return nil // it was not these rules that decided
	}
	if entry.At.Before(e.report.Since) {
		return nil
	}
	inputs := entry.Inputs
	byInspector := recorded.Verdict == Held && !strings.HasSuffix(entry.Rule, requireReview)
	if byInspector { // which has masked values
		inputs = omit("masked by an inspector")
	}
	c := e.newCase(entry, inputs, recorded)
	if isCounted, err := e.inputs(ctx, c); err != nil || !isCounted {
		return err
	}
	if byInspector { // it requires the review in any case
		c.InForce, c.Changed = c.InForce.then(recorded), c.Changed.then(recorded)
	}
	e.add(c)
	return nil
}

// ended judges the result of a call.
func (e *Engagements) ended(ctx context.Context, entry *engagement.Entry) error {
	c := e.open[entry.Call]
	if c == nil {
		return nil
	}
	delete(e.open, entry.Call) // an expression reads it as the pending call
	outputs := entry.Outputs
	recorded := passed
	switch {
	case entry.Event == engagement.EntryHeld:
		recorded = Decision{Verdict: Held, Rule: "capabilities." + entry.Name + ".output_restriction" + requireReview}
		outputs = omit("held for a review")
	case entry.Kind == engagement.KindOutputRestriction:
		recorded = Decision{Verdict: Refused, Rule: entry.Rule}
		if strings.HasSuffix(entry.Rule, requireReview) {
			recorded.Verdict = Held // but no reviewer could see it
		}
		outputs = omit("withheld")
	case entry.Kind != "":
		e.add(c)
		return nil
	}
	if e.Judge == nil && !c.At.Before(e.report.Since) {
		if capability, ok := e.rules.InForce.Capability(entry.Name); ok && !capability.CollectResults && outputs == nil {
			outputs = omit("not collected")
		}
		e.pending = assertion.Pending{Name: entry.Name, Nth: entry.Nth, Payloads: engagement.Payloads{Inputs: c.inputs, Outputs: outputs}}
		inForce, changed, err := e.both(ctx, engagement.SideOutput, recorded)
		if err != nil {
			return err
		}
		c.Recorded, c.InForce, c.Changed = recorded, c.InForce.then(inForce), c.Changed.then(changed)
	}
	e.add(c)
	return nil
}

// inputs judges the inputs of a call. It reports whether the call counts.
func (e *Engagements) inputs(ctx context.Context, c *openCall) (isCounted bool, err error) {
	if e.Judge != nil {
		inputs := c.inputs
		if engagement.IsOmitted(inputs) {
			inputs = nil
		}
		c.Recorded = passed // the call has come as far as the agent's rules
		c.InForce, c.Changed, isCounted = e.Judge(e.of.User, c.Tool, inputs)
		return isCounted, nil
	}
	e.pending = assertion.Pending{Name: c.Tool, Payloads: engagement.Payloads{Inputs: c.inputs}}
	c.InForce, c.Changed, err = e.both(ctx, engagement.SideInput, c.Recorded)
	return true, err
}

// both decides about the pending call by both documents. A restriction that both have is evaluated once, and if it cannot be evaluated, it
// decides as it did.
func (e *Engagements) both(ctx context.Context, side engagement.Side, recorded Decision) (inForce, changed Decision, err error) {
	old, hasOld := e.rules.InForce.Capability(e.pending.Name)
	next, hasNext := e.rules.Changed.Capability(e.pending.Name)
	if inForce, err = e.decide(ctx, side, old); err != nil {
		return inForce, changed, err
	}
	switch {
	case hasOld != hasNext || hasOld && (old.LogOnly != next.LogOnly || !equal(restriction(old, side), restriction(next, side))):
		changed, err = e.decide(ctx, side, next)
	case inForce.Unknown != "":
		changed = recorded
	default:
		changed = inForce
	}
	return inForce, changed, err
}

// restriction returns a restriction, an empty one if the capability has none of that side.
func restriction(c *oagent.Capability, side engagement.Side) oagent.Restriction {
	r := c.Input
	if side == engagement.SideOutput {
		r = c.Output
	}
	if r == nil {
		return oagent.Restriction{}
	}
	return *r
}

func equal(a, b oagent.Restriction) bool {
	same := a.Assertion == nil && b.Assertion == nil || a.Assertion != nil && b.Assertion != nil && a.Assertion.Expression == b.Assertion.Expression
	return same && a.RequireReview == b.RequireReview
}

const requireReview = ".require_review"

// decide decides about the pending call as the guard does (oagent.Guard). The capability is nil if the agent does not have it.
// Restrictions in log only decide nothing.
func (e *Engagements) decide(ctx context.Context, side engagement.Side, c *oagent.Capability) (Decision, error) {
	switch {
	case c == nil:
		return Decision{Verdict: Refused, Rule: "capabilities"}, nil
	case c.LogOnly:
		return passed, nil
	}
	r := restriction(c, side)
	if r.Assertion != nil {
		unmet, err := e.evaluate(ctx, r.Assertion)
		if err != nil {
			return Decision{}, err
		}
		if d := decisionOf(r.Assertion.Rule, unmet); d.Verdict != Allowed || d.Unknown != "" {
			return d, nil
		}
	}
	if r.RequireReview != "" {
		return Decision{Verdict: Held, Rule: c.Rule() + "." + string(side) + "_restriction" + requireReview}, nil
	}
	return passed, nil
}

// evaluate evaluates an assertion over the Engagement as it was.
func (e *Engagements) evaluate(ctx context.Context, a *assertion.Assertion) (unmet, err error) {
	err = e.past.Read(ctx, func(t *engagement.Tx) error {
		e.view = assertion.View{Tx: t, Pending: &e.pending, Running: e.view.Running[:0]}
		for _, c := range e.open {
			if !slices.Contains(e.view.Running, c.Tool) {
				e.view.Running = append(e.view.Running, c.Tool)
			}
		}
		if unmet = a.Check(ctx, &e.view); e.view.Unread.Any() {
			return &engagement.UnreadError{Unread: e.view.Unread}
		}
		return ctx.Err()
	})
	return unmet, err
}

// decisionOf returns the decision of an assertion. A value that is not recorded, or an evaluation that took too long, leaves it open.
func decisionOf(rule string, unmet error) Decision {
	if unmet == nil {
		return passed
	}
	d := Decision{Verdict: Refused, Rule: rule}
	omitted, isOmitted := errors.AsType[*engagement.OmittedError](unmet)
	switch {
	case isOmitted:
		d.Unknown = "a value is not in the record: " + text.Cut(omitted.Why, 40)
	case errors.Is(unmet, identity.ErrUnknown):
		d.Unknown = identity.ErrUnknown.Error()
	case celenv.IsTimeout(unmet):
		d.Unknown = "the evaluation takes too long"
	}
	return d
}

// omit returns the placeholder of a value that the record does not have.
func omit(why string) jsontext.Value { return engagement.Omitted{Why: why}.JSON() }

// guardrail judges the output of a guardrail's tool.
func (e *Engagements) guardrail(ctx context.Context, entry *engagement.Entry) error {
	if e.Judge != nil || entry.At.Before(e.report.Since) || entry.Kind != "" && entry.Kind != engagement.KindGuardrail {
		return nil
	}
	c := e.newCase(entry, nil, passed)
	if entry.Kind != "" {
		c.Recorded = Decision{Verdict: Refused, Rule: entry.Rule}
	}
	decide := func(a *oagent.Agent) Decision {
		g := a.Guardrail(entry.Side)
		switch {
		case !a.Enforces(entry.Side):
			return passed
		case g.Tool != entry.Name:
			return Decision{Verdict: Allowed, Unknown: "the guardrail has another tool, which was not called"}
		case engagement.IsOmitted(entry.Outputs):
			return decisionOf(g.Assertion.Rule, engagement.OmissionOf(entry.Outputs))
		}
		return decisionOf(g.Assertion.Rule, g.Assertion.CheckOutput(ctx, entry.Outputs))
	}
	c.InForce, c.Changed = decide(e.rules.InForce), decide(e.rules.Changed)
	e.add(c)
	return nil
}

// Notes says what the records cannot show of changed documents.
func (r Rules) Notes() (notes []string) {
	for _, side := range []engagement.Side{engagement.SideInput, engagement.SideOutput} {
		if r.InForce.Guardrail(side) == nil && r.Changed.Guardrail(side) != nil {
			notes = append(notes, r.Changed.Name+": the guardrail of the "+string(side)+" is new, so no output of its tool is recorded")
		}
	}
	if old, next := r.InForce.ShortCircuit, r.Changed.ShortCircuit; old != next {
		notes = append(notes, r.Changed.Name+": lifespan.short_circuit differs, and is not replayed")
	}
	return notes
}
