package oagent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/hosted"
	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/security"
)

// ServeHTTP passes a request on if the agent may make it.
func (o *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if route.IsGatewayRequest(r.Context()) {
		return next.ServeHTTP(w, r)
	}
	if o.background {
		processSpans.Note(r.Context())
	}
	if o.accepted != nil { // the accepted agents are known from the start on
		if err := o.app.AwaitStart(r.Context()); err != nil {
			return caddyhttp.Error(http.StatusServiceUnavailable, err)
		}
	}
	if call := route.AgentCallOf(r.Context()); call != nil {
		return serveExposedAgent(o, call, w, r, next)
	}
	if tools.CallFromContext(r.Context()) == nil && o.endpoints.Serve(w, r) {
		return nil
	}
	if o.Chat != nil {
		if handled, err := serveModel(o, w, r, next); handled {
			return err
		}
	}
	return o.guardRequest(w, r, next)
}

// guardRequest passes a request to the API through these phases. If one refuses it, the later ones do not run.
//
//  1. identify finds the agent and the Engagement.
//  2. operationReader finds the operation and its arguments (operation.go).
//  3. admission selects the credentials for the API, checks the input restriction, and records the call.
//  4. response runs the next handlers, and checks the output restriction (response.go, plain_response.go).
//
// A decision collects what they find out. It is recorded, logged and answered in decision.go and refusal.go.
func (o *Handler) guardRequest(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	d := newDecision(o, w, r, next)
	if refusal := d.identify(); refusal != nil {
		return d.answer(refusal)
	}
	if refusal := (operationReader{d}).read(); refusal != nil {
		return d.answer(refusal)
	}
	if d.operation.Toolset.Inspect != nil || d.rec != nil && d.rec.Review != nil {
		if refusal := d.inspectArguments(); refusal != nil {
			return d.answer(refusal)
		}
	}
	a := admission{d: d}
	if refusal := a.check(); refusal != nil {
		return d.answer(refusal)
	}
	d.setPlaceholders(allowed)
	s := response{d: d, next: next}
	if d.ticket.Replayed != nil {
		return s.sendReviewed()
	}
	removeForwardedTargets(r.Header)
	a.identity.apply(r, d.operation, o.forwardHeaders)
	s.setInjected(a.identity.with)
	if d.rec != nil && w == http.ResponseWriter(d.rec) {
		return s.serveCall()
	}
	return s.servePlain()
}

// caller is who makes a request: the agent that governs it, and the Engagement.
type caller struct {
	agents  *agentset.Set
	agent   *agentset.Agent // nil if no agent governs the request
	binding oagent.Binding
	hosted  *hosted.Call // the tool call if an agent of this handler makes it on this server; nil otherwise
	key     string       // see engagementKey
}

// engagementKey returns the key of the Engagement, or "" if no agent governs the request.
func (c *caller) engagementKey() string {
	if c.key == "" && c.agent != nil {
		c.key = c.binding.Key()
	}
	return c.key
}

// identify is the first phase: it finds the agent that governs the request, and the Engagement.
func (d *decision) identify() *refusalError {
	if d.hosted != nil {
		return d.bindHosted()
	}
	name := d.handler.Guard
	if name != "" && d.repl != nil {
		name = d.repl.ReplaceAll(name, "")
	}
	switch {
	case name != "":
		d.agent = d.agents.Agents[name]
	case d.agents.Only != nil:
		d.agent = d.agents.Only
	default:
		return d.refuse(engagement.KindUnknownAgent, 0, "", "the request was refused: it does not name its agent; the agents are "+
			d.agents.ListAgents(), nil)
	}
	if d.agent == nil {
		return d.refuse(engagement.KindUnknownAgent, 0, "", fmt.Sprintf("the request was refused: unknown agent %.128q", name), nil)
	}
	d.binding = bind(d.handler, d.r, d.agent.Agent)
	return d.bindCaller()
}

// bindHosted sets the agent and the Engagement of a tool call of a hosted agent. They come from the
// run, never from the request.
func (d *decision) bindHosted() *refusalError {
	d.hosted.Reached = true
	d.binding = d.hosted.Binding
	if d.agent = d.agents.Agents[d.binding.Agent.Name]; d.agent == nil {
		return d.refuse(engagement.KindUnknownAgent, 0, "", "the call was not made: the agent is no longer configured", nil)
	}
	d.binding.Agent = d.agent.Agent
	return nil
}

// bind returns the Engagement of a request with an agent. It is identified by the authenticated
// user and by the id in the request. If the caller is not authenticated, the id is extended by
// its IP address as Caddy determines it (client_ip, which respects trusted proxies). So a
// caller who knows the id of another caller's Engagement cannot use or exhaust it. See also bindCaller.
func bind(o *Handler, r *http.Request, agent *oagent.Agent) oagent.Binding {
	b := oagent.Binding{Agent: agent, Owner: route.OwnerOf(r), Identity: route.UserOf(r)}
	repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if repl != nil {
		b.User.ID, _ = repl.GetString("http.auth.user.id")
		b.User.Email, _ = repl.GetString("http.auth.user.email")
		if o.Engagement != "" {
			b.Engagement = repl.ReplaceAll(o.Engagement, "")
		}
	}
	address, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	if b.User.ID == "" {
		b.Engagement += "@" + address
	}
	b.Owner = share.OwnerOf(b.User.ID, address)
	if len(o.Reviewers) > 0 {
		o.reviewers.Bind(&b)
	}
	return b
}

// bindCaller separates unauthenticated callers that share an IP address but send different
// credentials for the API: each gets Engagements of its own. The id of the Engagement gets a
// keyed hash of the credentials, as in the call records of otc.
//
// Credentials that never reach the API are ignored, because they are never checked. Otherwise a
// caller could escape the agent's limits with new invented credentials for each call.
func (d *decision) bindCaller() *refusalError {
	if d.binding.User.ID != "" || !d.agent.AsCaller && d.handler.Chat == nil {
		return nil
	}
	r := d.r
	if d.rec != nil && d.rec.ToolsetCredentials != nil {
		r = d.rec.ClientRequest // the inner request of the tool call already has the gateway's credentials instead
	}
	further, found := d.agents.Credentials.In(r)
	if !found {
		return nil
	}
	hash := ""
	st, err := d.handler.app.OpenStore(r.Context())
	if err == nil {
		hash, err = d.handler.app.CallerHashes.Hash(r.Context(), st, r.Header, d.agents.Credentials.Headers, further)
	}
	if err != nil {
		return d.refuse(engagement.KindStore, 0, "", "the request was refused: the record of the Engagement is unavailable; try again later", err)
	}
	d.binding.Engagement += "#" + hash
	return nil
}

// admission is the third phase: it selects the credentials for the API, and asks the Guard whether the call may be made.
type admission struct {
	d        *decision
	identity upstreamIdentity
}

// check refuses the call, or records that it is about to be made.
func (a *admission) check() (refusal *refusalError) {
	if a.d.capability != nil {
		if a.identity, refusal = a.chooseIdentity(); refusal != nil {
			return refusal
		}
	}
	return a.begin()
}

// begin asks the Guard for a decision. While it waits for a reviewer, the timeout of the tool
// call is paused.
func (a *admission) begin() *refusalError {
	guard, err := a.d.handler.guard(a.d.r.Context())
	if err != nil {
		return a.d.refuse(engagement.KindStore, 0, "", "the call was not made: the record of the Engagement is unavailable; try again later", err)
	}
	capability := a.d.capability
	if a.d.inspected != nil || capability != nil && capability.Input != nil && capability.Input.RequireReview != "" {
		defer pauseTimeout(a.d.rec)()
	}
	call := oagent.Call{
		Binding: a.d.binding, Name: a.d.name, Names: a.d.agents.Names, Inputs: a.d.inputs, Checked: true, Conditional: isConditional(a.d.r.Header),
		Serving: a.d.handler.serving, Inspected: a.d.inspected,
	}
	if originals := a.d.handler.Originals; originals != nil {
		call.Originals = originals.opened
	}
	if a.d.hosted != nil {
		call.NoWait, call.Uncertain = true, a.d.hosted.Uncertain
	}
	ticket, err := guard.Begin(a.d.r.Context(), call)
	if err != nil {
		return asRefusalError(err)
	}
	a.d.ticket, a.d.key = ticket, ticket.Key
	return nil
}

// guard returns the Guard. It is created at its first use, because that opens the store.
func (o *Handler) guard(ctx context.Context) (*oagent.Guard, error) {
	if g := o.openedGuard.Load(); g != nil {
		return g, nil
	}
	g, err := o.app.Guard(ctx, app.GuardKey{
		TTL: time.Duration(o.EngagementTTL), ReviewWait: time.Duration(o.ReviewWait), MaxRecorded: o.MaxRecorded,
	})
	if err != nil {
		return nil, err
	}
	o.openedGuard.Store(g)
	return g, nil
}

// chooseIdentity selects the credentials for the capability (oagent.Capability.Identity). The caller
// is known if the site has authenticated it, or if the request has credentials for the API.
func (a *admission) chooseIdentity() (upstreamIdentity, *refusalError) {
	c, op := a.d.capability, a.d.operation
	known := a.d.binding.User.ID != ""
	if !known && c.UserIdentity && !a.hasGatewayCredentials() {
		known = hasCredentials(a.d.r, op.Set.SecuritySchemes)
	}
	identity := c.Identity(known)
	if a.d.hosted != nil {
		identity = a.d.hosted.Identity(c, known)
	}
	switch {
	case identity.User:
		return upstreamIdentity{}, nil
	case identity.Static != "":
		with, err := a.d.handler.currentIdentity(a.d.r.Context(), identity.Static)
		if err != nil {
			return upstreamIdentity{}, a.d.refuse(kindIdentity, http.StatusServiceUnavailable, c.Rule()+".static_identity", fmt.Sprintf(
				"the call of %s was not made: the gateway has no credentials for identity %s; %s", a.d.name, identity.Static, missingReason(err)), err)
		}
		return upstreamIdentity{strip: true, with: with}, nil
	case c.UserIdentity:
		return upstreamIdentity{}, a.d.refuse(kindIdentity, 0, c.Rule()+".user_identity", fmt.Sprintf(
			"the call of %s was not made: it needs the identity of a user, and %s", a.d.name, a.withoutUser()), nil)
	}
	// The tool needs no identity. The toolset's credentials, which the gateway injects into
	// each call, are not the caller's.
	if a.hasGatewayCredentials() {
		with, err := op.Toolset.Credentials.Current(a.d.r.Context())
		return upstreamIdentity{strip: true, with: with}, a.refuseMissingCredentials(err)
	}
	return upstreamIdentity{strip: true}, nil
}

// withoutUser says why the identity of the user is not known.
func (a *admission) withoutUser() string {
	if a.d.hosted != nil {
		return "the agent was called without one; continue without this call"
	}
	return "the request is not authenticated; log in first"
}

func (a *admission) refuseMissingCredentials(err error) *refusalError {
	if err == nil {
		return nil
	}
	return a.d.refuse(kindIdentity, http.StatusServiceUnavailable, a.d.capability.Rule(),
		"the call of "+a.d.name+" was not made: the gateway has no credentials for it; "+missingReason(err), err)
}

// missingReason says why there is no credential.
func missingReason(err error) string {
	if failed, ok := errors.AsType[*credential.CallError](err); ok {
		return failed.Message
	}
	return "the operator must set them and finds the reason in the log"
}

// hasGatewayCredentials reports whether the request is a tool call with the toolset's
// credentials.
func (a *admission) hasGatewayCredentials() bool {
	return a.d.call != nil && len(a.d.operation.Toolset.Credentials) > 0
}

// pauseTimeout pauses the timeout of a tool call while it waits for a reviewer. The returned function resumes it.
func pauseTimeout(rec *route.Recorder) func() {
	if rec == nil || rec.StreamOptions.Timer == nil || !rec.StreamOptions.Timer.Stop() {
		return func() {}
	}
	return func() { rec.StreamOptions.Timer.Reset(rec.StreamOptions.Timeout) }
}

// upstreamIdentity describes the changes to a request that make the API see the right
// credentials.
type upstreamIdentity struct {
	strip bool // remove the caller's credentials
	with  *security.Supplement
}

// apply changes the request. Forwarded are the names of headers that handlers forward.
func (i upstreamIdentity) apply(r *http.Request, op *agentset.Operation, forwarded []string) {
	if i.strip {
		stripCaller(r, op, slices.Concat(forwarded, op.Toolset.ForwardHeaders))
	}
	if i.with != nil {
		i.with.Apply(r)
	}
}

// removeForwardedTargets removes the headers in which proxies report the original method and
// path. A server that routes by these headers would run another operation than the one that
// was checked.
func removeForwardedTargets(header http.Header) {
	for name := range header {
		if httpheader.KindOf(name) == httpheader.ForwardedTarget {
			delete(header, name)
		}
	}
}

// hasCredentials reports whether the request has credentials according to the security
// schemes of the API's document.
func hasCredentials(r *http.Request, schemes map[string]*security.Scheme) bool {
	if r.Header.Get("Authorization") != "" {
		return true
	}
	for _, s := range schemes {
		if s.Type != "apiKey" {
			continue
		}
		switch s.In {
		case "header":
			if r.Header.Get(s.ParameterName) != "" {
				return true
			}
		case "query":
			if r.URL.Query().Get(s.ParameterName) != "" {
				return true
			}
		case "cookie":
			if _, err := r.Cookie(s.ParameterName); err == nil {
				return true
			}
		}
	}
	return false
}

// stripCaller removes everything that may identify the caller from a request: all headers but safe ones,
// parameters of the operation and those in forwarded, and the API keys that the document names.
func stripCaller(r *http.Request, op *agentset.Operation, forwarded []string) {
	schemes := op.Set.SecuritySchemes
	isKey := func(name string) bool {
		for _, s := range schemes {
			if s.Type == "apiKey" && s.In == "header" && httpheader.Canonical(s.ParameterName) == httpheader.Canonical(name) {
				return true
			}
		}
		return false
	}
	for name := range r.Header {
		if !httpheader.MayAccompany(name, forwarded) && (isKey(name) || !op.Tool.TakesHeader(name)) {
			delete(r.Header, name)
		}
	}
	r.URL.RawQuery = withoutQuery(r.URL.RawQuery, agentset.QueryCredentials(schemes))
	r.URL.User = nil
}

// withoutQuery removes query parameters. The others stay as written.
func withoutQuery(raw string, names []string) string {
	if raw == "" || len(names) == 0 {
		return raw
	}
	var kept []string
	for pair := range strings.SplitSeq(raw, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if pair != "" && !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, "&")
}
