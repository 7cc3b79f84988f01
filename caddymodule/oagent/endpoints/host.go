package endpoints

import (
	"context"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// Host runs agents of the handler. Package hosted implements it.
type Host interface {
	// Runs reports whether this server runs the agent.
	Runs(agent *oagent.Agent) bool

	// ServeAgent responds to a POST to the document of an agent, which begins an Engagement, and to a request about what the agent
	// remembers of the user.
	ServeAgent(q *Request, agent *oagent.Agent)

	// ServeRun responds to a request to an Engagement if it has a run that the user may see. It reports whether it did.
	ServeRun(q *Request, id string) bool

	// ServeTrace responds with what an agent did in a run.
	ServeTrace(q *Request, id string, withoutTexts bool)

	// Find returns a run; nil if there is none, or if the store fails.
	Find(ctx context.Context, id string) *Run

	// IsDeleted reports whether the user has deleted a run. It does so too if the store fails.
	IsDeleted(ctx context.Context, id string) bool

	// Asked returns what the user has asked of an agent, in the run with that id. If another agent has called it, task is what that
	// agent has asked.
	Asked(ctx context.Context, user *engagement.User, agent, id string) (request, task string)
}

// Run is a run of a hosted agent, as a Host returns it.
type Run struct {
	ID, Agent     string
	User          engagement.User
	Reviewed      string // see engagement.Ref
	Review        string // id of the review that the run decides; "" for none
	Parent        string // id of the run that has started it; "" for none
	Title, Status string

	// IsChecked reports whether the output guardrail of the agent has checked what the run exposes.
	IsChecked func(*oagent.Agent) bool
}

// runs reports whether this server runs the agent.
func (q *Request) runs(agent *oagent.Agent) bool {
	return q.Options.Host != nil && q.Options.Host.Runs(agent)
}

// MayFollow reports whether the user may see a run of a user. A run that decides a review can contain data that
// is withheld from its user.
func (q *Request) MayFollow(user, agent, review string) bool {
	return q.IsAuditor() || review == "" && user == q.User.ID || review != "" && q.Options.Reviewers.MayDecideFor(q.User.ID, agent)
}

// findRun returns a run that the user may see, or nil.
func (q *Request) findRun(id string) *Run {
	if q.Options.Host == nil {
		return nil
	}
	if r := q.Options.Host.Find(q.R.Context(), id); r != nil && q.MayFollow(r.User.ID, r.Agent, r.Review) {
		return r
	}
	return nil
}
