package toolcall

import (
	"net/http"
	"slices"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// siteEndpoints are all endpoints of one configuration, in the order in which they are provisioned.
type siteEndpoints struct{ all []*Endpoint }

// siteEndpointsKey is the key of siteEndpoints in agents.Share.
type siteEndpointsKey struct{}

func siteEndpointsOf(app *agents.App) *siteEndpoints {
	return agents.Share(app, siteEndpointsKey{}, func() *siteEndpoints { return new(siteEndpoints) })
}

// addToSite adds an endpoint that is being provisioned to those that EndpointsOf returns.
func addToSite(e *Endpoint) {
	s := siteEndpointsOf(e.App)
	s.all = append(s.all, e)
}

// EndpointsOf returns the endpoints of a site, in the order of the configuration. It is complete once the
// configuration has started.
func EndpointsOf(app *agents.App, site agents.Site) []*Endpoint {
	return slices.DeleteFunc(slices.Clone(siteEndpointsOf(app).all), func(e *Endpoint) bool { return !e.agent.site.SameSite(site) })
}

// Visible returns a function that reports whether the caller of a request can see and call a tool of the
// endpoint. Tools has the tool.
func (e *Endpoint) Visible(r *http.Request, tools *tool.Toolset) func(*tool.Tool) bool {
	return e.allowed(r, tools)
}

// AgentName returns the agent whose tools the endpoint serves, "" if it serves all tools.
func (e *Endpoint) AgentName() string { return e.agent.name }
