package oagent

import (
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
)

// Binding is the agent that makes a call, and the Engagement that the call belongs to. See
// engagement.Ref.
type Binding struct {
	Agent      *Agent
	Engagement string // as sent by the client
	User       engagement.User
	Reviewed   string // see engagement.Ref.Reviewed
}

// ref returns the identifiers of the Engagement.
func (b *Binding) ref() engagement.Ref {
	return engagement.Ref{Agent: b.Agent.Name, ID: b.Engagement, User: b.User, Reviewed: b.Reviewed}
}

// Key returns the name of the Engagement within this server, see engagement.Ref.Key.
func (b *Binding) Key() string {
	of := b.ref()
	return of.Key()
}

func (b *Binding) check() error {
	of := b.ref()
	return of.Check()
}

// Reviewing returns the Engagement in which an agent decides reviews. reviewed is the key of
// the Engagement under review, user its user.
func Reviewing(agent *Agent, reviewed string, user engagement.User) Binding {
	of := review.DecidingRef(agent.Name, reviewed, user)
	return Binding{Agent: agent, Engagement: of.ID, User: of.User, Reviewed: of.Reviewed}
}
