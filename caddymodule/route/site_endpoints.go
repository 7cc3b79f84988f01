package route

import (
	"net/http"
	"slices"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/tools"
)

// siteEndpoints are all endpoints of one configuration, in the order in which they are provisioned.
type siteEndpoints struct{ all []*Endpoint }

// siteEndpointsKey is the key of siteEndpoints in site.Share.
type siteEndpointsKey struct{}

func siteEndpointsOf(agents *app.App) *siteEndpoints {
	return site.Share(agents.Site, siteEndpointsKey{}, func() *siteEndpoints { return new(siteEndpoints) })
}

// addToSite adds an endpoint that is being provisioned to those that EndpointsOf returns.
func addToSite(e *Endpoint) {
	s := siteEndpointsOf(e.App)
	s.all = append(s.all, e)
}

// EndpointsOf returns the endpoints of a site, in the order of the configuration. It is complete once the
// configuration has started.
func EndpointsOf(agents *app.App, at site.Site) []*Endpoint {
	return slices.DeleteFunc(slices.Clone(siteEndpointsOf(agents).all), func(e *Endpoint) bool { return !e.agent.site.SameSite(at) })
}

// Visible returns a function that reports whether the caller of a request can see and call a tool of the
// endpoint. Tools has the tool.
func (e *Endpoint) Visible(r *http.Request, toolset *tools.Toolset) func(*tools.Tool) bool {
	return e.allowed(r, toolset)
}

// AgentName returns the agent whose tools the endpoint serves, "" if it serves all tools.
func (e *Endpoint) AgentName() string { return e.agent.name }

// Listed returns the tools that the endpoint lists for the caller of a request unless its client chooses otherwise: all tools that
// the caller can call, or built-in tools that search these. It returns none if no document is loaded.
func (e *Endpoint) Listed(r *http.Request) []*tools.Tool {
	base := e.Parts.Loaded()
	if base == nil {
		return nil
	}
	var current *listing
	if e.Listings.ruled {
		current = e.Listings.users.listing(e.Listings, base, UserOf(r))
	} else {
		current = e.Listings.build(base)
	}
	toolset := current.whole
	if current.searches && current.brief != nil {
		toolset = current.brief
	}
	visible := e.Visible(r, base)
	return slices.DeleteFunc(slices.Clone(toolset.Listed()), func(t *tools.Tool) bool { return t.Builtin == "" && !visible(t) })
}
