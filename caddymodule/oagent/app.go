package oagent

import (
	"maps"
	"slices"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/ocp"
)

// At implements guardHandler.
func (o *Handler) At() agents.Site { return o.place }

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

// Narrow implements guardHandler.
func (o *Handler) Narrow(agent string, t *agents.Toolset, tools *ocp.Toolset) *ocp.Toolset {
	if g := o.relink(nil, nil).agents[agent]; g != nil {
		return g.narrow(t, tools)
	}
	return tools.Only(func(*ocp.Tool) bool { return false })
}

// StopAsking implements guardHandler.
func (o *Handler) StopAsking() { o.extras.asker.Load().stop() }

// WakeAsker implements guardHandler.
func (o *Handler) WakeAsker() { o.extras.asker.Load().wake() }

// Interface guard
var _ agents.GuardHandler = (*Handler)(nil)
