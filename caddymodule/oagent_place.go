package caddymodule

import (
	"context"
	"fmt"
	"maps"
	"slices"

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

// oagentWith returns the handler that has the agent of that name: one of the same
// site before others. It is nil if there is none.
func (a *Agents) oagentWith(at place, agent string) *OAgent {
	var found *OAgent
	for _, o := range a.oagents {
		if l := o.linked.Load(); l == nil || l.agents[agent] == nil {
			continue
		}
		if o.place.near(at) {
			return o
		}
		if found == nil {
			found = o
		}
	}
	return found
}

// checkBound refuses a configuration in which a handler offers the tools of an
// agent that there is not.
func (a *Agents) checkBound() error {
	for _, e := range a.bound {
		if a.oagentWith(e.place, e.agent) == nil {
			return fmt.Errorf("%s %s: no oagent handler has an agent %q%s", e.protocol, e.path, e.agent, a.agentsInstead(e.agent))
		}
	}
	a.started.Store(true)
	return nil
}

// agentsInstead says which agent may have been meant, or which there are.
func (a *Agents) agentsInstead(name string) string {
	all := make(map[string]*governed)
	for _, o := range a.oagents {
		if l := o.linked.Load(); l != nil {
			maps.Copy(all, l.agents)
		}
	}
	if near := nearest.Name(name, slices.Values(slices.Sorted(maps.Keys(all)))); near != "" {
		return "; did you mean " + near + "?"
	}
	if len(all) == 0 {
		return ", and there is no oagent handler: it names the documents of agents"
	}
	return "; there are: " + (&linked{agents: all}).agentNames()
}

// tellBound tells the endpoints of agents that what these may use has changed.
func (a *Agents) tellBound() {
	if !a.started.Load() {
		return
	}
	for _, e := range a.bound {
		if e.changed != nil {
			e.changed()
		}
	}
}

// narrow returns what the agent may use of the tools, which are those of t.
func (a *Agents) narrow(at place, agent string, t *toolset, tools *ocp.Toolset) *ocp.Toolset {
	if o := a.oagentWith(at, agent); o != nil {
		if g := o.relink(nil, nil).agents[agent]; g != nil {
			return g.narrow(t, tools)
		}
	}
	return tools.Only(func(*ocp.Tool) bool { return false })
}

type gatewayKey struct{}

// contextOfGateway returns the context of a request that the gateway makes for
// itself: for a document of the site, say. No agent governs it.
func contextOfGateway(ctx context.Context) context.Context {
	return context.WithValue(ctx, gatewayKey{}, true)
}

func isOfGateway(ctx context.Context) bool {
	of, _ := ctx.Value(gatewayKey{}).(bool)
	return of
}
