package oagent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/callid"
	"github.com/fairwayhq/fairway/tools/logonly"
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
	if o.Acceptor != nil { // the accepted agents are known from the start on
		if err := o.app.Site.AwaitStart(r.Context()); err != nil {
			return caddyhttp.Error(http.StatusServiceUnavailable, err)
		}
	}
	if call := route.AgentCallOf(r.Context()); call != nil {
		if o.Host != nil && o.Host.ServeTool(w, r, call) {
			return nil
		}
		return next.ServeHTTP(w, r) // another handler hosts the agent
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

// guardRequest passes a request to the API through the phases, see the package comment. If one refuses the request, the
// later ones do not run.
func (o *Handler) guardRequest(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	d := decision{request: newRequest(o, w, r)}
	var refusal *refusalError
	if d.caller, refusal = identify(d.request, o.Loader.CurrentFor(r, next)); refusal != nil {
		return d.answer(refusal)
	}
	d.op, refusal = readOperation(d.request, d.caller)
	if d.op.release != nil {
		defer d.op.release()
	}
	if refusal != nil {
		return d.answer(refusal)
	}
	if d.admission, refusal = admit(d.request, d.caller, d.op); refusal != nil {
		if refusal.edit != nil {
			return d.requireEdit(refusal.edit)
		}
		return d.answer(refusal)
	}
	return passOn(d, next)
}

// request is what a request says about itself: the first phase.
type request struct {
	handler *Handler
	w       http.ResponseWriter
	r       *http.Request
	repl    *caddy.Replacer // nil if the request has none
	call    *tools.Call     // nil if the request is not a tool call
	rec     *route.Recorder // of the tool call; nil if there is none
	hosted  *HostedCall     // the tool call if an agent of this handler makes it on this server; nil otherwise
	began   time.Time
	id      callid.ID // that of call, or of a plain request its own
}

func newRequest(o *Handler, w http.ResponseWriter, r *http.Request) request {
	q := request{handler: o, w: w, r: r, call: tools.CallFromContext(r.Context()), rec: recorderOf(w), began: time.Now()}
	q.repl, _ = r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if q.call != nil {
		q.id = q.call.ID
	} else {
		q.id = callid.New()
	}
	if o.Host != nil {
		q.hosted = hostedCallOf(r.Context(), o)
	}
	return q
}

// recorderOf returns the recorder of a tool call, or nil if there is none.
func recorderOf(w http.ResponseWriter) *route.Recorder {
	for {
		if rec, ok := w.(*route.Recorder); ok {
			return rec
		}
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = wrapper.Unwrap()
	}
}

// protocol returns the protocol of the request: mcp, otc or oagent for a tool call, or tool if its protocol is unknown;
// http for a plain request.
func (q request) protocol() string {
	if q.call == nil {
		return "http"
	}
	if q.repl != nil {
		if protocol, _ := q.repl.GetString("http.tool.protocol"); protocol != "" {
			return protocol
		}
	}
	return "tool"
}

// caller is who makes a request: the agent that governs it, and the Engagement.
type caller struct {
	agents  *agentset.Set
	agent   *agentset.Agent // nil if no agent governs the request
	binding oagent.Binding
}

// identify is the second phase: it finds the agent that governs the request, and the Engagement.
func identify(q request, agents *agentset.Set) (caller, *refusalError) {
	if q.hosted != nil {
		return hostedCaller(q.hosted, q.id, agents)
	}
	c := caller{agents: agents}
	name := q.handler.Guard
	if name != "" && q.repl != nil {
		name = q.repl.ReplaceAll(name, "")
	}
	if endpoint := route.EndpointAgent(q.r.Context()); agents.Agents[endpoint] != nil {
		if name != "" && name != endpoint {
			return c, refuse(engagement.KindUnknownAgent, 0, "", fmt.Sprintf("the request was refused: it names agent %.128q, and the endpoint is for calls of agent %s", name, endpoint), nil)
		}
		name = endpoint
	}
	switch {
	case name != "":
		c.agent = agents.Agents[name]
	case agents.Only != nil:
		c.agent = agents.Only
	default:
		return c, refuse(engagement.KindUnknownAgent, 0, "", "the request was refused: it does not name its agent; the agents are "+
			agents.ListAgents(), nil)
	}
	if c.agent == nil {
		return c, refuse(engagement.KindUnknownAgent, 0, "", fmt.Sprintf("the request was refused: unknown agent %.128q", name), nil)
	}
	c.binding = bind(q.handler, q.r, c.agent.Agent)
	c.binding.CallID = q.id.String()
	return separateCaller(q, c)
}

// HostedCall is a tool call of a hosted agent that passes the handlers of the site.
type HostedCall struct {
	Handler   *Handler // whose agent makes it
	Binding   oagent.Binding
	Turn      *oagent.Turn
	Uncertain bool // see oagent.Call.Uncertain

	// Identity selects the credentials for the API. Known reports whether the caller of the run is known.
	Identity func(capability *oagent.Capability, known bool) oagent.Identity

	// Reached is set when the call reaches the handler.
	Reached bool
	// Refusal is set if the handler refuses the call or withholds its result.
	Refusal *engagement.Refusal
}

type hostedCallKey struct{}

// ContextWithHostedCall returns the context for the inner request of a call. Clients cannot set it.
func ContextWithHostedCall(ctx context.Context, call *HostedCall) context.Context {
	return context.WithValue(ctx, hostedCallKey{}, call)
}

// hostedCallOf returns the tool call of a request if an agent of this handler makes it, and nil otherwise.
func hostedCallOf(ctx context.Context, o *Handler) *HostedCall {
	if c, ok := ctx.Value(hostedCallKey{}).(*HostedCall); ok && c.Handler == o {
		return c
	}
	return nil
}

// hostedCaller returns the agent and the Engagement of a tool call of a hosted agent. They come from the
// run, never from the request.
func hostedCaller(call *HostedCall, id callid.ID, agents *agentset.Set) (caller, *refusalError) {
	call.Reached = true
	c := caller{agents: agents, agent: agents.Agents[call.Binding.Agent.Name], binding: call.Binding}
	if c.agent == nil {
		return c, refuse(engagement.KindUnknownAgent, 0, "", "the call was not made: the agent is no longer configured", nil)
	}
	c.binding.Agent, c.binding.CallID = c.agent.Agent, id.String()
	return c, nil
}

// bind returns the Engagement of a request with an agent. It is identified by the authenticated
// user and by the id in the request. If the caller is not authenticated, the id is extended by
// its IP address as Caddy determines it (client_ip, which respects trusted proxies). So a
// caller who knows the id of another caller's Engagement cannot use or exhaust it. See also separateCaller.
func bind(o *Handler, r *http.Request, agent *oagent.Agent) oagent.Binding {
	b := oagent.Binding{Agent: agent, Identity: route.UserOf(r)}
	b.User.ID = b.Identity.ID
	b.Owner = share.OwnerOf(b.User.ID, route.ClientAddress(r))
	repl, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if repl != nil {
		b.User.Email, _ = repl.GetString("http.auth.user.email")
		if o.Engagement != "" {
			b.Engagement = repl.ReplaceAll(o.Engagement, "")
		}
	}
	address, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	if b.User.ID == "" {
		b.Engagement += "@" + address
	}
	if len(o.Reviewers) > 0 {
		o.Reviewing.Bind(&b)
	}
	return b
}

// separateCaller separates unauthenticated callers that share an IP address but send different
// credentials for the API: each gets Engagements of its own. The id of the Engagement gets a
// keyed hash of the credentials, as in the call records of otc.
//
// Credentials that never reach the API are ignored, because they are never checked. Otherwise a
// caller could escape the agent's limits with new invented credentials for each call.
func separateCaller(q request, c caller) (caller, *refusalError) {
	if c.binding.User.ID != "" || !c.agent.AsCaller && q.handler.Chat == nil {
		return c, nil
	}
	r := q.r
	if q.rec != nil && q.rec.ToolsetCredentials != nil {
		r = q.rec.ClientRequest // the inner request of the tool call already has the gateway's credentials instead
	}
	further, found := c.agents.Credentials.In(r)
	if !found {
		return c, nil
	}
	hash := ""
	st, err := q.handler.app.OpenStore(r.Context())
	if err == nil {
		hash, err = q.handler.guards.callerHashes.Hash(r.Context(), st, r.Header, c.agents.Credentials.Headers, further)
	}
	if err != nil {
		return c, refuse(engagement.KindStore, 0, "", "the request was refused: the record of the Engagement is unavailable; try again later", err)
	}
	c.binding.Engagement += "#" + hash
	return c, nil
}

// admission is why a request may go to the API, and with which credentials.
type admission struct {
	inputs   jsontext.Value // the arguments as the record and the log have them; nil if an inspector rejected them
	identity upstreamIdentity
	ticket   *oagent.Ticket // nil if the request was refused
}

// admit is the fourth phase: it inspects the arguments of a plain request, selects the credentials for the API, and asks
// the Guard, which records that the call is about to be made.
func admit(q request, c caller, op requestedOperation) (a admission, refusal *refusalError) {
	var inspected *oagent.Inspected
	var would logonly.Would
	if entry := route.CallEntry(q.r.Context()); entry != nil {
		would = entry.Would
	}
	if op.operation.Toolset.Inspect != nil || op.operation.Toolset.LogOnly.Inspect != nil || q.rec != nil && q.rec.Review != nil {
		if inspected, refusal = inspectArguments(q, c, op, &would); refusal != nil {
			return a, refusal
		}
	}
	a.inputs = op.inputs
	if inspected != nil {
		a.inputs = inspected.Inputs
	}
	if op.capability != nil {
		if a.identity, refusal = chooseIdentity(q, c, op); refusal != nil {
			return a, refusal
		}
	}
	a.ticket, refusal = begin(q, c, op, inspected, would)
	return a, refusal
}

// begin asks the Guard for a decision. While it waits for a reviewer, the timeout of the tool
// call is paused.
func begin(q request, c caller, op requestedOperation, inspected *oagent.Inspected, would logonly.Would) (*oagent.Ticket, *refusalError) {
	guard, err := q.handler.OpenGuard(q.r.Context())
	if err != nil {
		return nil, refuse(engagement.KindStore, 0, "", "the call was not made: the record of the Engagement is unavailable; try again later", err)
	}
	if inspected != nil || op.capability != nil && op.capability.RequiresReview(op.capability.Input) {
		defer pauseTimeout(q.rec)()
	}
	call := oagent.Call{
		Binding: c.binding, Name: op.name, Names: c.agents.Names, Inputs: op.inputs, Checked: true, Conditional: isConditional(q.r.Header),
		Serving: q.handler.serving, Inspected: inspected, Would: would,
	}
	if originals := q.handler.Originals; originals != nil {
		call.Originals = originals.opened
	}
	if q.rec != nil && q.call != nil {
		call.Editable = true
		call.Edit, _ = q.r.Context().Value(editKey{}).(*oagent.Edit)
	}
	if q.hosted != nil {
		call.NoWait, call.Turn, call.Uncertain = true, q.hosted.Turn, q.hosted.Uncertain
	}
	ticket, err := guard.Begin(q.r.Context(), call)
	if edit, ok := errors.AsType[*oagent.Edit](err); ok {
		return nil, &refusalError{edit: edit}
	}
	if err != nil {
		return nil, asRefusalError(err)
	}
	return ticket, nil
}

// OpenGuard returns the Guard. It is created at its first use, because that opens the store.
func (o *Handler) OpenGuard(ctx context.Context) (*oagent.Guard, error) {
	if g := o.openedGuard.Load(); g != nil {
		return g, nil
	}
	g, err := o.guards.guard(ctx, guardKey{
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
func chooseIdentity(q request, c caller, op requestedOperation) (upstreamIdentity, *refusalError) {
	capability, known := op.capability, c.binding.User.ID != ""
	injects := q.call != nil && len(op.operation.Toolset.Credentials) > 0 // the gateway has added credentials to the tool call
	if !known && capability.UserIdentity && !injects {
		_, known = op.operation.Credentials.In(q.r)
	}
	identity := capability.Identity(known)
	if q.hosted != nil {
		identity = q.hosted.Identity(capability, known)
	}
	switch {
	case identity.User:
		return upstreamIdentity{signed: q.handler.signs}, nil
	case identity.Static != "":
		with, err := q.handler.currentIdentity(q.r.Context(), identity.Static)
		if err != nil {
			return upstreamIdentity{}, refuse(KindIdentity, http.StatusServiceUnavailable, capability.Rule()+".static_identity", fmt.Sprintf(
				"the call of %s was not made: the gateway has no credentials for identity %s; %s", op.name, identity.Static, missingReason(err)), err)
		}
		return upstreamIdentity{strip: true, with: with}, nil
	case capability.UserIdentity:
		reason := "the request is not authenticated; log in first"
		if q.hosted != nil {
			reason = "the agent was called without one; continue without this call"
		}
		return upstreamIdentity{}, refuse(KindIdentity, 0, capability.Rule()+".user_identity", fmt.Sprintf(
			"the call of %s was not made: it needs the identity of a user, and %s", op.name, reason), nil)
	case !injects:
		return upstreamIdentity{strip: true}, nil
	}
	// The tool needs no identity. The toolset's credentials, which the gateway injects into
	// each call, are not the caller's.
	with, err := op.operation.Toolset.Credentials.Current(q.r.Context())
	if err != nil {
		return upstreamIdentity{}, refuse(KindIdentity, http.StatusServiceUnavailable, capability.Rule(),
			"the call of "+op.name+" was not made: the gateway has no credentials for it; "+missingReason(err), err)
	}
	return upstreamIdentity{strip: true, with: with}, nil
}

// missingReason says why there is no credential.
func missingReason(err error) string {
	if failed, ok := errors.AsType[*credential.CallError](err); ok {
		return failed.Message
	}
	return "the operator must set them and finds the reason in the log"
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
	strip  bool // remove the caller's credentials
	signed bool // a handler signs the request: remove what may not accompany a credential of the gateway
	with   *security.Supplement
}

// apply changes the request. Forwarded are the names of headers that handlers forward.
func (i upstreamIdentity) apply(r *http.Request, op *agentset.Operation, forwarded []string) {
	if i.strip {
		stripCaller(r, op, slices.Concat(forwarded, op.Toolset.ForwardHeaders))
	}
	if i.signed {
		forwarded = slices.Concat(forwarded, route.PassedHeaders(op.Toolset, true))
		maps.DeleteFunc(r.Header, func(name string, _ []string) bool {
			return !httpheader.MayAccompany(name, forwarded) && !op.Tool.TakesHeader(name)
		})
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

// stripCaller removes everything that may identify the caller from a request: all headers but safe ones,
// parameters of the operation and those in forwarded, and the API keys that the document names.
func stripCaller(r *http.Request, op *agentset.Operation, forwarded []string) {
	isKey := func(name string) bool {
		return slices.ContainsFunc(op.Credentials.Headers, func(key string) bool { return httpheader.Canonical(key) == httpheader.Canonical(name) })
	}
	for name := range r.Header {
		if !httpheader.MayAccompany(name, forwarded) && (isKey(name) || !op.Tool.TakesHeader(name)) {
			delete(r.Header, name)
		}
	}
	r.URL.RawQuery = withoutQuery(r.URL.RawQuery, op.CredentialQueries)
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
