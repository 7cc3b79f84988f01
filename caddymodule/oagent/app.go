package oagent

import (
	"maps"
	"slices"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/ocp"
)

// Site implements guardHandler.
func (o *Handler) Site() agents.Site { return o.place }

// HasAgent implements guardHandler.
func (o *Handler) HasAgent(name string) bool {
	l := o.linked.Load()
	return l != nil && l.agents[name] != nil
}

// AgentNames implements guardHandler.
func (o *Handler) AgentNames() []string {
	l := o.linked.Load()
	if l == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(l.agents))
}

// LimitTools implements guardHandler.
func (o *Handler) LimitTools(agent string, t *agents.Toolset, tools *ocp.Toolset) *ocp.Toolset {
	if g := o.relink(nil, nil).agents[agent]; g != nil {
		return g.narrow(t, tools)
	}
	return tools.Only(func(*ocp.Tool) bool { return false })
}

// StopReviewRequests implements guardHandler.
func (o *Handler) StopReviewRequests() { o.extras.asker.Load().stop() }

// WakeReviewRequests implements guardHandler.
func (o *Handler) WakeReviewRequests() { o.extras.asker.Load().wake() }

// Interface guard
var _ agents.GuardHandler = (*Handler)(nil)
