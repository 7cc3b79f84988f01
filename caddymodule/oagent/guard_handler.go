package oagent

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/tools"
)

// guardHandler is the interface of an oagent handler for other handlers and for the app. It implements
// app.GuardHandler.
type guardHandler struct{ *Handler }

// Site implements app.GuardHandler.
func (o guardHandler) Site() app.Site { return o.site }

// HasAgent implements app.GuardHandler.
func (o guardHandler) HasAgent(name string) bool {
	return o.agents.Last().Agents[name] != nil
}

// AgentNames implements app.GuardHandler.
func (o guardHandler) AgentNames() []string {
	return o.agents.Last().AgentNames()
}

// LimitTools implements app.GuardHandler.
func (o guardHandler) LimitTools(agent string, t *app.Toolset, toolset *tools.Toolset) *tools.Toolset {
	if g := o.agents.Current().Agents[agent]; g != nil {
		return g.Narrow(t, toolset)
	}
	return toolset.Only(func(*tools.Tool) bool { return false })
}

// StartWork implements app.GuardHandler.
func (o guardHandler) StartWork() error {
	if o.accepted != nil {
		o.accepted.Start()
	}
	if o.background && o.server != nil {
		// Open the store before the first request, to resume runs and reviews from before a restart and of
		// other nodes.
		route.VisitTracing(o.server, processSpans.Note)
	}
	o.notices.Start(o.app.ReviewPace) // before runs have notices
	if o.host != nil {
		if err := o.host.Open(); err != nil {
			return err
		}
	}
	o.reviewers.Start(o.app.ReviewPace)
	return nil
}

// StopWork implements app.GuardHandler.
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

// ReviewDecided implements app.GuardHandler.
func (o guardHandler) ReviewDecided(engagement string) {
	if o.host != nil {
		go o.host.Wake(engagement) // in the background, so that the reviewer's request does not wait
	}
}

// WakeReviewRequests implements app.GuardHandler.
func (o guardHandler) WakeReviewRequests() {
	o.reviewers.Wake()
	o.notices.Wake()
}

// Interface guard
var _ app.GuardHandler = guardHandler{}

// ServeRecords serves the endpoints below a path of another handler.
func (o guardHandler) ServeRecords(base string, w http.ResponseWriter, r *http.Request) bool {
	return o.endpoints.Below(base).Serve(w, r)
}

// Agents returns the agents of the handler, and what their capabilities refer to.
func (o guardHandler) Agents() ([]app.AgentDocument, oagent.Names) {
	current := o.agents.Current()
	documents := make([]app.AgentDocument, 0, len(current.Agents))
	for _, name := range current.AgentNames() {
		a := current.Agents[name]
		documents = append(documents, app.AgentDocument{Agent: a.Agent, Lint: a.Lint})
	}
	return documents, current.Names
}

// IsAuditor reports whether the user may see all Engagements.
func (o guardHandler) IsAuditor(user *identity.User) bool {
	return user.IsIn(o.Auditors)
}

// HostedAgents implements app.GuardHandler.
func (o guardHandler) HostedAgents() (hosted []app.HostedAgent) {
	if o.host == nil {
		return nil
	}
	for _, agent := range o.agents.Last().Documents() {
		if o.host.Runs(agent) {
			exposed := app.HostedAgent{Name: agent.Name, Description: agent.Description, Path: strings.TrimRight(o.Serve, "/") + "/" + agent.Name}
			if agent.OutputSchema != nil {
				exposed.OutputSchema = agent.OutputSchema.JSON
			}
			hosted = append(hosted, exposed)
		}
	}
	return hosted
}

// serveExposedAgent responds to a call of an agent that an endpoint serves as a tool. If another handler
// hosts the agent, it passes the call on.
func serveExposedAgent(o *Handler, call *route.AgentCall, w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	called := o.agents.Current().Agents[call.Agent]
	if called == nil || !o.host.Runs(called.Agent) || strings.TrimRight(o.Serve, "/")+"/"+called.Name != call.Serve {
		return next.ServeHTTP(w, r)
	}
	o.host.ServeTool(w, r, call, called.Agent, bind(o, r, called.Agent).User)
	return nil
}
