package oagent

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
)

const (
	maxAsking = 8           // concurrent calls for one agent
	askGrace  = time.Minute // lease of a claim beyond the timeout, for guardrails and the store
)

// reviewAsker calls the programs of reviewing agents. The open reviews and the claims are in
// the store. The asker is woken when this node requests a review. It also polls for reviews
// that other nodes or an earlier configuration have left. It has no state that must be kept.
type reviewAsker struct {
	*Handler
	pace   agents.ReviewPace
	woken  chan struct{}
	slots  map[string]chan struct{} // by agent name, so that a slow agent does not delay others
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu    sync.Mutex
	asked map[string]map[string]*askState // by agent name, then by review id
}

// askState is the state of one question.
type askState struct {
	busy bool
	over bool      // no further calls are needed
	at   time.Time // not before this time
}

// StartReviewRequests implements guardHandler. It does nothing if no agent has a program to call.
func (o *Handler) StartReviewRequests() {
	slots := make(map[string]chan struct{})
	for name, r := range o.Reviewers {
		if r.Ask != nil {
			slots[name] = make(chan struct{}, maxAsking)
		}
	}
	if len(slots) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &reviewAsker{
		Handler: o, pace: o.app.ReviewPace, woken: make(chan struct{}, 1), slots: slots, cancel: cancel,
		asked: make(map[string]map[string]*askState),
	}
	for name := range slots {
		a.asked[name] = make(map[string]*askState)
	}
	o.extras.asker.Store(a)
	a.all.Go(func() { a.run(ctx) })
}

// stop cancels running calls. The next configuration repeats them.
func (a *reviewAsker) stop() {
	if a != nil {
		a.cancel()
		a.all.Wait()
	}
}

// wake signals that there is a new question.
func (a *reviewAsker) wake() {
	if a == nil {
		return
	}
	select {
	case a.woken <- struct{}{}:
	default: // already woken
	}
}

func (a *reviewAsker) run(ctx context.Context) {
	transport := newAskTransport()
	defer transport.CloseIdleConnections()
	var workers sync.WaitGroup
	defer workers.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.woken:
		case <-timer.C:
		}
		timer.Reset(a.round(ctx, func(question *pendingQuestion) {
			workers.Go(func() {
				question.transport = transport
				again := question.ask(ctx)
				a.note(question.agent, question.id, again)
				<-a.slots[question.agent]
				a.wake()
			})
		}))
	}
}

// round starts the calls that are due. It returns the delay until the next round.
func (a *reviewAsker) round(ctx context.Context, begin func(*pendingQuestion)) time.Duration {
	guard, err := a.guardFor(ctx)
	if err != nil {
		if ctx.Err() == nil {
			a.logger.Error("agents are not asked about reviews, as the records cannot be opened", zap.Error(err))
		}
		return a.pace.ScanInterval
	}
	next := time.Now().Add(a.pace.ScanInterval)
	known := a.agents.Current().Agents
	for _, name := range slices.Sorted(maps.Keys(a.slots)) {
		if known[name] == nil {
			continue // may belong to another site, so leave its questions alone
		}
		reviews, err := guard.Reviews.List(ctx, oagent.Scheme+name)
		if err != nil {
			if ctx.Err() == nil {
				a.logger.Error("an agent is not asked about reviews, as the records cannot be read", zap.String("agent", name), zap.Error(err))
			}
			continue
		}
		listed := make(map[string]bool, len(reviews))
		for _, r := range reviews {
			listed[r.ID] = true
			if at, due := a.due(name, r.ID); due {
				begin(&pendingQuestion{reviewAsker: a, guard: guard, agent: name, id: r.ID})
			} else {
				next = earlier(next, at)
			}
		}
		a.forget(name, listed)
	}
	return max(time.Until(next), time.Millisecond)
}

// due reports whether an agent must be called now, and reserves a slot for the call. If not,
// at is the time to check again.
func (a *reviewAsker) due(agent, id string) (at time.Time, due bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	later := time.Now().Add(a.pace.ScanInterval)
	s := a.asked[agent][id]
	switch {
	case s == nil:
		s = new(askState)
	case s.busy || s.over:
		return later, false
	case time.Now().Before(s.at):
		return s.at, false
	}
	select {
	case a.slots[agent] <- struct{}{}:
	default:
		return later, false // the end of a running call wakes the asker
	}
	s.busy = true
	a.asked[agent][id] = s
	return time.Time{}, true
}

// note sets when to check a question again; zero for never.
func (a *reviewAsker) note(agent, id string, again time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[agent][id] = &askState{over: again.IsZero(), at: again}
}

// forget drops questions that the agent no longer has to decide.
func (a *reviewAsker) forget(agent string, listed map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.asked[agent], func(id string, s *askState) bool { return !s.busy && !listed[id] })
}

// pendingQuestion is one review about which a program is called.
type pendingQuestion struct {
	*reviewAsker
	guard     *oagent.Guard
	agent, id string
	transport *http.Transport
}

// ask calls the program, unless another node does. It returns when to check again; zero for
// never.
func (q *pendingQuestion) ask(ctx context.Context) time.Time {
	of := q.Reviewers[q.agent].Ask
	within, cancel := context.WithTimeout(ctx, time.Duration(of.Timeout)+askGrace/2)
	defer cancel()
	claim, again, err := q.guard.Reviews.Claim(within, q.id, time.Duration(of.Timeout)+askGrace)
	switch {
	case err != nil && (errors.Is(err, review.ErrNotFound) || errors.Is(err, review.ErrDecided) || endsEngagement(err)):
		return time.Time{}
	case err != nil:
		q.failed("the record of a review cannot be kept", err)
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
		q.failed("an agent decides nothing more in this Engagement", err)
		return time.Time{}
	}
	q.count(answerNone)
	again, failed := claim.Fail(ctx)
	q.failed("an agent has not decided a review", errors.Join(err, failed), zap.Time("again", again))
	if failed != nil {
		return time.Now().Add(q.pace.OtherNodeDelay)
	}
	return again
}

// answer calls the program and applies its decision. An error means that there is no decision.
func (q *pendingQuestion) answer(ctx context.Context, claim *review.Claim) error {
	governed := q.agents.Current().Agents[q.agent]
	if governed == nil {
		return errNoSuchAgent
	}
	r, agent := claim.Review, governed.Agent
	shown, err := q.shownReview(ctx, q.guard, r, agent)
	if err != nil {
		return err
	}
	question, err := json.Marshal(shown, json.Deterministic(true))
	if err != nil {
		return err
	}
	if err := q.checkQuestion(ctx, q.guard, agent, r, question); err != nil {
		return err
	}
	answer, err := q.Reviewers[q.agent].Ask.put(ctx, q.transport, question)
	if err != nil {
		return err
	}
	if answer.decision == decisionPending {
		q.tell("an agent decides a review later", r)
		q.count(answerLater)
		return claim.Defer(ctx)
	}
	if r, err = q.decideFor(ctx, q.guard, agent, r, answer.decision == decisionApprove, answer.comment); err == nil {
		q.tell("an agent has decided a review", r)
		q.count(r.Status)
	}
	return err
}

var errNoSuchAgent = errors.New("there is no such agent any more")

func (q *pendingQuestion) tell(message string, r *review.Review) {
	q.logger.Info(message, zap.String("agent", q.agent), zap.String("review", r.ID), zap.String("status", r.Status),
		zap.String("asked_by", r.Agent), zap.String("engagement", r.Key), zap.String("tool", r.Name))
}

func (q *pendingQuestion) failed(message string, err error, more ...zap.Field) {
	q.logger.Warn(message, append([]zap.Field{
		zap.String("agent", q.agent), zap.String("review", q.id), zap.String("url", agents.RedactURL(q.Reviewers[q.agent].Ask.url)), zap.Error(err),
	}, more...)...)
}

func (q *pendingQuestion) count(answer string) {
	q.metrics.asked.WithLabelValues(q.agent, answer).Inc()
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
