package oagent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/lock"
)

func init() {
	caddy.RegisterModule(new(adminAgents))
}

// adminAgents serves the state of the gateway on Caddy's admin endpoint:
//
//	GET /agents/toolsets                               the toolsets and their tools
//	GET /agents/agents                                 the agents and their capabilities
//	GET /agents/engagements[?after=<key>][&limit=<n>]  the Engagements, in pages
//	GET /agents/engagements?order=newest               those with the latest change first, see newest
//	GET /agents/reviews, POST /agents/reviews/<id>/…   see admin_reviews.go
type adminAgents struct{}

// CaddyModule returns the Caddy module information.
func (*adminAgents) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.agents",
		New: func() caddy.Module { return new(adminAgents) },
	}
}

// RunningGuards returns the guards of the running configuration, nil if there are none. The admin endpoint
// of a configuration serves requests before the handlers are provisioned, and also if that fails.
func RunningGuards() *Guards {
	loaded, err := caddy.ActiveContext().AppIfConfigured("agents")
	if err != nil {
		return nil
	}
	guards, err := site.Get[*Guards](loaded.(*site.App))
	if err != nil || guards.app == nil {
		return nil
	}
	return guards
}

// Routes returns the routes of the admin endpoint.
func (a *adminAgents) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		AdminRoute("/agents/toolsets", a.toolsets),
		AdminRoute("/agents/agents", a.agents),
		AdminRoute("/agents/engagements", a.engagements),
		AdminRoute("/agents/reviews", a.reviews),
		{Pattern: "/agents/reviews/", Handler: caddy.AdminHandlerFunc(a.decide)},
	}
}

// AdminRoute returns a route of the admin endpoint that responds to GET with the JSON of what list returns.
func AdminRoute(pattern string, list func(r *http.Request) (any, error)) caddy.AdminRoute {
	return caddy.AdminRoute{Pattern: pattern, Handler: caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: fmt.Errorf("method %s is not allowed: use GET", r.Method)}
		}
		content, err := list(r)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		return json.NewEncoder(w).Encode(content)
	})}
}

// adminToolset is a toolset on the admin endpoint.
type adminToolset struct {
	Name     string      `json:"name"`
	Document string      `json:"document"`
	Loaded   bool        `json:"loaded"`
	Title    string      `json:"title,omitempty"`
	Version  string      `json:"version,omitempty"`
	Warnings int         `json:"warnings"`
	Tools    []adminTool `json:"tools"`

	// How the document's tools differ from the lock. Changed and new tools are withheld.
	LockChanges []lock.Change `json:"lock_changes,omitempty"`
}

type adminTool struct {
	Name      string `json:"name"`
	AgentName string `json:"agent_name"` // the tool's name in agent documents
	Method    string `json:"method"`
	Path      string `json:"path"`
}

func (a *adminAgents) toolsets(*http.Request) (any, error) {
	list := []adminToolset{}
	guards := RunningGuards()
	if guards == nil {
		return list, nil
	}
	seen := make(map[string]bool)
	for _, d := range guards.app.OpenDocuments {
		key := d.Key
		key.ResponseSchemas = false
		if seen[key.String()] {
			continue
		}
		seen[key.String()] = true
		t := adminToolset{Name: d.Key.Name, Document: text.RedactURL(d.Key.Address), Tools: []adminTool{}}
		t.LockChanges = d.LockChanges()
		if set := d.Loader.Toolset(); set != nil {
			t.Loaded, t.Title, t.Version, t.Warnings = true, set.Title, set.Version, len(set.Report.Warnings)
			t.Tools = adminTools(set)
		}
		list = append(list, t)
	}
	return list, nil
}

func adminTools(set *tools.Toolset) []adminTool {
	toolset := make([]adminTool, 0, len(set.Tools()))
	for _, t := range set.Tools() {
		toolset = append(toolset, adminTool{t.Name, oagent.KebabName(t.Name), t.Plan.Method, t.Plan.Path})
	}
	return toolset
}

// adminAgent is an agent on the admin endpoint.
type adminAgent struct {
	Name         string            `json:"name"`
	Description  string            `json:"description"`
	Owner        string            `json:"owner"`
	Location     string            `json:"location"`
	Hash         string            `json:"hash"`
	Capabilities []adminCapability `json:"capabilities"`
}

type adminCapability struct {
	Reference string `json:"reference"`
	Toolset   string `json:"toolset,omitempty"`
	Tool      string `json:"tool,omitempty"` // "" if the tool does not exist
}

func (a *adminAgents) agents(*http.Request) (any, error) {
	list := []adminAgent{}
	guards := RunningGuards()
	if guards == nil {
		return list, nil
	}
	for _, o := range guards.Handlers {
		l := o.Loader.Current()
		for _, agent := range o.Loader.Documents() {
			shown := adminAgent{
				Name: agent.Name, Description: agent.Description, Owner: agent.Owner, Location: agent.Location, Hash: agent.Hash,
				Capabilities: make([]adminCapability, len(agent.Capabilities)),
			}
			for i := range agent.Capabilities {
				c := &agent.Capabilities[i]
				shown.Capabilities[i].Reference = c.Reference.String()
				if target, err := c.Reference.Resolve(l.Names); err == nil && target.Tool != nil {
					shown.Capabilities[i].Toolset, shown.Capabilities[i].Tool = target.Toolset, target.Tool.Name
				}
			}
			list = append(list, shown)
		}
	}
	return list, nil
}

func (a *adminAgents) engagements(r *http.Request) (any, error) {
	const most = 1000
	guard, err := runningGuard(r)
	isNewest := r.URL.Query().Get("order") == "newest"
	switch {
	case guard == nil && isNewest:
		return adminEngagements{Engagements: []*engagement.Summary{}}, err
	case guard == nil:
		return []*engagement.Summary{}, err
	}
	limit := 100
	if source := r.URL.Query().Get("limit"); source != "" {
		n, err := strconv.Atoi(source)
		if err != nil || n < 1 || n > most {
			return nil, caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: fmt.Errorf("limit %.20q: must be a number from 1 to %d", source, most)}
		}
		limit = n
	}
	if isNewest {
		return newest(r, guard, limit)
	}
	engagements, _, err := guard.Engagements.Page(r.Context(), "", r.URL.Query().Get("after"), limit)
	if err != nil {
		return nil, caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: err}
	}
	return slices.Concat([]*engagement.Summary{}, engagements), nil
}

// Interface guard
var _ caddy.AdminRouter = (*adminAgents)(nil)
