package run

import (
	"fmt"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// planner determines the next step of a run. It runs inside transactions of the store, possibly
// several times, so it changes nothing but the state.
type planner struct {
	limits *Limits
	node   string
	agent  *oagent.Agent
}

// advance moves the state to the next step and returns the log entries about that step.
func (p planner) advance(st *State) []entry {
	switch st.Phase {
	case phaseTools:
		return p.advanceCalls(st)
	case phaseAnswer:
		if p.agent.Guardrail(engagement.SideOutput) == nil {
			p.finishAnswer(st)
		}
	}
	return nil
}

// advanceCalls begins the next calls, suspends the run, or continues with the model.
func (p planner) advanceCalls(st *State) []entry {
	if st.count(CallBegun) > 0 {
		return nil
	}
	if entries := st.beginCalls(p.node); entries != nil {
		return entries
	}
	if st.count(CallWaiting) > 0 {
		if st.Woken {
			st.Woken = false
			if st.replanWaiting() {
				return st.beginCalls(p.node)
			}
		}
		p.suspend(st)
		return nil
	}
	st.Calls = nil
	p.advanceTurn(st)
	return nil
}

// beginCalls marks the next calls as begun: idempotent ones together, others alone, in the order
// of the model. Calls that only fetch a held result count as idempotent.
func (s *State) beginCalls(node string) (entries []entry) {
	for i := range s.Calls {
		c := &s.Calls[i]
		if c.Status != CallPlanned {
			continue
		}
		repeatable := c.Idempotent || c.Wait != nil && c.Wait.Made
		if !repeatable && len(entries) > 0 {
			break
		}
		c.Status = CallBegun
		entries = append(entries, entry{Kind: entryBegun, Call: i, Name: c.Name, Node: node})
		s.CallsMade++
		if !repeatable || len(entries) == MaxParallel {
			break
		}
	}
	if entries != nil {
		s.Status = StatusAwaitingTool
	}
	return entries
}

// suspend releases the lease of a run whose calls wait, unless the user has already answered.
func (p planner) suspend(st *State) {
	if st.question() >= 0 && len(st.Inputs) > 0 {
		st.Status = StatusAwaitingModel
		return
	}
	st.Lease = nil
	st.Status = StatusAwaitingTool
	for _, w := range st.Waits() {
		switch w.Kind {
		case WaitQuestion, WaitCredentials:
			st.Status = StatusAwaitingInput
			return
		case WaitReview:
			st.Status = StatusAwaitingReview
		}
	}
}

// advanceTurn continues with the next input of the user, or with the model.
func (p planner) advanceTurn(st *State) {
	st.Status = StatusAwaitingModel
	if len(st.Inputs) > 0 {
		st.Phase = phaseInput
		return
	}
	switch {
	case st.Turns >= p.limits.Turns:
		st.end(StatusError, &Ending{Kind: EndLimit, Rule: "turns", Message: fmt.Sprintf(
			"the Engagement has reached its limit of %d turns of the model", p.limits.Turns)})
	case st.Usage.Total() >= p.limits.Tokens:
		st.end(StatusError, &Ending{Kind: EndLimit, Rule: "tokens", Message: fmt.Sprintf(
			"the Engagement has used %d tokens of the model; its limit is %d", st.Usage.Total(), p.limits.Tokens)})
	default:
		st.Phase = phaseModel
		st.Turns++
	}
}

// finishAnswer returns the answer to the user. If the user has sent more input in the meantime, the
// run continues with it.
func (p planner) finishAnswer(st *State) {
	st.Text, st.Answer = st.Answer, ""
	if len(st.Inputs) > 0 {
		p.advanceTurn(st)
		return
	}
	st.end(StatusComplete, nil)
}
