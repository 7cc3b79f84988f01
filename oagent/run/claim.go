package run

import (
	"context"
	"crypto/rand"
)

// claim leases a run to this node. It returns nil if the run waits, or if another node works on it.
// In the latter case it sets State.Woken, so that the other node repeats the waiting calls before
// it releases the run. The error is ErrEnded if the run has ended.
func (r *Runner) claim(ctx context.Context, id string) (*execution, error) {
	e := &execution{runner: r, id: id, token: rand.Text()}
	claimed := false
	st, err := r.storage.change(ctx, id, func(st *State) ([]entry, error) {
		claimed = false
		now := r.options.Now()
		switch agent := r.options.Agent(st.Agent); {
		case st.Status.IsFinal():
			return nil, ErrEnded
		case agent == nil:
			return nil, errUnchanged
		case r.options.isHeld(st.Lease):
			if st.Woken {
				return nil, errUnchanged
			}
			st.Woken = true
			return nil, nil
		default:
			e.agent = agent
			e.planner = planner{limits: &r.options.Limits, node: r.options.Node, agent: agent}
		}
		st.replanInterrupted()
		if !st.replanWaiting() && st.isWaiting() {
			return nil, errUnchanged
		}
		claimed = true
		st.Woken = false
		if st.Tries++; st.Tries > maxTries {
			st.end(StatusError, &Ending{Kind: EndInternal, Message: "the server failed repeatedly at the same step; start a new Engagement"})
			return []entry{{Kind: entryEnded, Status: st.Status, Ending: st.Ending}}, nil
		}
		st.Lease = &lease{Node: r.options.Node, Token: e.token, Until: now.Add(r.options.Lease).UTC()}
		st.Steps++
		entries := append([]entry{{Kind: entryResumed, Node: r.options.Node}}, e.planner.advance(st)...)
		if st.Status.IsFinal() {
			entries = append(entries, entry{Kind: entryEnded, Status: st.Status, Ending: st.Ending})
		}
		return entries, nil
	})
	if err != nil || !claimed {
		return nil, err
	}
	e.since = r.options.Now()
	ctx, e.endTrace = r.options.Trace(ctx, st)
	e.ctx, e.cancel = context.WithCancelCause(ctx)
	if err := e.load(st); err != nil {
		e.cancel(nil)
		e.endTrace(st)
		return nil, err
	}
	return e, nil
}

// replanInterrupted replans the calls that a dead node had begun. A call that is not idempotent may
// have been made, and must not be made again.
func (s *State) replanInterrupted() {
	for i := range s.Calls {
		if c := &s.Calls[i]; c.Status == CallBegun {
			c.Status = CallPlanned
			c.Uncertain = c.Uncertain || !c.Idempotent
		}
	}
}

// replanWaiting replans the calls that wait, except questions to the user. It reports whether there
// are any.
func (s *State) replanWaiting() (any bool) {
	for i := range s.Calls {
		if c := &s.Calls[i]; c.Status == CallWaiting && c.Wait.Kind != WaitQuestion {
			c.Status = CallPlanned
			c.Uncertain = c.Uncertain || c.Wait.Made
			any = true
		}
	}
	return any
}

// isWaiting reports whether the run cannot continue before an external event.
func (s *State) isWaiting() bool {
	if s.Phase != phaseTools || s.count(CallWaiting) == 0 || s.count(CallPlanned) > 0 || s.count(CallBegun) > 0 {
		return false
	}
	return s.question() < 0 || len(s.Inputs) == 0
}

// question returns the index of the call that waits for an answer from the user, or -1.
func (s *State) question() int {
	for i := range s.Calls {
		if c := &s.Calls[i]; c.Status == CallWaiting && c.Wait.Kind == WaitQuestion {
			return i
		}
	}
	return -1
}

// load reads the conversation and the tools of a run.
func (e *execution) load(st *State) error {
	e.state, e.binding = st, st.binding(e.agent)
	if err := e.runner.storage.entries(e.ctx, e.id, e.conversation.add); err != nil {
		return err
	}
	e.tools = newToolbox(e.agent, e.runner.options.Tools, func(err error) { e.runner.report(e.id, err) })
	return nil
}
