package hosting

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/run"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// Protocol is the value of {http.tool.protocol} for the tool calls of hosted agents.
const Protocol = "oagent"

// Call is a tool call of a hosted agent that passes the handlers of the site. It is in the context of
// the inner request, which clients cannot set.
type Call struct {
	*run.Invocation
	host *Host

	// Reached is set when the call reaches the oagent handler.
	Reached bool
	// Refusal is set if the handler refuses the call or withholds its result.
	Refusal *engagement.Refusal
}

type callKey struct{}

// CallOf returns the tool call of a request if an agent of this Host makes it, and nil otherwise.
// A nil Host has none.
func (h *Host) CallOf(ctx context.Context) *Call {
	if h == nil {
		return nil
	}
	if c, ok := ctx.Value(callKey{}).(*Call); ok && c.host == h {
		return c
	}
	return nil
}

// endpoints has the endpoint for the calls of each toolset.
type endpoints struct {
	mu        sync.Mutex
	byToolset map[*agents.Toolset]*toolcall.Endpoint
}

func (e *endpoints) of(h *Host, t *agents.Toolset) *toolcall.Endpoint {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byToolset == nil {
		e.byToolset = make(map[*agents.Toolset]*toolcall.Endpoint)
	}
	if e.byToolset[t] == nil {
		e.byToolset[t] = toolcall.NewInternalEndpoint(h.options.Chain, h.options.App, Protocol, h.options.Serve, t, h.options.Logger)
	}
	return e.byToolset[t]
}

// callTool makes a tool call through the handlers of the site.
func (h tools) callTool(ctx context.Context, i *run.Invocation, c *capability, o *origin, s *session) run.Result {
	call := &Call{Invocation: i, host: h.Host}
	r := h.clientRequest(ctx, i, o, s)
	tools := toolcall.CurrentTools(c.operation.Toolset, r, h.chain)
	t := c.operation.Tool
	if tools == nil {
		return run.Result{Text: "the call was not made: the document of the API is not loaded; try again later", IsError: true}
	}
	if missing := o.access().Missing(t, tools); missing != nil {
		return run.Result{Text: "the call was not made: the access token of the user lacks a scope that this tool needs", IsError: true}
	}
	caller := h.endpoints.of(h.Host, c.operation.Toolset).Caller(r, h.chain, tools)
	caller.Agent = i.Agent.Name
	ctx = tool.ContextWithWholeResponse(context.WithValue(r.Context(), callKey{}, call))
	outcome := caller.Call(ctx, t.Name, i.Inputs)
	defer outcome.Release()
	if !call.Reached && call.Refusal == nil && outcome.Failure == nil && !call.Uncertain {
		return h.withhold(ctx, i)
	}
	return resultOf(call, &outcome)
}

// withhold returns the result of a call that succeeded without passing the oagent handler. The Guard has
// neither checked nor recorded that call, so the model must not get the response.
func (h tools) withhold(ctx context.Context, i *run.Invocation) run.Result {
	const message = "the result was withheld: another handler of the site responded before oagent could check the call. " +
		"It may have been made; do not repeat it"
	h.options.Logger.Error("withheld the result of a hosted agent's tool call, because a handler before oagent responded to it: "+
		"move oagent before the handlers that respond to the tools' paths",
		zap.String("agent", i.Agent.Name), zap.String("engagement_id", i.Engagement), zap.String("tool", i.Name))
	guard, err := h.options.Guard(ctx)
	if err == nil {
		err = guard.Refuse(ctx, i.Binding, &engagement.Refusal{Kind: engagement.KindNotAllowed, Name: i.Name, Message: message, Made: true}, i.Inputs, "")
	}
	if err != nil {
		h.report(i.Engagement, err)
	}
	return run.Result{Text: message, IsError: true}
}

// responseBeforeGuard describes an error response of a handler before oagent. It omits the body: it may
// come from an API, and the Guard has not checked it.
func responseBeforeGuard(f *tool.Failure) string {
	message := fmt.Sprintf("the call failed: the site responded with %d %s before it could check the call", f.Status, http.StatusText(f.Status))
	if f.RetryAfter > 0 {
		message += fmt.Sprintf("; try again in %s", f.RetryAfter)
	}
	return message
}

// clientRequest returns a request that replaces the client's request: the inner request of a tool call
// gets its headers and placeholders from it. s is nil if there is no session.
func (h tools) clientRequest(ctx context.Context, i *run.Invocation, o *origin, s *session) *http.Request {
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
func resultOf(call *Call, outcome *tool.Outcome) run.Result {
	switch {
	case call.Refusal != nil && errors.Is(call.Refusal, oagent.ErrNoHeldResult):
		return run.Result{Unknown: true}
	case call.Refusal != nil:
		return run.Result{Refusal: call.Refusal}
	case call.Uncertain && !call.Reached:
		return run.Result{Unknown: true} // a handler before oagent rejected the request for the held result
	case outcome.Failure != nil && outcome.Failure.Status != 0 && !call.Reached:
		return run.Result{Text: responseBeforeGuard(outcome.Failure), IsError: true}
	case outcome.Failure != nil:
		return run.Result{Text: outcome.Failure.Message, IsError: true}
	}
	body := outcome.Result.Body
	switch {
	case len(body) == 0:
		return run.Result{}
	case wire.Check(body) == nil:
		return run.Result{Outputs: append([]byte(nil), body...)}
	case utf8.Valid(body):
		return run.Result{Text: string(body)}
	}
	return run.Result{Text: "the response is not text: " + outcome.Result.MediaType()}
}
