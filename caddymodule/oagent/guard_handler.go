package oagent

import (
	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// Site implements agents.GuardHandler.
func (o *Handler) Site() agents.Site { return o.site }

// HasAgent implements agents.GuardHandler.
func (o *Handler) HasAgent(name string) bool {
	return o.agents.Last().Agents[name] != nil
}

// AgentNames implements agents.GuardHandler.
func (o *Handler) AgentNames() []string {
	return o.agents.Last().AgentNames()
}

// LimitTools implements agents.GuardHandler.
func (o *Handler) LimitTools(agent string, t *agents.Toolset, tools *tool.Toolset) *tool.Toolset {
	if g := o.agents.Current().Agents[agent]; g != nil {
		return g.Narrow(t, tools)
	}
	return tools.Only(func(*tool.Tool) bool { return false })
}

// StartReviewRequests implements agents.GuardHandler.
func (o *Handler) StartReviewRequests() { o.reviewers.Start(o.app.ReviewPace) }

// StopReviewRequests implements agents.GuardHandler.
func (o *Handler) StopReviewRequests() { o.reviewers.Stop() }

// WakeReviewRequests implements agents.GuardHandler.
func (o *Handler) WakeReviewRequests() { o.reviewers.Wake() }

// Interface guard
var _ agents.GuardHandler = (*Handler)(nil)
