package oagent

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// guardedRequest is a request to the API that an agent's document governs. It passes these
// phases in this order:
//
//  1. findAgent resolves the agent and the Engagement (govern.go).
//  2. operationReader finds the operation and its arguments (read_operation.go).
//  3. chooseIdentity selects the credentials for the API (identity.go).
//  4. begin checks the input restriction and records the call.
//  5. response runs the next handlers, checks the output restriction, and releases the response
//     (response.go, plain_response.go, call_response.go).
//
// If a phase refuses the request, the phases after it do not run (refusal.go).
type guardedRequest struct {
	governedRequest
	capability *oagent.Capability // nil if the agent may not call the operation
	encoding   [1]string          // storage for the header Accept-Encoding
}

// serve passes the request on, or refuses it.
func (g *guardedRequest) serve() error {
	g.repl, _ = g.r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	g.call, g.rec = tool.CallFromContext(g.r.Context()), recorderOf(g.w)
	g.hosted = g.handler.host.CallOf(g.r.Context())
	g.agents = g.handler.agents.CurrentFor(g.r, g.next)
	if refusal := g.findAgent(); refusal != nil {
		return g.sendRefusal(refusal)
	}
	if refusal := (operationReader{g}).read(); refusal != nil {
		return g.sendRefusal(refusal)
	}
	var identity upstreamIdentity
	if g.capability != nil {
		var refusal *refusalError
		if identity, refusal = g.chooseIdentity(); refusal != nil {
			return g.sendRefusal(refusal)
		}
	}
	if refusal := g.begin(); refusal != nil {
		return g.sendRefusal(refusal)
	}
	g.setPlaceholders(allowed)
	res := response{guardedRequest: g}
	if g.ticket.Replayed != nil {
		return res.sendReviewed()
	}
	removeForwardedTargets(g.r.Header)
	identity.apply(g.r, g.operation, g.handler.callerHeaders)
	res.setInjected(identity.with)
	if g.rec != nil && g.w == http.ResponseWriter(g.rec) {
		return res.serveCall()
	}
	return res.servePlain()
}

// begin asks the Guard for a decision. While it waits for a reviewer, the timeout of the tool
// call is paused.
func (g *guardedRequest) begin() *refusalError {
	guard, err := g.handler.guard(g.r.Context())
	if err != nil {
		return g.refuse(engagement.KindStore, 0, "", "the call was not made: the record of the Engagement is unavailable; try again later", err)
	}
	if g.capability != nil && g.capability.Input != nil && g.capability.Input.RequireReview != "" {
		defer g.pauseTimeout()()
	}
	call := oagent.Call{
		Binding: g.binding, Name: g.name, Names: g.agents.Names, Inputs: g.inputs, Checked: true, Conditional: isConditional(g.r.Header),
	}
	if g.hosted != nil {
		call.NoWait, call.Uncertain = true, g.hosted.Uncertain
	}
	g.ticket, err = guard.Begin(g.r.Context(), call)
	return asRefusalError(err)
}

// pauseTimeout pauses the timeout of a tool call. The returned function resumes it.
func (g *guardedRequest) pauseTimeout() func() {
	if g.rec == nil || g.rec.StreamOptions.Timer == nil || !g.rec.StreamOptions.Timer.Stop() {
		return func() {}
	}
	return func() { g.rec.StreamOptions.Timer.Reset(g.rec.StreamOptions.Timeout) }
}
