package hosted

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	guard "github.com/fairwayhq/fairway/caddymodule/oagent"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/store/keyedhash"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/inspect"
	"github.com/fairwayhq/fairway/tools/once"
)

// tools makes the calls of the agents of a Host: of tools and agents of the site, and of agents of other
// servers. It implements run.Tools.
type agentTools struct{ *Host }

// capability is a capability of an agent, with the operation or the agent that it refers to.
type capability struct {
	*oagent.Capability
	operation *agentset.Operation // nil for an agent
	agent     *oagent.Agent       // of this server; nil for a tool
	remote    bool                // an agent of another server
}

// set returns the current agents of the site.
func (h agentTools) set(ctx context.Context) *agentset.Set {
	r := h.clientRequest(ctx, new(run.Invocation), new(origin), nil)
	return h.options.Handler.Loader.CurrentFor(r, h.documents)
}

// capabilities returns the capabilities of an agent that can be called.
func (h agentTools) capabilities(set *agentset.Set, agent *oagent.Agent) []capability {
	all := make([]capability, 0, len(agent.Capabilities))
	for i := range agent.Capabilities {
		c := capability{Capability: &agent.Capabilities[i]}
		target, err := c.Reference.Resolve(set.Names)
		if err != nil {
			continue
		}
		if target.Remote {
			c.remote = true
			all = append(all, c)
			continue
		}
		if target.Tool == nil {
			if called := set.Agents[c.Reference.Name]; called != nil && h.Runs(called.Agent) {
				c.agent = called.Agent
				all = append(all, c)
			}
			continue
		}
		c.operation = set.Operation(target.Tool, target.Toolset)
		if c.operation != nil && slices.Contains(h.options.Handler.Matched, c.operation.Toolset) {
			all = append(all, c)
		}
	}
	return all
}

// Describe implements run.Tools.
func (h agentTools) Describe(agent *oagent.Agent) []run.Tool {
	set := h.set(h.running)
	var described []run.Tool
	for _, c := range h.capabilities(set, agent) {
		if c.remote {
			described = append(described, h.describeRemote(c.Reference))
			continue
		}
		if c.agent != nil {
			described = append(described, describeAgent(c.Reference.Name, c.agent))
			continue
		}
		t, ok := c.operation.Toolset.Filled(c.operation.Set).Tool(c.operation.Tool.Name)
		if !ok {
			continue
		}
		described = append(described, run.Tool{
			Tool:       model.Tool{Name: c.Reference.Name, Description: t.Definition.Description, Schema: t.Definition.InputSchema},
			Idempotent: t.ReadOnly(), Inspect: inspectorOf(&h.options, agent, &c),
		})
	}
	return described
}

// inspectorOf returns the function that inspects what a model sends to a tool, before the conversation has it. nil without
// inspectors of arguments. If they require a review, the conversation has what the reviewer sees, and the run has the arguments
// encrypted until the call has a result.
func inspectorOf(o *Options, agent *oagent.Agent, c *capability) func(context.Context, oagent.Binding, string) (passed, sealed string, err error) {
	toolset := c.operation.Toolset
	if len(toolset.Inspect) == 0 || !toolset.Inspect.Has(inspect.Arguments) {
		return nil
	}
	i := route.Inspection{Chain: toolset.Inspect, Tool: c.operation.Tool, Toolset: toolset.Name, Protocol: guard.ProtocolHosted, Agent: agent.Name, Logger: o.Logger}
	name, originals := c.Reference.Name, o.Handler.Originals.Keys()
	return func(ctx context.Context, b oagent.Binding, arguments string) (string, string, error) {
		own := i
		own.User = b.User.ID
		_, read, _ := own.Tool.Read([]byte(arguments)) // the call reports the error
		passed, required, failure := own.Arguments(ctx, name, read)
		switch {
		case failure != nil:
			return "", "", failure
		case required == nil:
			return string(passed), "", nil
		case originals == nil:
			return "", "", unreviewable(o.Logger, toolset.Name, name, "oagent has no option originals")
		case len(passed) > oagent.LargestMaxPayload:
			return "", "", unreviewable(o.Logger, toolset.Name, name, fmt.Sprintf("its arguments have %d KiB, and reviews at most %d KiB",
				len(passed)>>10, oagent.LargestMaxPayload>>10))
		}
		return string(required.Shown), originals.Seal(passed, placeOf(b.Engagement, name)), nil
	}
}

// unreviewable returns the error of a call for which inspectors require a review that is not possible, and logs it.
func unreviewable(logger *zap.Logger, toolset, tool, cause string) error {
	guard.WarnUnreviewable(logger, toolset, tool, cause)
	return errors.New("this call was not made: an inspector requires a review of its arguments, which is not possible: " + cause)
}

// placeOf is the place of encrypted arguments: a run, by its id, and a tool.
func placeOf(id, name string) string { return "run/" + id + "/" + name }

// argumentsOf returns the arguments of a call for the API. They may be encrypted.
func argumentsOf(i *run.Invocation, originals *review.Originals) (jsontext.Value, error) {
	if i.Sealed == "" {
		return i.Inputs, nil
	}
	if originals == nil {
		return nil, errors.New("oagent has no option originals")
	}
	return originals.Unseal(i.Sealed, placeOf(i.Engagement, i.Name))
}

// Call implements run.Tools.
func (h agentTools) Call(ctx context.Context, i *run.Invocation) run.Result {
	set := h.set(ctx)
	all := h.capabilities(set, i.Agent)
	at := slices.IndexFunc(all, func(c capability) bool {
		return c.Reference.Name == i.Name && (c.agent != nil || c.remote) == i.IsAgent
	})
	if at < 0 {
		return run.Notice("the call was not made: the tool is not available")
	}
	c, o, s := &all[at], readOrigin(i.Origin), h.shared().sessions.get(i.Engagement)
	if o.Delegated {
		s = nil
	}
	i.Identity = o.user(i.User.ID)
	if c.remote {
		return h.logAgentCall(ctx, i, c, func() run.Result { return h.callRemote(ctx, set, i, c, o, s) })
	}
	if c.agent != nil && s == nil && (o.Identified || o.Token && o.Session == "") && i.Away {
		return needCredentials(i) // the run of the agent would have none
	}
	if c.agent != nil {
		return h.logAgentCall(ctx, i, c, func() run.Result { return h.callAgent(ctx, set, i, c, o, s) })
	}
	if s == nil && c.needsSession(o) {
		return needCredentials(i)
	}
	if c.needsToken(o) && !s.hasToken() {
		if s = h.renewed(ctx, i.User.ID, o, s); s == nil {
			return needCredentials(i)
		}
	}
	return h.callTool(ctx, i, c, o, s)
}

// needsSession reports whether a call needs the session of the user (OpenAgentSpec v1, Agent,
// user_identity). It does not if the toolset has credentials, which replace those of the user.
func (c *capability) needsSession(o *origin) bool {
	return o.Identified && o.identity(c.Capability, true).User && len(c.operation.Toolset.Credentials) == 0
}

// needsToken reports whether the toolset has a credential that exchanges the access token of the user.
func (c *capability) needsToken(o *origin) bool {
	return o.Token && !o.Delegated && c.operation.Toolset.Credentials.ForCaller()
}

// CheckText implements run.Tools.
func (h agentTools) CheckText(ctx context.Context, b oagent.Binding, side engagement.Side, text string) error {
	opened, err := h.options.Handler.OpenGuard(ctx)
	if err != nil {
		return err
	}
	checked := agentset.GuardrailText{Input: text}
	if side == engagement.SideOutput {
		checked = agentset.GuardrailText{Output: text}
	}
	return h.options.Guardrails.Check(ctx, opened, b, h.set(ctx).Names, side, checked)
}

// Interface guard
var _ run.Tools = agentTools{}

// callEndpoints has the endpoint for the calls of each toolset.
type callEndpoints struct {
	keys      keyedhash.Keys // of the keys that APIs get
	mu        sync.Mutex
	byToolset map[*app.Toolset]*route.Endpoint
}

func (e *callEndpoints) of(h *Host, t *app.Toolset) *route.Endpoint {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byToolset == nil {
		e.byToolset = make(map[*app.Toolset]*route.Endpoint)
	}
	if e.byToolset[t] == nil {
		e.byToolset[t] = route.NewInternalEndpoint(h.options.Chain, h.options.App, guard.ProtocolHosted, h.options.Serve, t, h.options.Logger)
	}
	return e.byToolset[t]
}

// callTool makes a tool call through the handlers of the site.
func (h agentTools) callTool(ctx context.Context, i *run.Invocation, c *capability, o *origin, s *session) run.Result {
	call := &guard.HostedCall{Handler: h.options.Handler, Binding: i.Binding, Turn: i.Turn, Uncertain: i.Uncertain, Identity: o.identity}
	r := h.clientRequest(ctx, i, o, s)
	toolset := route.CurrentTools(c.operation.Toolset, r, h.documents)
	t := c.operation.Tool
	if toolset == nil {
		return run.Notice("the call was not made: the document of the API is not loaded; try again later")
	}
	if missing := o.access().Missing(t, toolset); missing != nil {
		return run.Notice("the call was not made: this tool needs an access token with scopes that the request of the user did not have")
	}
	inputs, err := argumentsOf(i, h.options.Handler.Originals.Keys())
	if err != nil {
		h.report(i.Engagement, fmt.Errorf("the arguments of a call of %s that needs a review cannot be decrypted: %w", i.Name, err))
		return run.Notice("the call was not made: its arguments cannot be read any more, because the key of the gateway has changed; ask the user for the values again")
	}
	if i.Sealed != "" {
		if !c.operation.Toolset.Inspect.Has(inspect.Arguments) {
			return run.Notice("the call was not made: an inspector required a review of its arguments, and the operator has removed it since; ask the user for the values again")
		}
		r = r.WithContext(route.WithReview(r.Context(), i.Inputs))
	}
	if !t.ReadOnly() {
		inputs, err = once.WithRunKey(t, inputs, i.ChildID(), func() (*keyedhash.Key, error) {
			st, err := h.options.App.OpenStore(ctx)
			if err != nil {
				return nil, err
			}
			return h.endpoints.keys.Current(ctx, st)
		})
	}
	if err != nil {
		h.report(i.Engagement, err)
		return run.Notice("the call was not made: its key for the API cannot be made at the moment; try again later")
	}
	caller := h.endpoints.of(h.Host, c.operation.Toolset).Caller(r, h.calls, toolset)
	caller.Agent = i.Agent.Name
	ctx = tools.ContextWithWholeResponse(guard.ContextWithHostedCall(r.Context(), call), tools.ForResult)
	outcome := caller.Call(ctx, t.Name, inputs)
	defer outcome.Release()
	if !call.Reached && call.Refusal == nil && outcome.Failure == nil && !call.Uncertain {
		return h.withhold(ctx, i)
	}
	return resultOf(call, i.Name, t.Name, &outcome)
}

// withhold returns the result of a call that succeeded without passing the oagent handler. The Guard has
// neither checked nor recorded that call, so the model must not get the response.
func (h agentTools) withhold(ctx context.Context, i *run.Invocation) run.Result {
	const message = "the result was withheld: another handler of the site responded before oagent could check the call. " +
		"It may have been made; do not repeat it"
	h.options.Logger.Error("withheld the result of a hosted agent's tool call, because a handler before oagent responded to it: "+
		"move oagent before the handlers that respond to the tools' paths",
		zap.String("agent", i.Agent.Name), zap.String("engagement_id", i.Engagement), zap.String("tool", i.Name))
	opened, err := h.options.Handler.OpenGuard(ctx)
	if err == nil {
		err = opened.Refuse(ctx, i.Binding, &engagement.Refusal{Kind: engagement.KindNotAllowed, Name: i.Name, Message: message, Made: true}, i.Inputs, "")
	}
	if err != nil {
		h.report(i.Engagement, err)
	}
	return run.Notice(message)
}

// responseBeforeGuard describes an error response of a handler before oagent. It omits the body: it may
// come from an API, and the Guard has not checked it.
func responseBeforeGuard(f *tools.Failure) string {
	message := fmt.Sprintf("the call failed: the site responded with %d %s before it could check the call", f.Status, http.StatusText(f.Status))
	if f.RetryAfter > 0 {
		message += fmt.Sprintf("; try again in %s", f.RetryAfter)
	}
	return message
}

// clientRequest returns a request that replaces the client's request: the inner request of a tool call
// gets its headers and placeholders from it. s is nil if there is no session.
func (h agentTools) clientRequest(ctx context.Context, i *run.Invocation, o *origin, s *session) *http.Request {
	target := &url.URL{Path: h.options.Engagements + "/" + i.Engagement}
	r := &http.Request{
		Method: http.MethodPost, URL: target, RequestURI: target.RequestURI(), Host: o.Host, TLS: o.connection(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody,
		RemoteAddr: net.JoinHostPort(o.ClientIP, "0"),
	}
	if s != nil {
		r.Header, r.RemoteAddr = s.header, s.address
	}
	repl := caddy.NewReplacer()
	r = caddyhttp.PrepareRequest(r.WithContext(ctx), repl, discard{}, h.options.Server)
	repl.Set("http.auth.user.id", i.User.ID)
	repl.Set("http.auth.user.email", i.User.Email)
	caddyhttp.SetVar(r.Context(), identity.Var, i.Identity)
	if s != nil {
		for name, value := range s.vars {
			caddyhttp.SetVar(r.Context(), name, value)
		}
	}
	return r
}

// discard is the http.ResponseWriter of a request without a client.
type discard struct{}

func (discard) Header() http.Header            { return http.Header{} }
func (discard) Write(text []byte) (int, error) { return len(text), nil }
func (discard) WriteHeader(int)                {}

// resultOf returns the result of a tool call for the model.
func resultOf(call *guard.HostedCall, name, toolName string, outcome *tools.Outcome) run.Result {
	switch {
	case call.Refusal != nil && errors.Is(call.Refusal, oagent.ErrNoHeldResult):
		return run.Result{Unknown: true}
	case call.Refusal != nil:
		return run.Result{Refusal: call.Refusal}
	case call.Uncertain && !call.Reached:
		return run.Result{Unknown: true} // a handler before oagent rejected the request for the held result
	case outcome.Failure != nil && outcome.Failure.Status != 0 && !call.Reached:
		return run.Notice(responseBeforeGuard(outcome.Failure))
	case outcome.Failure != nil && outcome.Failure.Kind == tools.InvalidArguments && !call.Reached:
		return run.Notice(strings.Replace(outcome.Failure.Message, toolName, name, 1)) // the model knows the tool by the name in the agent's document
	case outcome.Failure != nil:
		return run.Result{Text: outcome.Failure.Message, IsError: true}
	}
	body, result := outcome.Result.Body, run.Result{Changed: outcome.Result.Changed}
	switch {
	case len(body) == 0:
	case strictjson.Check(body) == nil:
		result.Outputs = append([]byte(nil), body...)
	case utf8.Valid(body):
		result.Text = string(body)
	default:
		result.Text = "the response is not text: " + outcome.Result.MediaType()
	}
	return result
}
