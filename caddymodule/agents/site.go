package agents

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

// Site is the site that a handler stands in: the outermost subroute around it,
// which the Caddyfile makes for each site that has a host, or else the server.
type Site struct {
	server *caddyhttp.Server
	site   *caddyhttp.Subroute
}

// SiteOf returns where the handler stands that is being provisioned.
func SiteOf(ctx caddy.Context) Site {
	var p Site
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
func (p Site) near(other Site) bool {
	return p.server == other.server && (p.site == other.site || p.site == nil || other.site == nil)
}

// An offer is a toolset that a handler of a site offers.
type offer struct {
	place   Site
	toolset *Toolset
}

func (a *App) Offer(at Site, t *Toolset) {
	a.offered = append(a.offered, offer{at, t})
}

// OfferedAt returns the toolsets that the handlers of a site offer which have been
// provisioned so far.
func (a *App) OfferedAt(at Site) (toolsets []*Toolset) {
	for _, o := range a.offered {
		if o.place.near(at) && !slices.Contains(toolsets, o.toolset) {
			toolsets = append(toolsets, o.toolset)
		}
	}
	return toolsets
}

// GuardHandler is an oagent handler, as the app and the endpoints need it.
type GuardHandler interface {
	// At returns the site of the handler.
	At() Site
	// HasAgent reports whether one of its documents defines the agent.
	HasAgent(name string) bool
	// AgentNames returns the names of its agents.
	AgentNames() []string
	// Narrow returns those of the tools, which are t's, that the agent may use.
	Narrow(agent string, t *Toolset, tools *ocp.Toolset) *ocp.Toolset
	// StartAsking, StopAsking and WakeAsker control the requests to reviewing agents.
	StartAsking()
	StopAsking()
	WakeAsker()
}

// Binding is an endpoint that offers the tools of one agent only.
type Binding struct {
	Site           Site
	Agent          string
	Protocol, Path string // of the endpoint
	Changed        func() // called when the tools of the agent change; may be nil
}

// guardOf returns the handler that has the agent: one of the same site before
// others. It is nil if there is none.
func (a *App) guardOf(at Site, agent string) GuardHandler {
	var found GuardHandler
	for _, h := range a.GuardHandlers {
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
func (a *App) checkBound() error {
	for _, b := range a.Bound {
		if a.guardOf(b.Site, b.Agent) == nil {
			return fmt.Errorf("%s %s: no oagent handler has an agent %q%s", b.Protocol, b.Path, b.Agent, a.agentsInstead(b.Agent))
		}
	}
	a.started.Store(true)
	return nil
}

// agentsInstead names the agent that may have been meant, or those that there are.
func (a *App) agentsInstead(name string) string {
	all := make(map[string]bool)
	for _, h := range a.GuardHandlers {
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

// NotifyBound tells the endpoints of agents that their tools have changed.
func (a *App) NotifyBound() {
	if !a.started.Load() {
		return
	}
	for _, b := range a.Bound {
		if b.Changed != nil {
			b.Changed()
		}
	}
}

// Narrow returns those of the tools, which are t's, that the agent may use.
func (a *App) Narrow(at Site, agent string, t *Toolset, tools *ocp.Toolset) *ocp.Toolset {
	if h := a.guardOf(at, agent); h != nil {
		return h.Narrow(agent, t, tools)
	}
	return tools.Only(func(*ocp.Tool) bool { return false })
}
