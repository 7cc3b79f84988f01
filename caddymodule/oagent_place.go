package caddymodule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/ocp"
)

// A place is the site that a handler stands in: the outermost subroute around it,
// which the Caddyfile makes for each site that has a host, or else the server.
type place struct {
	server *caddyhttp.Server
	site   *caddyhttp.Subroute
}

// placeOf returns where the handler stands that is being provisioned.
func placeOf(ctx caddy.Context) place {
	var p place
	p.server, _ = ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	for _, ancestor := range ctx.Modules() {
		if subroute, ok := ancestor.(*caddyhttp.Subroute); ok {
			p.site = subroute
			break
		}
	}
	return p
}

// near reports whether both are of one site. A site without a host has no subroute
// of its own, and those in it are blocks of routes.
func (p place) near(other place) bool {
	return p.server == other.server && (p.site == other.site || p.site == nil || other.site == nil)
}

// An offer is a toolset that a handler of a site offers.
type offer struct {
	place   place
	toolset *toolset
}

func (a *Agents) offer(at place, t *toolset) {
	a.offered = append(a.offered, offer{at, t})
}

// offeredAt returns the toolsets that the handlers of a site offer which have been
// provisioned so far.
func (a *Agents) offeredAt(at place) (toolsets []*toolset) {
	for _, o := range a.offered {
		if o.place.near(at) && !slices.Contains(toolsets, o.toolset) {
			toolsets = append(toolsets, o.toolset)
		}
	}
	return toolsets
}

// guardHandler is an oagent handler, as the app and the endpoints need it.
type guardHandler interface {
	// At returns the site of the handler.
	At() place
	// HasAgent reports whether one of its documents defines the agent.
	HasAgent(name string) bool
	// AgentNames returns the names of its agents.
	AgentNames() []string
	// Narrow returns those of the tools, which are t's, that the agent may use.
	Narrow(agent string, t *toolset, tools *ocp.Toolset) *ocp.Toolset
	// StartAsking, StopAsking and WakeAsker control the requests to reviewing agents.
	StartAsking()
	StopAsking()
	WakeAsker()
}

// binding is an endpoint that offers the tools of one agent only.
type binding struct {
	site           place
	agent          string
	protocol, path string // of the endpoint
	changed        func() // called when the tools of the agent change; may be nil
}

// guardOf returns the handler that has the agent: one of the same site before
// others. It is nil if there is none.
func (a *Agents) guardOf(at place, agent string) guardHandler {
	var found guardHandler
	for _, h := range a.guardHandlers {
		if !h.HasAgent(agent) {
			continue
		}
		if h.At().near(at) {
			return h
		}
		if found == nil {
			found = h
		}
	}
	return found
}

// checkBound returns an error if an endpoint offers the tools of an agent that no
// document defines.
func (a *Agents) checkBound() error {
	for _, b := range a.bound {
		if a.guardOf(b.site, b.agent) == nil {
			return fmt.Errorf("%s %s: no oagent handler has an agent %q%s", b.protocol, b.path, b.agent, a.agentsInstead(b.agent))
		}
	}
	a.started.Store(true)
	return nil
}

// agentsInstead names the agent that may have been meant, or those that there are.
func (a *Agents) agentsInstead(name string) string {
	all := make(map[string]bool)
	for _, h := range a.guardHandlers {
		for _, agent := range h.AgentNames() {
			all[agent] = true
		}
	}
	names := slices.Sorted(maps.Keys(all))
	if near := nearest.Name(name, slices.Values(names)); near != "" {
		return "; did you mean " + near + "?"
	}
	if len(names) == 0 {
		return ", and there is no oagent handler: it names the documents of agents"
	}
	return "; there are: " + strings.Join(names, ", ")
}

// notifyBound tells the endpoints of agents that their tools have changed.
func (a *Agents) notifyBound() {
	if !a.started.Load() {
		return
	}
	for _, b := range a.bound {
		if b.changed != nil {
			b.changed()
		}
	}
}

// narrow returns those of the tools, which are t's, that the agent may use.
func (a *Agents) narrow(at place, agent string, t *toolset, tools *ocp.Toolset) *ocp.Toolset {
	if h := a.guardOf(at, agent); h != nil {
		return h.Narrow(agent, t, tools)
	}
	return tools.Only(func(*ocp.Tool) bool { return false })
}
