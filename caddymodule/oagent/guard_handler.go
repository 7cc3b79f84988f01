package oagent

import (
	"net/http"
	"slices"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// guardHandler is the interface of an oagent handler for other handlers and for the app. It implements
// agents.GuardHandler.
type guardHandler struct{ *Handler }

// Site implements agents.GuardHandler.
func (o guardHandler) Site() agents.Site { return o.site }

// HasAgent implements agents.GuardHandler.
func (o guardHandler) HasAgent(name string) bool {
	return o.agents.Last().Agents[name] != nil
}

// AgentNames implements agents.GuardHandler.
func (o guardHandler) AgentNames() []string {
	return o.agents.Last().AgentNames()
}

// LimitTools implements agents.GuardHandler.
func (o guardHandler) LimitTools(agent string, t *agents.Toolset, tools *tool.Toolset) *tool.Toolset {
	if g := o.agents.Current().Agents[agent]; g != nil {
		return g.Narrow(t, tools)
	}
	return tools.Only(func(*tool.Tool) bool { return false })
}

// StartWork implements agents.GuardHandler.
func (o guardHandler) StartWork() error {
	if o.accepted != nil {
		o.accepted.Start()
	}
	if o.background && o.server != nil {
		// Open the store before the first request, to resume runs and reviews from before a restart and of
		// other nodes.
		toolcall.VisitTracing(o.server, processSpans.Note)
	}
	if o.host != nil {
		if err := o.host.Open(); err != nil {
			return err
		}
	}
	o.reviewers.Start(o.app.ReviewPace)
	o.notices.Start(o.app.ReviewPace)
	return nil
}

// StopWork implements agents.GuardHandler.
func (o guardHandler) StopWork() {
	o.notices.Stop()
	o.reviewers.Stop()
	if o.host != nil {
		o.host.Close()
	}
	if o.accepted != nil {
		o.accepted.Stop()
	}
}

// ReviewDecided implements agents.GuardHandler.
func (o guardHandler) ReviewDecided(engagement string) {
	if o.host != nil {
		go o.host.Wake(engagement) // in the background, so that the reviewer's request does not wait
	}
}

// WakeReviewRequests implements agents.GuardHandler.
func (o guardHandler) WakeReviewRequests() {
	o.reviewers.Wake()
	o.notices.Wake()
}

// Interface guard
var _ agents.GuardHandler = guardHandler{}

// ServeRecords serves the endpoints below a path of another handler.
func (o guardHandler) ServeRecords(base string, w http.ResponseWriter, r *http.Request) bool {
	return o.endpoints.Below(base).Serve(w, r)
}

// Agents returns the agents of the handler, and what their capabilities refer to.
func (o guardHandler) Agents() ([]agents.AgentDocument, oagent.Names) {
	current := o.agents.Current()
	documents := make([]agents.AgentDocument, 0, len(current.Agents))
	for _, name := range current.AgentNames() {
		a := current.Agents[name]
		documents = append(documents, agents.AgentDocument{Agent: a.Agent, Lint: a.Lint})
	}
	return documents, current.Names
}

// IsAuditor reports whether the user may see all Engagements.
func (o guardHandler) IsAuditor(user string) bool {
	return slices.Contains(o.Auditors, user)
}
