package reviewers

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
)

const (
	maxConcurrentCalls = 8           // concurrent calls for one agent
	claimGrace         = time.Minute // lease of a claim beyond the timeout, for guardrails and the store
)

// dispatcher calls the programs of reviewing agents. The open reviews and the claims are in
// the store. Wake signals a review that this node has requested. The dispatcher also polls for reviews
// that other nodes or an earlier configuration have left. It has no state that must be kept.
type dispatcher struct {
	*Service
	pace    agents.ReviewPace
	wakeups chan struct{}
	slots   map[string]chan struct{} // by agent name, so that a slow agent does not delay others
	cancel  context.CancelFunc
	all     sync.WaitGroup

	mu        sync.Mutex
	questions map[string]map[string]*questionState // by agent name, then by review id
}

// questionState is the state of one question.
type questionState struct {
	busy bool
	over bool      // no further calls are needed
	at   time.Time // not before this time
}

// Start begins to call the programs of the agents. It does nothing if no agent has a program.
func (s *Service) Start(pace agents.ReviewPace) {
	slots := make(map[string]chan struct{})
	for name, agent := range s.agents {
		if agent.asker != nil {
			slots[name] = make(chan struct{}, maxConcurrentCalls)
		}
	}
	if len(slots) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &dispatcher{
		Service: s, pace: pace, wakeups: make(chan struct{}, 1), slots: slots, cancel: cancel,
		questions: make(map[string]map[string]*questionState),
	}
	for name := range slots {
		d.questions[name] = make(map[string]*questionState)
	}
	s.dispatcher.Store(d)
	d.all.Go(func() { d.run(ctx) })
}

// Stop cancels running calls. The next configuration repeats them.
func (s *Service) Stop() {
	if d := s.dispatcher.Load(); d != nil {
		d.cancel()
		d.all.Wait()
	}
}

// Wake signals that there is a new review.
func (s *Service) Wake() {
	if d := s.dispatcher.Load(); d != nil {
		d.wake()
	}
}

func (d *dispatcher) wake() {
	select {
	case d.wakeups <- struct{}{}:
	default: // already signalled
	}
}

func (d *dispatcher) run(ctx context.Context) {
	var workers sync.WaitGroup
	defer workers.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wakeups:
		case <-timer.C:
		}
		timer.Reset(d.round(ctx, func(question *question) {
			workers.Go(func() {
				again := question.ask(ctx)
				d.note(question.agent, question.id, again)
				<-d.slots[question.agent]
				d.wake()
			})
		}))
	}
}

// round starts the calls that are due. It returns the delay until the next round.
func (d *dispatcher) round(ctx context.Context, begin func(*question)) time.Duration {
	guard, err := d.options.Guard(ctx)
	if err != nil {
		if ctx.Err() == nil {
			d.options.Logger.Error("opening the store failed; the programs of reviewing agents are not called", zap.Error(err))
		}
		return d.pace.ScanInterval
	}
	next := time.Now().Add(d.pace.ScanInterval)
	known := d.options.Set().Agents
	for _, name := range slices.Sorted(maps.Keys(d.slots)) {
		if known[name] == nil {
			continue // may belong to another site, so leave its questions alone
		}
		reviews, err := guard.Reviews.List(ctx, oagent.Scheme+name)
		if err != nil {
			if ctx.Err() == nil {
				d.options.Logger.Error("reading the reviews of an agent failed; its program is not called", zap.String("agent", name), zap.Error(err))
			}
			continue
		}
		listed := make(map[string]bool, len(reviews))
		for _, r := range reviews {
			listed[r.ID] = true
			if at, due := d.due(name, r.ID); due {
				begin(&question{dispatcher: d, guard: guard, agent: name, id: r.ID})
			} else {
				next = earlier(next, at)
			}
		}
		d.forget(name, listed)
	}
	return max(time.Until(next), time.Millisecond)
}

// due reports whether an agent must be called now, and reserves a slot for the call. If not,
// at is the time to check again.
func (d *dispatcher) due(agent, id string) (at time.Time, due bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	later := time.Now().Add(d.pace.ScanInterval)
	s := d.questions[agent][id]
	switch {
	case s == nil:
		s = new(questionState)
	case s.busy || s.over:
		return later, false
	case time.Now().Before(s.at):
		return s.at, false
	}
	select {
	case d.slots[agent] <- struct{}{}:
	default:
		return later, false // the end of a running call wakes the dispatcher
	}
	s.busy = true
	d.questions[agent][id] = s
	return time.Time{}, true
}

// note sets when to check a question again; zero for never.
func (d *dispatcher) note(agent, id string, again time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.questions[agent][id] = &questionState{over: again.IsZero(), at: again}
}

// forget drops questions that the agent no longer has to decide.
func (d *dispatcher) forget(agent string, listed map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.questions[agent], func(id string, s *questionState) bool { return !s.busy && !listed[id] })
}

// question is one review about which a program is called.
type question struct {
	*dispatcher
	guard     *oagent.Guard
	agent, id string
}

// ask calls the program, unless another node does. It returns when to check again; zero for
// never.
func (q *question) ask(ctx context.Context) time.Time {
	of := q.agents[q.agent]
	within, cancel := context.WithTimeout(ctx, time.Duration(of.Timeout)+claimGrace/2)
	defer cancel()
	claim, again, err := q.guard.Reviews.Claim(within, q.id, time.Duration(of.Timeout)+claimGrace)
	switch {
	case err != nil && (errors.Is(err, review.ErrNotFound) || errors.Is(err, review.ErrDecided) || endsEngagement(err)):
		return time.Time{}
	case err != nil:
		q.failed("claiming a review failed", err)
		return time.Now().Add(q.pace.OtherNodeDelay)
	case claim == nil && again.IsZero():
		return time.Time{}
	case claim == nil:
		return earlier(again, time.Now().Add(q.pace.OtherNodeDelay))
	}
	err = q.answer(within, claim)
	switch {
	case err == nil, errors.Is(err, review.ErrNotFound), errors.Is(err, review.ErrDecided):
		return time.Time{}
	case ctx.Err() != nil:
		_ = claim.Release(ctx) // else the claim expires
		return time.Now()
	case endsEngagement(err):
		q.failed("an agent cannot decide a review: the Engagement in which it reviews has ended", err)
		return time.Time{}
	}
	q.count(noDecision)
	again, failed := claim.Fail(ctx)
	q.failed("an agent has not decided a review", errors.Join(err, failed), zap.Time("again", again))
	if failed != nil {
		return time.Now().Add(q.pace.OtherNodeDelay)
	}
	return again
}

// answer is decide in a span below that of the call under review.
func (q *question) answer(ctx context.Context, claim *review.Claim) error {
	ctx, span := q.options.Spans.BeginReview(ctx, claim.Review.Trace, q.agent)
	err := q.decide(ctx, claim)
	if err != nil {
		span.Finish(noDecision)
	} else {
		span.Finish("")
	}
	return err
}

// decide calls the program and applies its decision. An error means that there is no decision.
func (q *question) decide(ctx context.Context, claim *review.Claim) error {
	governed := q.options.Set().Agents[q.agent]
	if governed == nil {
		return errNoSuchAgent
	}
	r, agent := claim.Review, governed.Agent
	shown, err := q.Show(ctx, q.guard, r, agent)
	if err != nil {
		return err
	}
	question, err := json.Marshal(shown, json.Deterministic(true))
	if err != nil {
		return err
	}
	if err := q.CheckQuestion(ctx, q.guard, agent, r, question); err != nil {
		return err
	}
	answer, err := q.askProgram(ctx, &Question{Review: shown, JSON: question})
	if err != nil {
		return err
	}
	if answer.Decision == Pending {
		q.log("an agent decides a review later", r)
		q.count(laterDecision)
		calltrace.Decision(ctx, calltrace.EventReview, r.Agent, laterDecision, r.Rule)
		return claim.Defer(ctx)
	}
	if r, err = q.DecideFor(ctx, q.guard, agent, r, answer.Decision == Approve, answer.Comment); err == nil {
		calltrace.Decision(ctx, calltrace.EventReview, r.Agent, answer.Decision, r.Rule)
		q.log("an agent has decided a review", r)
		q.count(r.Status)
	}
	return err
}

// askProgram asks the program within the agent's timeout.
func (q *question) askProgram(ctx context.Context, about *Question) (*Answer, error) {
	of := q.agents[q.agent]
	ctx, cancel := context.WithTimeout(ctx, time.Duration(of.Timeout))
	defer cancel()
	answer, err := of.asker.Ask(ctx, about)
	if err != nil {
		return nil, err
	}
	return answer, answer.check()
}

var errNoSuchAgent = errors.New("the agent does not exist any more")

func (q *question) log(message string, r *review.Review) {
	q.options.Logger.Info(message, zap.String("agent", q.agent), zap.String("review", r.ID), zap.String("status", r.Status),
		zap.String("asked_by", r.Agent), zap.String("engagement", r.Key), zap.String("tool", r.Name))
}

func (q *question) failed(message string, err error, more ...zap.Field) {
	q.options.Logger.Warn(message, append([]zap.Field{
		zap.String("agent", q.agent), zap.String("review", q.id), zap.String("program", q.agents[q.agent].asker.Target()), zap.Error(err),
	}, more...)...)
}

func (q *question) count(answer string) {
	metrics.questions.WithLabelValues(q.agent, answer).Inc()
}

func endsEngagement(err error) bool {
	refusal, ok := engagement.AsRefusal(err)
	return ok && refusal.Ends()
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
