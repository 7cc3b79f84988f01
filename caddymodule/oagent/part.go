package oagent

import (
	"cmp"
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/caddymodule/oagent/endpoints"
	"github.com/fairwayhq/fairway/caddymodule/oagent/notify"
	"github.com/fairwayhq/fairway/caddymodule/oagent/reviewers"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// Part is a part of the handler with options of its own: agents that this server runs, or guardrails on model traffic. Its
// package calls RegisterPart, so that a build without the package does not link what the options need.
//
// A part may also be a caddy.Validator, caddy.CleanerUpper, site.Starter, site.Stopper and pathServer.
type Part interface {
	directive.Part

	// Provision sets up the part, whether or not its options are set. The toolsets and the identities of the handler are known, and
	// its agents are loaded afterwards. The part may set fields of Shared.
	Provision(ctx caddy.Context, o *Handler) error
}

// pathServer is a Part that responds to requests to paths of the site, and not only below those of the handler.
type pathServer interface {
	// ServedPaths returns the name of the option, and the paths.
	ServedPaths() (option string, paths []string)
}

// Shared is what a handler and its parts know of each other.
type Shared struct {
	// Set before the parts are provisioned.

	Matched []*app.Toolset // that requests are matched to

	// Set by parts.

	Host     Host     // nil if no agent is hosted
	Acceptor acceptor // nil if no documents are accepted
	Chat     chat     // nil without guardrails on model traffic

	// Set after the parts are provisioned.

	Loader    *agentset.Loader   // the agents
	Reviewing *reviewers.Service // decides reviews on behalf of agents
	Notices   *notify.Service    // nil if there are no notifiers
}

// Host runs agents of the handler. Package hosted implements it.
type Host interface {
	endpoints.Host
	reviewers.Host

	// CheckAgents returns an error if the configuration of the Host names an agent that does not exist.
	CheckAgents(names []string) error
	// CheckRemote returns the function that rejects agents of other servers which must not be called; nil if none may be.
	CheckRemote() func(oagent.Reference) error
	// Outbox has the notices about runs.
	Outbox() notify.Outbox
	// Wake resumes the run that has waited for a review. The id is that of its Engagement; an unknown one has no effect.
	Wake(id string)
	// ServeTool responds to a call of an agent that an endpoint serves as a tool. It reports whether this Host runs the agent.
	ServeTool(w http.ResponseWriter, r *http.Request, call *route.AgentCall) bool
}

// acceptor accepts agent documents over HTTP. Package hosted implements it.
type acceptor interface {
	// Permit returns an error if an accepted agent uses something that is not in the allow-list.
	Permit(a *oagent.Agent, names *agentset.Names) error
	// Serve responds to an authenticated request that changes a document.
	Serve(q *endpoints.Request) error
}

// Runs reports whether this server runs the agent.
func (o *Handler) Runs(agent *oagent.Agent) bool { return o.Host != nil && o.Host.Runs(agent) }

// Accept replaces the agents that were accepted over HTTP.
func (o *Handler) Accept(agents []*oagent.Agent) {
	o.Loader.Accept(agents)
	showMetrics(o)
	o.Notices.Wake()
	o.guards.notifyEndpoints()
}

// CheckAgent returns an error if the configuration does not support an agent.
func (o *Handler) CheckAgent(a *oagent.Agent, set *agentset.Set) error {
	return cmp.Or(checkPeople(o, a), checkGuardrails(o, set, a))
}

// UserOf returns the user of a request with an agent.
func (o *Handler) UserOf(r *http.Request, agent *oagent.Agent) engagement.User {
	return bind(o, r, agent).User
}

// Spans makes the spans of work without a request.
func Spans() *calltrace.Source { return &processSpans }

var parts directive.Parts[Part]

// RegisterPart adds a part to each handler. It is for init.
func RegisterPart(create func() Part) { parts.Register(create) }

// eachPart calls do with each part of the handler that is a T, until there is an error.
func eachPart[T any](o *Handler, do func(T) error) error {
	for _, p := range o.parts {
		if t, ok := p.(T); ok {
			if err := do(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// Parts returns the parts, which have further options of the handler.
func (o *Handler) Parts() []Part { return o.parts }

// ownOptions are the options of the handler itself.
type ownOptions Handler

// allParts returns the structs that have the options of the handler.
func (o *Handler) allParts() []directive.Part {
	all := append(make([]directive.Part, 0, 1+len(o.parts)), (*ownOptions)(o))
	for _, p := range o.parts {
		all = append(all, p)
	}
	return all
}

// UnmarshalJSON gives the handler and its parts their options.
func (o *Handler) UnmarshalJSON(data []byte) error {
	return directive.DecodeParts("oagent", data, o.allParts()...)
}

// MarshalJSON returns the options of the handler and its parts.
func (o *Handler) MarshalJSON() ([]byte, error) { return directive.EncodeParts(o.allParts()...) }
