package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

// execution is the work of this node on one run, from the claim until the run waits or ends.
type execution struct {
	runner       *Runner
	id           string
	round        int         // State.Round, which is the same until the run ends
	terms        lease.Terms // of the Runner; they report to its operator
	claim        *lease.Claim[*draft]
	agent        *oagent.Agent
	binding      oagent.Binding
	model        model.Model // nil until the first request
	tools        *toolbox
	planner      planner
	conversation conversation

	endTrace func(*State)    // see Options.Trace
	ctx      context.Context // ends when the lease is lost, and with Cancel and Close
	cancel   context.CancelCauseFunc

	mu    sync.Mutex // serializes record
	state *State     // as last recorded; replaced, never changed
	since time.Time  // the time up to which State.Spent is recorded
}

// recordTries is how often a step is stored at least, before a Runner that closes gives up.
const recordTries = 4

// drive makes one step after the other until the run waits or ends. If it returns an error, the
// lease remains. This node can claim the run again; others can when the lease has expired.
func (e *execution) drive() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	defer e.claim.Keep(e.ctx, func() { e.cancel(lease.ErrLost) })()

	err = e.checkParent()
	for err == nil && e.state.Lease.HasToken(e.claim.Token()) {
		if e.runner.running.Err() != nil {
			return e.release(true)
		}
		if err = e.step(); errors.Is(err, store.ErrTooLarge) {
			err = e.fail(EndModel, string(model.KindTooLarge), "the Engagement is too large to be stored")
		}
	}
	if err != nil {
		err = e.stopped(err)
	}
	after := context.WithoutCancel(e.ctx)
	if e.state.Status.IsFinal() {
		if e.state.Status == StatusComplete && e.remembers() {
			e.runner.report(e.id, e.runner.memory.retain(after, e.state, e.conversation.messages))
		}
		e.runner.finalize(e.ctx, e.state)
		return err
	}
	e.runner.report(e.id, e.runner.storage.moveNotices(after, e.state))
	at := e.state.retryAt()
	switch {
	case slices.ContainsFunc(e.state.Waits(), func(w Wait) bool { return w.Kind == WaitHome }):
		e.runner.push(e.ctx, e.state)
	case !at.IsZero():
		e.runner.wakeAt(e.id, at)
	case e.state.Lease.Token == "" && !e.state.Status.IsBusy():
		e.runner.notifyCallers(after, e.state)
	}
	return err
}

// checkParent ends the run if the run whose call started it has ended: it was canceled by another node before
// that call started this run.
func (e *execution) checkParent() error {
	if e.state.Parent == "" || e.state.Status.IsFinal() {
		return nil
	}
	ended, err := e.runner.hasEnded(e.ctx, e.state.Parent)
	if ended {
		return e.fail(EndCanceled, "", "the Engagement that called the agent has ended")
	}
	return err
}

// timeLeft returns what remained of Limits.Time after the last recorded step.
func (e *execution) timeLeft() time.Duration {
	return e.planner.limits.Time - time.Duration(e.state.Spent-e.state.Before.Time)*time.Millisecond
}

// step makes the next step. Its context ends when the run has used its Limits.Time.
func (e *execution) step() error {
	left := e.timeLeft()
	ctx, cancel := context.WithTimeoutCause(e.ctx, left, errTime)
	defer cancel()
	var err error
	switch st := e.state; {
	case left <= 0:
		err = errTime
	case st.Phase == phaseInput, st.Phase == phaseTools && st.count(callBegun) == 0 && st.hasReply():
		err = e.takeInput(ctx)
	case st.Phase == phaseModel:
		err = e.requestModel(ctx)
	case st.Phase == phaseTools:
		err = e.makeCalls(ctx)
	case st.Phase == phaseAnswer:
		err = e.returnAnswer(ctx)
	default:
		err = fmt.Errorf("the state has the unknown phase %q", st.Phase)
	}
	if err != nil && e.ctx.Err() == nil && (errors.Is(err, errTime) || errors.Is(context.Cause(ctx), errTime)) {
		return e.fail(EndLimit, "time", fmt.Sprintf("the Engagement has reached its limit of time, %s", e.planner.limits.Time))
	}
	return err
}

var errTime = errors.New("the run has reached its limit of time")

// stopped handles an error that stops the work of this node on the run, but does not end the run.
func (e *execution) stopped(err error) error {
	if errors.Is(err, lease.ErrLost) || isNotFound(err) || errors.Is(context.Cause(e.ctx), lease.ErrLost) {
		return e.runner.leaseLost(e.ctx, e.id, nil)
	}
	if e.ctx.Err() != nil {
		return e.release(false)
	}
	return err
}

// release releases the lease, so that another node can claim the run at once. Between two steps,
// calls that are recorded as begun have not been made yet, so they become planned again.
func (e *execution) release(betweenSteps bool) error {
	err := e.record(func(st *State) []entry {
		st.Lease.Clear()
		for i := range st.Calls {
			if c := &st.Calls[i]; betweenSteps && c.Status == callBegun {
				c.Status = callPlanned
				st.CallsMade--
			}
		}
		return nil
	}, false)
	if err == nil {
		e.runner.handOver(e.state.job())
	}
	if errors.Is(err, lease.ErrLost) || isNotFound(err) {
		return nil
	}
	return err
}

// handOver passes a run to any node. If there is no queue of all nodes, this one stops, and the run goes to its next Runner.
func (r *Runner) handOver(j *job) {
	if r.options.Queue != nil {
		r.report(j.id, r.options.Queue.Push(context.Background(), j.shared(), ""))
	} else {
		r.options.Handover(j.id)
	}
	j.ack()
}

// fail ends the run with an error.
func (e *execution) fail(kind EndKind, rule, message string) error {
	return e.record(func(st *State) []entry {
		st.end(StatusError, &Ending{Kind: kind, Rule: rule, Message: message})
		return nil
	}, false)
}

// draft is a state in a transaction, with the entries that the transaction adds to the log.
type draft struct {
	*State
	entries []entry
}

// transact is the lease.Transaction of the run.
func (e *execution) transact(ctx context.Context, change func(*draft, *lease.Lease) error) error {
	_, err := e.runner.storage.change(ctx, e.id, func(st *State) ([]entry, error) {
		d := &draft{State: st}
		err := change(d, &st.Lease)
		return d.entries, err
	})
	if isNotFound(err) {
		return store.ErrNotFound
	}
	return err
}

// record changes the state, if this node still has the lease, and extends the lease. With advance
// it also moves the state to the next step: the end of a step and the beginning of the next are
// one change of the store.
//
// If the store fails, record tries again until the store responds: otherwise the outcome of a call that was
// made would be lost. When the Runner closes, it gives up after recordTries.
func (e *execution) record(change func(*State) []entry, advance bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	ctx, giveUp := context.WithCancel(context.WithoutCancel(e.ctx))
	defer giveUp()
	var written *draft // by the last attempt, or an earlier one whose error was wrong
	var worked time.Duration
	tries := 0
	err := e.terms.Repeat(ctx, func() error {
		err := e.claim.Change(ctx, func(d *draft, l *lease.Lease) error {
			worked = e.runner.options.Now().Sub(e.since).Truncate(time.Millisecond)
			l.Tries = 0
			d.Spent += worked.Milliseconds()
			d.entries = change(d.State)
			if advance && !d.Status.IsFinal() {
				d.entries = append(d.entries, e.planner.advance(d.State)...)
			}
			if d.Status.IsFinal() {
				d.entries = append(d.entries, entry{Kind: entryEnded, Status: d.Status, Ending: d.Ending})
			}
			written = d
			return nil
		})
		tries++
		if errors.Is(err, errUnreadable) || tries >= recordTries && (e.ctx.Err() != nil || e.runner.IsClosing()) {
			giveUp()
		}
		return err
	})
	if err != nil {
		return err
	}
	e.state, e.since = written.State, e.since.Add(worked)
	return e.conversation.addAll(written.entries)
}

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
	if st.count(callBegun) > 0 {
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
		if c.Status != callPlanned {
			continue
		}
		repeatable := c.Idempotent || c.Wait != nil && c.Wait.Made
		if !repeatable && len(entries) > 0 {
			break
		}
		c.Status = callBegun
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
	if st.hasReply() {
		st.Status = StatusAwaitingModel
		return
	}
	st.Lease.Clear()
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
	case st.Turns-st.Before.Turns >= p.limits.Turns:
		st.Phase = phaseModel // which was not reached
		st.end(StatusError, &Ending{Kind: EndLimit, Rule: "turns", Message: fmt.Sprintf(
			"the Engagement has reached its limit of %d turns of the model for one input", p.limits.Turns)})
	case p.tokensUsed(&st.Used) != nil:
		st.end(StatusError, p.tokensUsed(&st.Used))
	default:
		st.Phase = phaseModel
		st.Turns++
	}
}

// tokensUsed returns why the run ends, if it has used its limit of tokens.
func (p planner) tokensUsed(used *Used) *Ending {
	if used.Usage.Total() < int64(p.limits.Tokens) {
		return nil
	}
	return &Ending{Kind: EndLimit, Rule: limitTokens, Message: fmt.Sprintf(
		"the Engagement has used %d tokens of the model; its limit is %d", used.Usage.Total(), p.limits.Tokens)}
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

// finalize abandons the reviews of a run that has ended, moves its notices, wakes its parent and removes it from the
// index. If the node dies before that is complete, a sweep repeats it.
func (r *Runner) finalize(ctx context.Context, st *State) {
	ctx = context.WithoutCancel(ctx)
	unmoved := r.storage.moveNotices(ctx, st)
	r.report(st.ID, r.abandonReviews(ctx, st))
	r.options.Ended(st.ID, st.Round)
	if st.Review != "" {
		if err := r.options.Decide(ctx, st, "", ""); err != nil {
			r.report(st.ID, err)
			return // a sweep repeats it
		}
	}
	if st.Parent != "" {
		if err := r.Wake(ctx, st.Parent); !errors.Is(err, ErrNotFound) {
			r.report(st.Parent, err)
		}
	}
	if unmoved != nil {
		r.report(st.ID, unmoved)
		return // a sweep repeats it
	}
	r.report(st.ID, r.index.remove(ctx, st.indexed()))
}

// abandonReviews closes the reviews of a run that has ended. It reads them from the record of the
// Engagement, which also has those that are missing in the state of the run because the run was
// canceled, or its node died, before the state was stored.
func (r *Runner) abandonReviews(ctx context.Context, st *State) error {
	if st.MayGoOn() {
		return nil // all its calls have results; the next round may have begun
	}
	b := st.binding(&oagent.Agent{Name: st.Agent}) // which may no longer exist
	summary, err := r.options.Guard.Engagements.Get(ctx, b.Key())
	if isEngagementGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	reason := "the Engagement has ended"
	if st.Ending != nil && st.Ending.Kind == EndCanceled {
		reason = st.Ending.Message
	}
	for _, id := range summary.Pending {
		if err := r.options.Guard.Reviews.Abandon(ctx, id, reason); err != nil {
			return err
		}
		r.cancelTask(ctx, ReviewRunID(id))
	}
	return nil
}

// cancelTask cancels the task that a call of a canceled run waits for, if it is a run.
func (r *Runner) cancelTask(ctx context.Context, id string) {
	if _, err := r.Cancel(ctx, id); !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrEnded) {
		r.report(id, err)
	}
}

// hasEnded reports whether a run has ended, or does not exist any more.
func (r *Runner) hasEnded(ctx context.Context, id string) (bool, error) {
	st, err := r.storage.get(ctx, id)
	if isNotFound(err) {
		return true, nil
	}
	return err == nil && st.Status.IsFinal(), err
}

// leaseLost handles the loss of the lease of a run. If the run was canceled, its last step may have
// requested a review, or started the task of w, after the cancellation. w may be nil.
func (r *Runner) leaseLost(ctx context.Context, id string, w *Wait) error {
	ctx = context.WithoutCancel(ctx)
	st, err := r.storage.get(ctx, id)
	switch {
	case isNotFound(err):
		return nil
	case err != nil || !st.Status.IsFinal():
		return err
	}
	if w != nil && w.Kind == WaitTask {
		r.cancelTask(ctx, w.ID)
	}
	return r.abandonReviews(ctx, st)
}
