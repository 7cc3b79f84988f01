package reviewers

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/store/lease"
)

const (
	maxConcurrentCalls = 8           // concurrent calls for one agent
	claimGrace         = time.Minute // lease of a claim beyond the timeout, for guardrails and the store
)

// The programs of reviewing agents are called by a lease.Dispatcher. The open reviews and the claims are in
// the store. The dispatcher finds the reviews that this node has requested when Wake is called, and those
// that other nodes or an earlier configuration have left by polling. Its lanes are the names of the agents.

// Start begins to ask agents about reviews. It does nothing if no agent has a program and none is hosted.
func (s *Service) Start(pace review.Pace) {
	if s.options.Host == nil && !slices.ContainsFunc(slices.Collect(maps.Keys(s.agents)), s.HasProgram) {
		return
	}
	s.pace = pace
	d := &lease.Dispatcher{Scan: s.scan, Interval: pace.ScanInterval, PerLane: maxConcurrentCalls}
	d.Start()
	s.dispatcher.Store(d)
}

// Stop cancels running calls. The next configuration repeats them.
func (s *Service) Stop() {
	if d := s.dispatcher.Load(); d != nil {
		d.Stop(0)
	}
}

// Wake signals that there is a new review.
func (s *Service) Wake() {
	if d := s.dispatcher.Load(); d != nil {
		d.Wake()
	}
}

// scan finds the reviews about which the agents of the site are asked.
func (s *Service) scan(ctx context.Context, visit func(lease.Job)) (all bool) {
	guard, err := s.options.Guard(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.options.Logger.Error("opening the store failed; the programs of reviewing agents are not called", zap.Error(err))
		}
		return false
	}
	all = true
	for _, name := range s.asked() {
		reviews, err := guard.Reviews.List(ctx, oagent.Scheme+name)
		if err != nil {
			all = false
			if ctx.Err() == nil {
				s.options.Logger.Error("reading the reviews of an agent failed; its program is not called", zap.String("agent", name), zap.Error(err))
			}
			continue
		}
		for i := range reviews {
			if s.isOurs(name, &reviews[i]) {
				q := &question{Service: s, guard: guard, agent: name, id: reviews[i].ID}
				visit(lease.Job{Lane: name, ID: q.id, Do: q.ask})
			}
		}
	}
	return all
}

// question is one review about which a program is called.
type question struct {
	*Service
	guard     *oagent.Guard
	agent, id string
}

// ask calls the program, unless another node does. It returns when to check again; zero for
// never.
func (q *question) ask(ctx context.Context) time.Time {
	timeout := defaultAskTimeout
	if q.HasProgram(q.agent) {
		timeout = time.Duration(q.agents[q.agent].Timeout)
	}
	within, cancel := context.WithTimeout(ctx, timeout+claimGrace/2)
	defer cancel()
	claim, again, err := q.guard.Reviews.Claim(within, q.id, timeout+claimGrace)
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
	if !q.HasProgram(q.agent) {
		return q.startRun(ctx, claim, agent)
	}
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
	if answer.Decision == pending {
		q.log("an agent decides a review later", q.agent, r)
		q.count(laterDecision)
		calltrace.Decision(ctx, calltrace.EventReview, r.Agent, laterDecision, r.Rule)
		return claim.Defer(ctx)
	}
	if r, err = q.DecideFor(ctx, q.guard, agent, r, answer.Decision == Approve, answer.Comment); err == nil {
		calltrace.Decision(ctx, calltrace.EventReview, r.Agent, answer.Decision, r.Rule)
		q.log("an agent has decided a review", q.agent, r)
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

func (s *Service) log(message, agent string, r *review.Review) {
	s.options.Logger.Info(message, zap.String("agent", agent), zap.String("review", r.ID), zap.String("status", r.Status),
		zap.String("asked_by", r.Agent), zap.String("engagement", r.Key), zap.String("tool", r.Name))
}

func (q *question) failed(message string, err error, more ...zap.Field) {
	program := "hosted"
	if q.HasProgram(q.agent) {
		program = q.agents[q.agent].asker.Target()
	}
	q.options.Logger.Warn(message, append([]zap.Field{
		zap.String("agent", q.agent), zap.String("review", q.id), zap.String("program", program), zap.Error(err),
	}, more...)...)
}

func (q *question) count(answer string) {
	questions.WithLabelValues(q.agent, answer).Inc()
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
