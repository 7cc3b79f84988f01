package oagent

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/fairwayhq/fairway/caddymodule/internal/adminapi"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/lock"
)

// State of the gateway on Caddy's admin endpoint:
//
//	GET /agents/toolsets                               the toolsets and their tools
//	GET /agents/agents                                 the agents and their capabilities
//	GET /agents/engagements[?after=<key>][&limit=<n>]  the Engagements, in pages
//	GET /agents/engagements?order=newest               those with the latest change first, see newest
//	GET /agents/reviews, POST /agents/reviews/<id>/…   see admin_reviews.go
func init() {
	adminapi.Register("agents",
		adminapi.Get("/agents/toolsets", listToolsets), adminapi.Get("/agents/agents", listAgents), adminapi.Get("/agents/engagements", listEngagements),
		adminapi.Get("/agents/reviews", listReviews), adminapi.Post(reviewsPath, maxDecision, decideReview),
	)
}

// RunningGuards returns the guards of the running configuration, nil if there are none.
func RunningGuards() *Guards {
	guards, _ := adminapi.Running[*Guards]()
	return guards
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

func listToolsets(*http.Request) (any, error) {
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

func listAgents(*http.Request) (any, error) {
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

func listEngagements(r *http.Request) (any, error) {
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
			return nil, adminapi.Error(http.StatusBadRequest, "limit %.20q: must be a number from 1 to %d", source, most)
		}
		limit = n
	}
	if isNewest {
		return newest(r, guard, limit)
	}
	engagements, _, err := guard.Engagements.Page(r.Context(), "", r.URL.Query().Get("after"), limit)
	return slices.Concat([]*engagement.Summary{}, engagements), err
}
