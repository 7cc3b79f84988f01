package app

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/tools"
)

// Site identifies the site that a handler belongs to. It is the outermost subroute around the
// handler, which the Caddyfile adapter creates for each site with a host, or else the server.
type Site struct {
	server *caddyhttp.Server
	site   *caddyhttp.Subroute
}

// GracePeriod returns how long requests may go on when the servers of a configuration stop, or 0 if there is no limit. It
// is called after the configuration was provisioned.
func GracePeriod(ctx caddy.Context) time.Duration {
	if servers, err := ctx.AppIfConfigured("http"); err == nil {
		return time.Duration(servers.(*caddyhttp.App).GracePeriod)
	}
	return 0
}

// SiteOf returns the site of the handler that is being provisioned.
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

// SameSite reports whether both handlers belong to the same site. A site without a host has no
// subroute of its own, so subroutes in it are only blocks of routes.
func (p Site) SameSite(other Site) bool {
	return p.server == other.server && (p.site == other.site || p.site == nil || other.site == nil)
}

// A servedToolset is a toolset that a handler of a site serves to clients.
type servedToolset struct {
	site    Site
	toolset *Toolset
}

// AddServed records that a handler of the site serves the toolset.
func (a *App) AddServed(at Site, t *Toolset) {
	a.served = append(a.served, servedToolset{at, t})
}

// ServedAt returns the toolsets that the handlers of a site serve. Only handlers that are
// already provisioned are included.
func (a *App) ServedAt(at Site) (toolsets []*Toolset) {
	for _, o := range a.served {
		if o.site.SameSite(at) && !slices.Contains(toolsets, o.toolset) {
			toolsets = append(toolsets, o.toolset)
		}
	}
	return toolsets
}

// GuardHandler is the part of an oagent handler that the app and the endpoints use.
type GuardHandler interface {
	// Site returns the site of the handler.
	Site() Site
	// HasAgent reports whether one of the handler's documents defines the agent.
	HasAgent(name string) bool
	// AgentNames returns the names of the agents in the handler's documents.
	AgentNames() []string
	// HostedAgents returns the agents that the handler runs.
	HostedAgents() []HostedAgent
	// LimitTools returns the tools that the agent may use. The tools are a subset of t's tools.
	LimitTools(agent string, t *Toolset, toolset *tools.Toolset) *tools.Toolset
	// StartWork begins the work in the background: requests to reviewing agents, and runs of hosted
	// agents. StopWork ends it.
	StartWork() error
	StopWork()
	// WakeReviewRequests makes the handler look for reviews that its agents must decide.
	WakeReviewRequests()
	// ServeRecords serves the documents, Engagements and reviews of the handler below a path of another
	// handler, under the same rules as at the handler's own paths. It reports whether the path exists.
	ServeRecords(base string, w http.ResponseWriter, r *http.Request) bool
	// Agents returns the agents, and what their capabilities refer to.
	Agents() ([]AgentDocument, oagent.Names)
	// IsAuditor reports whether the user may see all Engagements.
	IsAuditor(user *identity.User) bool
	// ReviewDecided is called with the id of the Engagement when one of its reviews is decided.
	ReviewDecided(engagement string)
}

// AgentDocument is an agent of an oagent handler.
type AgentDocument struct {
	*oagent.Agent

	// Lint returns the faults of the document that oagent.Agent.LintExpressions finds. They are computed by the
	// first call, and again when the document or a toolset has been reloaded.
	Lint func() oagent.LintErrors
}

// GuardsAt returns the oagent handlers of a site. It is complete once the configuration has started.
func (a *App) GuardsAt(at Site) (handlers []GuardHandler) {
	for _, h := range a.GuardHandlers {
		if h.Site().SameSite(at) {
			handlers = append(handlers, h)
		}
	}
	return handlers
}

type auditorKey struct{}

// ContextWithAuditor returns the context of a request that another handler has allowed to see all
// Engagements.
func ContextWithAuditor(ctx context.Context) context.Context {
	return context.WithValue(ctx, auditorKey{}, true)
}

// IsAuditor reports whether the context is one of ContextWithAuditor.
func IsAuditor(ctx context.Context) bool {
	is, _ := ctx.Value(auditorKey{}).(bool)
	return is
}

// AgentEndpoint is an endpoint that serves the tools of one agent only.
type AgentEndpoint struct {
	Site           Site
	Agent          string
	Protocol, Path string // of the endpoint
	ToolsChanged   func() // called when the tools of the agent change; may be nil
}

// guardHandler returns the handler that defines the agent. A handler of the same site takes
// precedence. The result is nil if no handler defines the agent.
func guardHandler(a *App, at Site, agent string) GuardHandler {
	var found GuardHandler
	for _, h := range a.GuardHandlers {
		if !h.HasAgent(agent) {
			continue
		}
		if h.Site().SameSite(at) {
			return h
		}
		if found == nil {
			found = h
		}
	}
	return found
}

// HasAgentEndpoint reports whether an endpoint of the site is limited to an agent. Only endpoints that are already provisioned
// are included.
func HasAgentEndpoint(a *App, at Site) bool {
	return slices.ContainsFunc(a.AgentEndpoints, func(b *AgentEndpoint) bool { return b.Site.SameSite(at) })
}

// CheckAgents returns an error if an endpoint is limited to an agent that no document defines, or serves an agent that is not hosted.
// The oagent handlers must be provisioned.
func CheckAgents(a *App) error {
	for _, b := range a.AgentEndpoints {
		if guardHandler(a, b.Site, b.Agent) == nil {
			return fmt.Errorf("%s %s: no oagent handler defines the agent %q%s", b.Protocol, b.Path, b.Agent, suggestAgents(a, b.Agent))
		}
	}
	return checkExposed(a)
}

// suggestAgents returns the end of an error message: the nearest agent name, or all agent
// names.
func suggestAgents(a *App, name string) string {
	all := make(map[string]bool)
	for _, h := range a.GuardHandlers {
		for _, agent := range h.AgentNames() {
			all[agent] = true
		}
	}
	names := slices.Sorted(maps.Keys(all))
	if similar := text.Nearest(name, slices.Values(names)); similar != "" {
		return "; did you mean " + similar + "?"
	}
	if len(names) == 0 {
		return "; there is no oagent handler, which loads the agent documents"
	}
	return "; there are: " + strings.Join(names, ", ")
}

// NotifyAgentEndpoints updates the endpoints that serve agents as tools, and calls ToolsChanged of those
// that are limited to an agent.
func (a *App) NotifyAgentEndpoints() {
	if !a.started.Load() {
		return
	}
	reloadExposed(a)
	for _, b := range a.AgentEndpoints {
		if b.ToolsChanged != nil {
			b.ToolsChanged()
		}
	}
}

// LimitTools returns the tools that the agent may use. The tools are a subset of t's tools. If no
// handler defines the agent, the result is empty.
func (a *App) LimitTools(at Site, agent string, t *Toolset, toolset *tools.Toolset) *tools.Toolset {
	if h := guardHandler(a, at, agent); h != nil {
		return h.LimitTools(agent, t, toolset)
	}
	return toolset.Only(func(*tools.Tool) bool { return false })
}
