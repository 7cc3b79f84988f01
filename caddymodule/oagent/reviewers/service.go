// Package reviewers is for reviews that an agent decides instead of a user, or one of several people. It is the
// subdirective reviewer of the directive oagent.
//
// The open reviews are in the store (package github.com/fairwayhq/fairway/oagent/review). A Service
// takes part in deciding them:
//
//   - It knows which users may decide for an agent, and in which Engagement the agent decides
//     (service.go). The review endpoints ask it.
//   - It knows which people may decide under a name that is not an agent's, and from when on (people.go).
//     The review endpoints and the notices ask it.
//   - If an agent has a program, a lease.Dispatcher claims each open review, asks the program, and
//     applies the decision in the response (dispatcher.go). The program is a guest module of the
//     namespace oagent.reviewers (module.go); the module http calls a URL (program.go).
//   - If this server runs the agent, the dispatcher starts a run instead, and the run reports its
//     decision (hosted.go).
//   - The agent's input guardrail checks a review before the agent reads it. The output guardrail
//     checks the agent's comment before others read it.
package reviewers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/store/lease"
)

// Decisions, as reviewers send them.
const (
	Approve = "approve"
	Deny    = "deny"
	pending = "pending" // of a program that decides later
)

// Options are what the service needs of the oagent handler.
type Options struct {
	Agents     map[string]*Agent // by the agent's name, or the name for which people decide
	TTL        time.Duration     // after which reviews expire
	Path       string            // of the review endpoint, without a trailing slash; "" if there is none
	Set        func() *agentset.Set
	Guard      func(context.Context) (*oagent.Guard, error)
	Guardrails *agentset.GuardrailCaller
	Logger     *zap.Logger
	Spans      *calltrace.Source // of the requests to programs
	Host       Host              // runs agents of the site; nil if none is hosted
}

// Host runs agents of the handler. Package hosted implements it.
type Host interface {
	// Runs reports whether this server runs the agent.
	Runs(agent *oagent.Agent) bool

	// Review starts the run in which an agent decides a review, unless it was started before. Its input is the first of the inputs that
	// is not too large. If the agent cannot decide, undecided is the reason.
	Review(ctx context.Context, agent *oagent.Agent, r *review.Review, inputs ...string) (undecided string, err error)
}

// Service decides reviews on behalf of agents. It knows who may decide for an agent, checks
// what the agent reads and writes with its guardrails, and calls the agents' programs.
type Service struct {
	options    Options
	agents     map[string]*Agent // by name
	pace       review.Pace
	dispatcher atomic.Pointer[lease.Dispatcher] // nil if no program is called
}

// New checks the configuration of the reviewing agents and returns the service.
func New(ctx caddy.Context, options Options) (*Service, error) {
	for _, name := range slices.Sorted(maps.Keys(options.Agents)) {
		if err := options.Agents[name].provision(ctx, options.TTL); err != nil {
			return nil, fmt.Errorf("reviewer %s: %w", name, err)
		}
	}
	return &Service{options: options, agents: options.Agents}, nil
}

// Has reports whether the configuration has a reviewing agent with that name, or people who decide under it.
func (s *Service) Has(name string) bool {
	_, ok := s.agents[name]
	return ok
}

// HasProgram reports whether the agent has a program that is called about reviews.
func (s *Service) HasProgram(agent string) bool {
	a := s.agents[agent]
	return a != nil && a.asker != nil
}

// IsAsked reports whether the agent is asked about reviews: it has a program, or this server runs it.
func (s *Service) IsAsked(agent string) bool {
	a := s.options.Set().Agents[agent]
	return s.HasProgram(agent) || a != nil && s.options.Host != nil && s.options.Host.Runs(a.Agent)
}

// DecidesAlone reports whether no user is notified of the agent's reviews: it has a program, or this server
// runs it and no user may decide for it.
func (s *Service) DecidesAlone(agent string) bool {
	return s.HasProgram(agent) || s.IsAsked(agent) && !s.hasUsers(agent)
}

func (s *Service) hasUsers(agent string) bool { return s.Has(agent) && len(s.agents[agent].Users) > 0 }

// MayDecideFor reports whether the user may decide for the agent.
func (s *Service) MayDecideFor(user, agent string) bool {
	r := s.agents[agent]
	return r != nil && user != "" && slices.Contains(r.Users, user)
}

// Bind selects the Engagement in which an agent reviews, if the request's id names it
// and the user may decide for the agent. So the calls that the agent's program makes while it
// decides belong to that Engagement. For other users, the id is an ordinary id.
func (s *Service) Bind(b *oagent.Binding) {
	if len(s.agents) == 0 || b.Agent == nil {
		return
	}
	if reviewed, ok := review.ReviewedBy(b.Engagement); ok && s.MayDecideFor(b.User.ID, b.Agent.Name) {
		b.Reviewed, b.User.Email = reviewed, "" // the Engagement belongs to the user of the Engagement under review
	}
}

// Shown is a review as its reviewer sees it.
type Shown struct {
	*review.Review
	Engagement jsontext.Value `json:"engagement"`         // see oagent.Guard.ReviewedEngagement; null if it no longer exists
	Reviewing  string         `json:"reviewing,omitzero"` // for an agent: id of the Engagement in which it decides
	Intent     string         `json:"intent,omitzero"`    // of the deciding agent
	Location   string         `json:"location,omitzero"`  // path to decide it; "" if the site has no review endpoint
	MayEdit    bool           `json:"may_edit,omitzero"`  // the person may change the inputs

	// For people: what the user asked of an agent that this server runs, what the calling agent asked of it, and the
	// latest entries of the Engagement.
	Request string             `json:"request,omitzero"`
	Task    string             `json:"task,omitzero"`
	Entries []engagement.Entry `json:"entries,omitempty"`
}

// Show returns a review as its reviewer sees it. agent is the agent that decides it, nil if a
// user does.
func (s *Service) Show(ctx context.Context, guard *oagent.Guard, r *review.Review, agent *oagent.Agent) (*Shown, error) {
	shown := &Shown{Review: r}
	if s.options.Path != "" {
		shown.Location = s.options.Path + "/" + r.ID
	}
	if agent != nil {
		shown.Intent, shown.Reviewing = agent.Intent, reviewing(agent, r).Engagement
	}
	var err error
	if shown.Engagement, err = guard.Reviews.Engagement(ctx, r); errors.Is(err, engagement.ErrNotFound) {
		err = nil
	}
	return shown, err
}

// reviewing returns the Engagement in which the agent decides a review.
func reviewing(agent *oagent.Agent, r *review.Review) oagent.Binding {
	return oagent.Reviewing(agent, r.Key, r.User)
}

// CheckQuestion calls the input guardrail of a reviewing agent with the JSON that the agent is
// about to read. It does so each time, even if the review is already decided. The error is a
// *engagement.Refusal.
func (s *Service) CheckQuestion(ctx context.Context, guard *oagent.Guard, agent *oagent.Agent, r *review.Review, question []byte) error {
	if r.Status == engagement.ReviewPending {
		if err := guard.Reviews.Assign(ctx, r); err != nil {
			return err
		}
	}
	if agent.Input == nil {
		return nil
	}
	return s.checkGuardrail(ctx, guard, agent, r, engagement.SideInput, agentset.GuardrailText{Input: string(question)})
}

// DecideFor records a reviewing agent's decision. Its output guardrail checks the comment
// first, because others can read it.
func (s *Service) DecideFor(ctx context.Context, guard *oagent.Guard, agent *oagent.Agent, r *review.Review, approve bool, comment string) (*review.Review, error) {
	if comment != "" && agent.Output != nil && r.Status == engagement.ReviewPending {
		if err := guard.Reviews.Assign(ctx, r); err != nil {
			return nil, err
		}
		if err := s.checkGuardrail(ctx, guard, agent, r, engagement.SideOutput, agentset.GuardrailText{Input: string(r.Inputs), Output: comment}); err != nil {
			return nil, err
		}
	}
	return guard.Reviews.Decide(ctx, r.ID, oagent.Scheme+agent.Name, approve, comment)
}

// checkGuardrail calls a guardrail of a reviewing agent, like a guardrail on model traffic. If
// its assertion does not hold, the Engagement in which the agent reviews ends, and the review
// is denied.
func (s *Service) checkGuardrail(ctx context.Context, guard *oagent.Guard, agent *oagent.Agent, r *review.Review, side engagement.Side, text agentset.GuardrailText) error {
	err := s.options.Guardrails.Check(ctx, guard, reviewing(agent, r), s.options.Set().Names, side, text)
	if refusal, ok := engagement.AsRefusal(err); ok && refusal.Ends() {
		return errors.Join(refusal, guard.Reviews.Assign(ctx, r)) // Assign denies the review
	}
	return err
}
