package oagent

import (
	"context"
	"net/http"

	"github.com/fairwayhq/fairway/caddymodule/oagent/endpoints"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/oagent"
)

// startWork begins the work in the background: requests to reviewing agents, and that of the parts.
func (o *Handler) startWork() error {
	if o.background && o.server != nil {
		// Open the store before the first request, to resume runs and reviews from before a restart and of
		// other nodes.
		route.VisitTracing(o.server, processSpans.Note)
	}
	o.Notices.Start(o.guards.pace) // before runs have notices
	if err := eachPart(o, site.Starter.Start); err != nil {
		return err
	}
	o.Reviewing.Start(o.guards.pace)
	return nil
}

// stopWork ends what startWork has begun.
func (o *Handler) stopWork() {
	o.Notices.Stop()
	o.Reviewing.Stop()
	_ = eachPart(o, func(p site.Stopper) error {
		p.Stop()
		return nil
	})
}

// reviewDecided wakes the run that has waited for a review of its Engagement.
func (o *Handler) reviewDecided(engagement string) {
	if o.Host != nil {
		go o.Host.Wake(engagement) // in the background, so that the reviewer's request does not wait
	}
}

// wakeReviewRequests makes the handler look for reviews that its agents must decide.
func (o *Handler) wakeReviewRequests() {
	o.Reviewing.Wake()
	o.Notices.Wake()
}

// HasAgent reports whether one of the handler's documents defines the agent.
func (o *Handler) HasAgent(name string) bool { return o.Loader.Last().Agents[name] != nil }

// ServeRecords serves the documents, Engagements and reviews of the handler below a path of another
// handler, under the same rules as at the handler's own paths. It reports whether the path exists.
func (o *Handler) ServeRecords(base string, w http.ResponseWriter, r *http.Request) bool {
	return o.endpoints.Below(base).Serve(w, r)
}

// AgentDocument is an agent of an oagent handler.
type AgentDocument struct {
	*oagent.Agent

	// Lint returns the faults of the document that oagent.Agent.LintExpressions finds. They are computed by the
	// first call, and again when the document or a toolset has been reloaded.
	Lint func() oagent.LintErrors
}

// Agents returns the agents of the handler, and what their capabilities refer to.
func (o *Handler) Agents() ([]AgentDocument, oagent.Names) {
	current := o.Loader.Current()
	documents := make([]AgentDocument, 0, len(current.Agents))
	for _, name := range current.AgentNames() {
		a := current.Agents[name]
		documents = append(documents, AgentDocument{Agent: a.Agent, Lint: a.Lint})
	}
	return documents, current.Names
}

// IsAuditor reports whether the user may see all Engagements.
func (o *Handler) IsAuditor(user *identity.User) bool {
	return user.IsIn(o.Auditors)
}

// ContextWithAuditor returns the context of a request that another handler has allowed to see all
// Engagements.
func ContextWithAuditor(ctx context.Context) context.Context {
	return endpoints.ContextWithAuditor(ctx)
}
