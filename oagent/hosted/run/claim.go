package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

// claim leases a run to this node. It returns nil if the run waits, or if another node works on it.
// In the latter case it sets State.Woken, so that the other node repeats the waiting calls before
// it releases the run. The error is ErrEnded if the run has ended.
//
// first is true if this node is not working on the run: then a lease of this node is left from work that
// failed, and is replaced.
func (r *Runner) claim(ctx context.Context, id string, first bool) (*execution, error) {
	e := &execution{runner: r, id: id, terms: r.terms}
	e.terms.Failed = func(err error) { r.report(id, err) }
	var taken lease.Lease
	st, err := r.storage.change(ctx, id, func(st *State) ([]entry, error) {
		taken = lease.Lease{}
		switch agent := r.options.Agent(st.Agent); {
		case st.Status.IsFinal():
			return nil, ErrEnded
		case agent == nil:
			return nil, errUnchanged
		case st.isPaused(&r.terms):
			return nil, errUnchanged
		case r.terms.IsHeld(&st.Lease) && (!first || st.Lease.Node != r.options.Node):
			if st.Woken {
				return nil, errUnchanged
			}
			st.Woken = true
			return nil, nil
		case !first: // the other work on this node is about to claim it, or has ended; see activities.end
			return nil, errUnchanged
		default:
			e.agent = agent
			e.planner = planner{limits: r.options.limitsOf(st.Agent), node: r.options.Node, agent: agent}
		}
		st.replanInterrupted()
		if !st.replanWaiting() && st.isWaiting() {
			return nil, errUnchanged
		}
		st.Woken = false
		r.terms.Take(&st.Lease)
		if taken = st.Lease; taken.Tries > maxTries {
			st.end(StatusError, &Ending{Kind: EndInternal, Message: "the server failed repeatedly at the same step; start a new Engagement"})
			return []entry{{Kind: entryEnded, Status: st.Status, Ending: st.Ending}}, nil
		}
		entries := append([]entry{{Kind: entryResumed, Node: r.options.Node}}, e.planner.advance(st)...)
		if st.Status.IsFinal() {
			entries = append(entries, entry{Kind: entryEnded, Status: st.Status, Ending: st.Ending})
		}
		return entries, nil
	})
	if errors.Is(err, ErrEnded) { // another node may have canceled it
		r.active.interrupt(id, st.Round)
	}
	if err != nil || taken.Token == "" {
		return nil, err
	}
	e.round = st.Round
	e.claim = lease.Hold(&e.terms, e.transact, &taken)
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
		if c := &s.Calls[i]; c.Status == callBegun {
			c.Status = callPlanned
			c.Uncertain = c.Uncertain || !c.Idempotent
		}
	}
}

// replanWaiting replans the calls that wait, except questions to the user. It reports whether there
// are any.
func (s *State) replanWaiting() (any bool) {
	for i := range s.Calls {
		if c := &s.Calls[i]; c.Status == CallWaiting && c.Wait.Kind != WaitQuestion {
			c.Status = callPlanned
			c.Uncertain = c.Uncertain || c.Wait.Made
			any = true
		}
	}
	return any
}

// isWaiting reports whether the run cannot continue before an external event.
func (s *State) isWaiting() bool {
	if s.Phase != phaseTools || s.count(CallWaiting) == 0 || s.count(callPlanned) > 0 || s.count(callBegun) > 0 {
		return false
	}
	return !s.hasReply()
}

// isPaused reports whether the run waits for its model, and the time of the next request has not come.
func (s *State) isPaused(t *lease.Terms) bool { return s.Lease.Token == "" && !t.IsFree(&s.Lease) }

// load reads the conversation and the tools of a run.
func (e *execution) load(st *State) error {
	e.state, e.binding = st, st.binding(e.agent)
	if err := e.runner.storage.entries(e.ctx, e.id, e.conversation.add); err != nil {
		return err
	}
	e.tools = newToolbox(e.agent, e.runner.options.Tools, st.Review != "", e.planner.limits.Questions, func(err error) { e.runner.report(e.id, err) })
	return nil
}

// sweepRegularly sweeps at once, and then at least every Options.Sweep. It finds runs whose node died,
// whose job was lost, or whose review was decided while no node was running.
func (r *Runner) sweepRegularly() {
	for {
		err := r.sweep(r.running)
		r.report("", err)
		spread := r.options.Sweep - rand.N(r.options.Sweep/2) //nolint:gosec // only spreads the load
		if err != nil {
			spread = min(spread, maxRetryPause)
		}
		if pause(r.running, spread); r.running.Err() != nil {
			return
		}
	}
}

// sweep checks each run that has not ended.
func (r *Runner) sweep(ctx context.Context) error {
	all, err := r.index.all(ctx)
	if err != nil {
		return err
	}
	failures, waiting, queued := 0, int64(0), int64(0)
	unlisted, agents := r.shares.ids(), make(map[string]bool)
	for _, run := range all {
		delete(unlisted, run.id)
		switch found, err := r.checkRun(ctx, run, agents); {
		case err != nil:
			r.report(run.id, err) // continue: the error may concern this run only
			if failures++; failures == maxFailures {
				return errors.New("too many runs cannot be read; the sweep is repeated later")
			}
		case found == runWaits:
			waiting++
		case found == runQueued:
			queued++
		}
	}
	for id := range unlisted {
		r.shares.release(id)
	}
	r.announceAgents(ctx, agents)
	r.waiting.Store(waiting)
	r.queued.Store(queued)
	return nil
}

const maxFailures = 10 // of one sweep

// sweptRun is what a sweep has found about a run.
type sweptRun int

const (
	runEnded sweptRun = iota
	runBusy           // a node works on it
	runWaits
	runQueued
)

// checkRun adds a job for a run that can continue, and counts the run as its user's if it does not wait. It
// adds the agent to agents if this node hosts it.
func (r *Runner) checkRun(ctx context.Context, run indexed, agents map[string]bool) (sweptRun, error) {
	st, err := r.storage.get(ctx, run.id)
	if err == nil && run.round > st.Round {
		st, err = r.storage.skipRound(ctx, run)
	}
	switch {
	case isNotFound(err):
		r.shares.release(run.id)
		return runEnded, r.index.remove(ctx, run)
	case err != nil:
		return runEnded, err
	case run.round < st.Round: // its node died before it called finalize, and a later round has an entry of its own
		return runEnded, r.index.remove(ctx, run)
	case st.Status.IsFinal(): // its node died before it called finalize
		r.shares.release(run.id)
		r.finalize(ctx, st)
		return runEnded, nil
	}
	r.report(st.ID, r.storage.moveNotices(ctx, st)) // its node died before it did
	waits, paused := st.isWaiting(), st.isPaused(&r.terms)
	if waits {
		r.shares.release(run.id)
	} else {
		r.shares.hold(&st.Assignment)
	}
	if r.options.Agent(st.Agent) != nil {
		agents[st.Agent] = true
	}
	if at := st.retryAt(); paused && r.options.Queue == nil && at.Sub(r.options.Now()) < 2*r.options.Sweep {
		r.wakeAt(st.ID, at) // this process may have been started since
	}
	found := runQueued
	switch {
	case r.terms.IsHeld(&st.Lease):
		return runBusy, nil
	case waits, paused:
		found = runWaits
	}
	switch {
	case !agents[st.Agent]:
		return found, r.endWithoutAgent(ctx, st)
	case r.options.Queue != nil && r.options.Now().Sub(st.Changed) < r.options.Sweep:
		return found, nil // its job is probably in the queue
	case paused, waits && !r.mayResume(ctx, st):
		return found, nil
	}
	if st.Home != "" && st.Home != r.options.Node {
		if alive, err := r.nodes.isAlive(ctx, st.Home); alive {
			return found, err
		}
	}
	r.queue.push(st.job())
	return found, nil
}

// skipRound makes sure that a round that is in the index, but not in the state, does not begin any more: the node that
// prepared it may have died. If that node is alive, it prepares the next round (errOtherRound).
func (s *storage) skipRound(ctx context.Context, run indexed) (*State, error) {
	return s.change(ctx, run.id, func(st *State) ([]entry, error) {
		if st.Round >= run.round {
			return nil, errUnchanged
		}
		st.Round = run.round
		return nil, nil
	})
}

// mayResume reports whether a run that waits may be able to continue: it waits for a task, or one of
// its reviews is no longer pending.
func (r *Runner) mayResume(ctx context.Context, st *State) bool {
	var reviews []string
	for _, w := range st.Waits() {
		switch w.Kind {
		case WaitTask, WaitHome:
			return true
		case WaitReview:
			reviews = append(reviews, w.ID)
		}
	}
	if reviews == nil {
		return false
	}
	b := st.binding(r.options.Agent(st.Agent))
	summary, err := r.options.Guard.Engagements.Get(ctx, b.Key())
	if err != nil {
		return isEngagementGone(err)
	}
	return slices.ContainsFunc(reviews, func(id string) bool { return !slices.Contains(summary.Pending, id) })
}

func isEngagementGone(err error) bool { return errors.Is(err, engagement.ErrNotFound) }

// hostedKey is followed by the name of an agent. The record exists while a node has runs of the agent and
// hosts it, and for Options.AgentGrace after that.
const hostedKey = "run-agent/"

// announceAgents records that this node hosts the agents of runs.
func (r *Runner) announceAgents(ctx context.Context, agents map[string]bool) {
	for name := range agents {
		r.report("", r.options.Store.Put(ctx, r.storage.realm+hostedKey+name, store.Change{Value: []byte(r.options.Node), TTL: r.options.AgentGrace}))
	}
}

// endWithoutAgent ends a run whose agent no node has hosted for Options.AgentGrace.
func (r *Runner) endWithoutAgent(ctx context.Context, st *State) error {
	if r.options.Now().Sub(r.began) < r.options.AgentGrace {
		return nil
	}
	if _, err := r.options.Store.Get(ctx, r.storage.realm+hostedKey+st.Agent); !isNotFound(err) {
		return err
	}
	message := fmt.Sprintf("the agent %s no longer exists on this server", quoteName(st.Agent))
	ended, err := r.storage.change(ctx, st.ID, func(now *State) ([]entry, error) {
		if now.Status.IsFinal() || r.terms.IsHeld(&now.Lease) {
			return nil, errUnchanged
		}
		now.end(StatusError, &Ending{Kind: EndAgent, Message: message})
		return []entry{{Kind: entryEnded, Status: now.Status, Ending: now.Ending}}, nil
	})
	if err != nil || !ended.Status.IsFinal() {
		return err
	}
	r.finalize(ctx, ended)
	r.report(st.ID, fmt.Errorf("the run was ended, because %s", message))
	return nil
}
