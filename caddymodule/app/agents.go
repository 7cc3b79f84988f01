package app

import (
	"errors"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/tools"
)

// Agents are the agents of the guards (package oagent), as endpoints see them.
type Agents interface {
	// AddEndpoint adds an endpoint that serves the tools of one agent only. The app does not start if no document defines the agent.
	AddEndpoint(e *AgentEndpoint)

	// Check returns an error if an endpoint is limited to an agent that no document defines. The handlers must be provisioned.
	Check() error

	// LimitTools returns the tools that the agent may use. The tools are a subset of t's tools. If no
	// handler defines the agent, the result is empty.
	LimitTools(at site.Site, agent string, t *Toolset, toolset *tools.Toolset) *tools.Toolset
}

// HostedAgents are agents that this server runs (package hosted), as endpoints see them.
type HostedAgents interface {
	// Expose returns a toolset with the hosted agents of a site with the names, or with all if there are none. A
	// client can use them at the path, by the protocol.
	Expose(at site.Site, names []string, protocol, path string, logger *zap.Logger) (*Toolset, error)
}

// HostedAgents returns the hosted agents. The error is that they are not linked.
func (a *App) HostedAgents() (HostedAgents, error) {
	agents, ok, err := site.Find[HostedAgents](a.Site)
	if err == nil && !ok {
		err = errors.New("expose_agents needs hosted agents: build Caddy with github.com/fairwayhq/fairway/caddymodule/hosted")
	}
	return agents, err
}

// Agents returns the agents. The error is that the guard is not linked.
func (a *App) Agents() (Agents, error) {
	agents, ok, err := site.Find[Agents](a.Site)
	if err == nil && !ok {
		err = errors.New("agent needs the guard: build Caddy with github.com/fairwayhq/fairway/caddymodule/oagent")
	}
	return agents, err
}

// AgentEndpoint is an endpoint that serves the tools of one agent only.
type AgentEndpoint struct {
	Site           site.Site
	Agent          string
	Protocol, Path string // of the endpoint
	ToolsChanged   func() // called when the tools of the agent change; may be nil
}
