package oagent

import (
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/oagent/agentset"
	"github.com/fairwayhq/fairway/caddymodule/oagent/hosting"
	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// governedRequest is a request with the agent and the Engagement that govern it. Requests to the
// API (guardedRequest) and to a model (modelRequest) embed it. It can refuse the request, log the
// decision, and expose values of the Engagement.
type governedRequest struct {
	handler *Handler
	w       http.ResponseWriter
	r       *http.Request
	next    caddyhttp.Handler
	repl    *caddy.Replacer
	call    *tool.Call         // nil for a plain request
	rec     *toolcall.Recorder // the recorder of the tool call; nil for a plain request
	hosted  *hosting.Call      // the tool call if an agent of this handler makes it on this server; nil otherwise
	began   time.Time

	agents  *agentset.Set
	agent   *agentset.Agent // nil if no agent governs the request
	binding oagent.Binding
	key     string // see engagementKey

	operation *agentset.Operation // nil until it is found
	name      string              // the operation's name in agent documents
	inputs    jsontext.Value
	ticket    *oagent.Ticket // nil until the Guard has allowed the call

	status int              // of the response
	failed tool.FailureKind // failure of a next handler; "" if none
}

// replacePlaceholders replaces the placeholders in a text.
func (g *governedRequest) replacePlaceholders(text string) string {
	if text == "" || g.repl == nil {
		return text
	}
	return g.repl.ReplaceAll(text, "")
}

// findAgent finds the agent that governs the request, and the Engagement.
func (g *governedRequest) findAgent() *refusalError {
	if g.hosted != nil {
		return g.bindHosted()
	}
	name := g.replacePlaceholders(g.handler.Guard)
	switch {
	case name != "":
		g.agent = g.agents.Agents[name]
	case g.agents.Only != nil:
		g.agent = g.agents.Only
	default:
		return g.refuse(engagement.KindUnknownAgent, 0, "", "the request was refused: it does not name its agent; the agents are "+
			g.agents.ListAgents(), nil)
	}
	if g.agent == nil {
		return g.refuse(engagement.KindUnknownAgent, 0, "", fmt.Sprintf("the request was refused: unknown agent %.128q", name), nil)
	}
	g.binding = bind(g.handler, g.r, g.agent.Agent)
	return g.bindCaller()
}

// bindHosted sets the agent and the Engagement of a tool call of a hosted agent. They come from the
// run, never from the request.
func (g *governedRequest) bindHosted() *refusalError {
	g.hosted.Reached = true
	g.binding = g.hosted.Binding
	if g.agent = g.agents.Agents[g.binding.Agent.Name]; g.agent == nil {
		return g.refuse(engagement.KindUnknownAgent, 0, "", "the call was not made: the agent is no longer configured", nil)
	}
	g.binding.Agent = g.agent.Agent
	return nil
}

// engagementKey returns the key of the Engagement, or "" if no agent governs the request.
func (g *governedRequest) engagementKey() string {
	switch {
	case g.key != "" || g.agent == nil:
	case g.ticket != nil:
		g.key = g.ticket.Key
	default:
		g.key = g.binding.Key()
	}
	return g.key
}

// bind returns the Engagement of a request with an agent. It is identified by the authenticated
// user and by the id in the request. If the caller is not authenticated, the id is extended by
// its IP address as Caddy determines it (client_ip, which respects trusted proxies). So a
// caller who knows the id of another caller's Engagement cannot use or exhaust it. See also bindCaller.
func bind(o *Handler, r *http.Request, agent *oagent.Agent) oagent.Binding {
	b := oagent.Binding{Agent: agent}
	repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if repl != nil {
		b.User.ID, _ = repl.GetString("http.auth.user.id")
		b.User.Email, _ = repl.GetString("http.auth.user.email")
		if o.Engagement != "" {
			b.Engagement = repl.ReplaceAll(o.Engagement, "")
		}
	}
	if b.User.ID == "" {
		address, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
		b.Engagement += "@" + address
	}
	o.reviewers.Bind(&b)
	return b
}

// bindCaller separates unauthenticated callers that share an IP address but send different
// credentials for the API: each gets Engagements of its own. The id of the Engagement gets a
// keyed hash of the credentials, as in the call records of otc.
//
// Credentials that never reach the API are ignored, because they are never checked. Otherwise a
// caller could escape the agent's limits with new invented credentials for each call.
func (g *governedRequest) bindCaller() *refusalError {
	if g.binding.User.ID != "" || !g.agent.AsCaller && g.handler.Chat == nil {
		return nil
	}
	r := g.r
	if rec := recorderOf(g.w); rec != nil && rec.ToolsetCredentials != nil {
		r = rec.ClientRequest // the inner request of the tool call already has the gateway's credentials instead
	}
	further, found := g.agents.Credentials.In(r)
	if !found {
		return nil
	}
	hash, err := g.callerHash(r, further)
	if err != nil {
		return g.refuse(engagement.KindStore, 0, "", "the request was refused: the record of the Engagement is unavailable; try again later", err)
	}
	g.binding.Engagement += "#" + hash
	return nil
}

func (g *governedRequest) callerHash(r *http.Request, further []string) (string, error) {
	st, err := g.handler.app.OpenStore(r.Context())
	if err != nil {
		return "", err
	}
	return g.handler.app.CallerHashes.Hash(r.Context(), st, r.Header, g.agents.Credentials.Headers, further)
}

// allowed is the decision for a request that passes. The other decisions are the kinds of
// refusals.
const allowed = "allowed"

// setPlaceholders sets the {http.oagent.*} placeholders. A request that passes usually gets them
// once, so they are looked up when they are needed. Any later decision replaces them, also one of
// another oagent handler in the chain: static values take precedence over looked-up ones.
func (g *governedRequest) setPlaceholders(decision string) {
	if g.repl == nil {
		return
	}
	if _, decided := g.repl.Get(placeholderDecision); !decided && decision == allowed {
		g.key = g.engagementKey() // not at the first lookup, which may be in another goroutine
		g.repl.Map(g.allowedPlaceholder)
		return
	}
	if g.agent != nil {
		g.repl.Set(placeholderAgent, g.agent.Name)
	}
	g.repl.Set(placeholderEngagement, g.engagementKey())
	g.repl.Set(placeholderDecision, decision)
}

// The {http.oagent.*} placeholders.
const (
	placeholderAgent      = "http.oagent.agent"
	placeholderEngagement = "http.oagent.engagement"
	placeholderDecision   = "http.oagent.decision"
)

// allowedPlaceholder returns the {http.oagent.*} placeholders of a request that passes.
func (g *governedRequest) allowedPlaceholder(key string) (any, bool) {
	switch key {
	case placeholderAgent:
		if g.agent == nil {
			return nil, false
		}
		return g.agent.Name, true
	case placeholderEngagement:
		return g.key, true
	case placeholderDecision:
		return allowed, true
	}
	return nil, false
}

// recorderOf returns the recorder of a tool call, or nil if there is none.
func recorderOf(w http.ResponseWriter) *toolcall.Recorder {
	for {
		if rec, ok := w.(*toolcall.Recorder); ok {
			return rec
		}
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = wrapper.Unwrap()
	}
}
