package route

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/ocp/callcontext"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/inspect"
	"github.com/fairwayhq/fairway/tools/security"
)

// errCallTimeout is the cancellation cause of a tool call that exceeds its time limit.
var errCallTimeout = errors.New("the tool call exceeded its time limit")

// dispatch is the tools.Invoker of one incoming request. Each call becomes an inner request: a
// new request with its own route state, variables and placeholders, sent through the handlers
// after the endpoint. A Recorder captures the response.
//
// Error routes (handle_errors) are for visitors of the site and do not run for tool calls. An
// error of a handler becomes the outcome of the call.
type dispatch struct {
	next     caddyhttp.Handler
	client   clientState
	limits   app.Limits
	protocol string
	toolset  string // name of the toolset
	traced   bool   // whether calls have spans
	logger   *zap.Logger

	credentials    credential.Set
	asOperator     bool // calls carry credentials of the gateway, or go to another organization's server
	forwardHeaders []string
	endpoint       *Endpoint
	inspectors     inspect.Chain // nil if the toolset has none
	logOnly        app.LogOnly
	agent          string // name of the hosted agent that makes the calls; "" if a client does
}

// init sets the fields of the dispatch of the request outer. Next is the handler after the endpoint.
func (d *dispatch) init(next caddyhttp.Handler, outer *http.Request, e *Endpoint, t *app.Toolset) {
	ctx := outer.Context()
	d.next, d.client.Request, d.endpoint, d.protocol, d.logger = next, outer, e, e.Protocol, e.Logger
	d.traced = trace.SpanContextFromContext(ctx).IsValid()
	d.serve(t)
	d.client.repl, _ = ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	d.client.server, _ = ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	d.client.vars, _ = ctx.Value(caddyhttp.VarsCtxKey).(map[string]any)
}

// clientState is the client's request to the endpoint, with what its inner requests inherit from it.
type clientState struct {
	*http.Request
	repl   *caddy.Replacer
	server *caddyhttp.Server
	vars   map[string]any
}

// serve gives calls the limits, the credentials, the forwarded headers and the name of a toolset.
func (d *dispatch) serve(t *app.Toolset) {
	d.limits, d.credentials, d.forwardHeaders, d.toolset, d.inspectors = t.Limits, t.Credentials, t.ForwardHeaders, t.Name, t.Inspect
	d.logOnly = t.LogOnly
	d.asOperator = usesCredentials(t, d.endpoint.signs)
	if d.endpoint.signs {
		d.forwardHeaders = PassedHeaders(t, true)
	}
}

// Invoke sends the call through the chain and returns the response. Its errors are
// *tools.Failure. The chain runs in the calling goroutine. At the time limit the context is
// canceled, but Invoke still waits for a handler that ignores its context.
func (d *dispatch) Invoke(ctx context.Context, call *tools.Call) (*tools.Result, error) {
	if len(d.credentials) > 0 && d.credentials.IsPersonal() {
		return personalInvoker{d}.Invoke(ctx, call)
	}
	return d.invoke(ctx, call)
}

// invoke performs one request of a call.
func (d *dispatch) invoke(ctx context.Context, call *tools.Call) (*tools.Result, error) {
	supplemented := d.client.addsContext(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var timer *time.Timer
	if d.limits.Timeout > 0 {
		timer = time.AfterFunc(d.limits.Timeout, func() { cancel(errCallTimeout) })
		defer timer.Stop()
	}
	var credentials *security.Supplement
	if len(d.credentials) > 0 {
		var err error
		if credentials, err = d.credentials.Current(ctx); err != nil {
			return nil, d.missingCredentialFailure(call.Tool, err)
		}
		call.Fill(credential.Values(credentials))
	}
	if err := call.Resolve(d.fixedValue(call)); err != nil {
		return nil, d.missingFixedFailure(call.Tool, err)
	}
	rec := NewRecorder(call.Tool.Plan.Method, d.limits.MaxResponse, cancel)
	rec.callContext = tools.CallContext{Context: ctx, Call: call}
	r, err := call.ServerRequest(&rec.callContext)
	if err != nil {
		rec.Release()
		return nil, err
	}
	rec.ClientRequest = d.client.Request
	rec.StreamOptions = streamOptions{Timer: timer, Timeout: d.limits.Timeout}
	rec.ToolsetCredentials = credentials
	if d.inspectors != nil || d.logOnly.Inspect != nil {
		rec.SetInspection(newInspection(ctx, d, call.Tool))
		rec.Review = ReviewOf(ctx)
	}
	r = d.prepare(r, rec, call, supplemented)
	if d.endpoint.AgentLimit != nil {
		if err := d.endpoint.checkGuarded(r, call.Tool, d.toolset); err != nil {
			rec.Release()
			return nil, err
		}
	}
	if rec.Review != nil {
		if err := newInspection(ctx, d, call.Tool).checkReviewed(rec.Review, d.endpoint.Routes, r); err != nil {
			rec.Release()
			return nil, err
		}
	}
	if d.traced {
		return d.serveTraced(ctx, call, call.Tool.Plan.Path, rec, r)
	}
	err = Serve(d.handlerChain(), rec, r)
	return d.conclude(ctx, call, rec, err)
}

// addsContext reports whether the context of a call may have values that neither the client's request nor
// the listener has: an OCP context or a supplement of the call. Most calls have neither.
func (c *clientState) addsContext(ctx context.Context) bool {
	if listening, ok := ctx.(*tools.ListenerContext); ok {
		ctx = listening.Context
	}
	return ctx != c.Context()
}

// Serve runs the chain. A panic in it becomes the error of this call only.
func Serve(next caddyhttp.Handler, rec *Recorder, r *http.Request) (err error) {
	defer func() {
		if value := recover(); value != nil {
			p := &PanicError{Value: value}
			if value != http.ErrAbortHandler {
				p.Stack = debug.Stack()
			}
			err = p
		}
	}()
	return next.ServeHTTP(rec, r)
}

// operationOf names the operation of a tool in messages.
func operationOf(tool *tools.Tool) string {
	return tool.Plan.Method + " " + tool.Plan.Path
}

// conclude turns the recorded response into a Result, or an error into a Failure.
func (d *dispatch) conclude(ctx context.Context, call *tools.Call, rec *Recorder, err error) (*tools.Result, error) {
	defer rec.Release()
	if rec.Inspection != nil && err == nil {
		rec.InspectResponse(ctx)
	}
	if err != nil && rec.StreamComplete() && (ctx.Err() != nil || isAbortedResponse(err)) {
		err = nil
	}
	switch {
	case rec.TooLarge:
		return nil, d.tooLargeFailure(call.Tool, rec.declared)
	case rec.Err != nil:
		return nil, streamLimitFailure(operationOf(call.Tool), rec.Err)
	case ctx.Err() != nil && (err != nil || rec.Status == 0 || rec.Status == statusClientClosed || rec.Stream != nil) && !rec.StreamComplete():
		return nil, d.interruptedFailure(ctx, operationOf(call.Tool), rec)
	case err != nil:
		if failure := d.handlerFailure(call.Tool, rec, err); failure != nil {
			return nil, failure
		}
	case rec.Status == 0:
		return nil, noHandlerFailure(operationOf(call.Tool), d.protocol)
	}
	renewed := rec.Status == http.StatusUnauthorized && rec.Injected.Rejected()
	result, err := d.decodeResult(call.Tool, rec)
	if err == nil {
		result.Renewed = renewed
	}
	if err == nil && rec.Refusal != nil {
		return result, rec.Refusal
	}
	return result, err
}

// mayNeedDecoding reports whether DecodeText may change a body: if the content type has a parameter,
// such as a charset, or if the body may begin with a byte order mark.
func mayNeedDecoding(contentType string, body []byte) bool {
	return strings.Contains(contentType, "=") || len(body) > 0 && body[0] == ByteOrderMark[0]
}

// decodeResult decodes the recorded body and returns it as a Result.
func (d *dispatch) decodeResult(t *tools.Tool, rec *Recorder) (*tools.Result, error) {
	if rec.Stream != nil {
		if err := rec.FinishStream(); err != nil {
			return nil, d.unfinishedStreamFailure(t, err)
		}
	}
	body := rec.TakeBody()
	if len(rec.Headers["Content-Encoding"]) > 0 {
		var err error
		if body, err = DecodeBody(rec.Headers, body, d.limits.MaxResponse); err != nil {
			return nil, d.undecodableFailure(t, err)
		}
	}
	if body != nil && mayNeedDecoding(rec.Headers.Get("Content-Type"), body.B) {
		var err error
		if body, err = DecodeText(rec.Headers, body, d.limits.MaxResponse); err != nil {
			return nil, d.undecodableFailure(t, err)
		}
	}
	if len(rec.Injected) > 0 {
		ConcealInResponse(rec.Injected.Secrets(rec.Status), rec.Headers, body)
	}
	result := &rec.result
	*result = tools.Result{Status: rec.Status, Header: rec.Headers, Exposed: rec.Exposed, Changed: rec.Changed}
	switch {
	case body == nil:
	case len(body.B) == 0:
		buffer.Put(body)
	default:
		result.Body, result.Memory = body.B, body
	}
	return result, nil
}

// contextLayer is the part of an ocp handler that processes the tool calls of a request. The
// handler runs before the tool endpoint and so does not see the inner requests. It stores its
// contextLayer in the variable ContextVar, and dispatch runs each inner request through it.
type contextLayer interface {
	// WrapCalls returns a handler that applies the layer to a tool call and then calls next.
	WrapCalls(next caddyhttp.Handler) caddyhttp.Handler
	// MarkToolEndpoint records that a tool endpoint, not the API, responds to the request.
	MarkToolEndpoint()
}

const (
	// ContextVar is the request variable that holds the contextLayer.
	ContextVar = "fairway.ocp"

	// OCPPrefix begins the placeholders of an ocp handler.
	OCPPrefix = "http.ocp."
)

// handlerChain returns the handlers that a tool call passes.
func (d *dispatch) handlerChain() caddyhttp.Handler {
	if layer, ok := d.client.vars[ContextVar].(contextLayer); ok {
		return layer.WrapCalls(d.next)
	}
	return d.next
}

// prepare turns r into an inner request from the caller. It adds headers and parameters that
// are not arguments of the call. In increasing priority these are: the headers of the client's
// request, the arguments, the values that the document fixes, the adapter's supplement, and the toolset's
// credentials (rec.ToolsetCredentials). If supplemented is false, the context of the call adds nothing.
func (d *dispatch) prepare(r *http.Request, rec *Recorder, call *tools.Call, supplemented bool) *http.Request {
	from := d.client.Header
	if d.inspectors != nil && d.inspectors.Has(inspect.Arguments) || call.Files != nil {
		from = withoutArguments(from, call.Tool)
	}
	copyHeaders(r.Header, from, d.asOperator, d.forwardHeaders)
	call.SetFilledHeaders(r.Header)
	var callContext http.Header
	if supplemented {
		callContext = callcontext.FromContext(r.Context())
	}
	if callContext != nil {
		user, declared := r.Header[callcontext.HeaderUser]
		callcontext.Set(r.Header, callContext)
		if d.asOperator && !httpheader.MayAccompany(callcontext.HeaderUser, d.forwardHeaders) {
			delete(r.Header, callcontext.HeaderUser)
			if declared {
				r.Header[callcontext.HeaderUser] = user
			}
		}
	}
	repl := caddy.NewReplacer()
	if supplemented {
		if supplement := security.SupplementFromContext(r.Context()); supplement != nil {
			supplement.Apply(r)
			r.RequestURI = r.URL.RequestURI()
			rec.Injected = supplement.Secrets()
		}
	}
	if rec.ToolsetCredentials != nil {
		rec.ToolsetCredentials.Apply(r)
		r.RequestURI = r.URL.RequestURI()
		rec.Injected = append(rec.Injected, rec.ToolsetCredentials)
	}
	client := &d.client
	r.Host, r.RemoteAddr, r.TLS = client.Host, client.RemoteAddr, client.TLS
	r.Proto, r.ProtoMajor, r.ProtoMinor = client.Proto, client.ProtoMajor, client.ProtoMinor

	r = caddyhttp.PrepareRequest(r, repl, rec, client.server)
	repl.Map(func(key string) (any, bool) {
		if value, ok := toolPlaceholder(key, call.Tool.Name, d.toolset, d.protocol); ok {
			return value, true
		}
		if callContext != nil && strings.HasPrefix(key, OCPPrefix) {
			return nil, false // the contextLayer sets those of the call
		}
		return client.placeholder(key)
	})
	client.copyVars(r)
	if limit := d.endpoint.AgentLimit; limit != nil {
		r = r.WithContext(context.WithValue(r.Context(), endpointAgentKey{}, limit.Agent))
	}
	return r
}

// preparedVars is the number of variables that PrepareRequest sets.
const preparedVars = 3

// copyVars copies the variables that handlers before the endpoint have set, such as the site's
// root, to the inner request. Variables that describe a single request are not copied:
// PrepareRequest has set them for the inner request.
func (c *clientState) copyVars(r *http.Request) {
	if len(c.vars) <= preparedVars {
		return
	}
	vars, _ := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	for name, value := range c.vars {
		if _, set := vars[name]; !set && name != "unhandled" {
			vars[name] = value
		}
	}
}

// copyHeaders copies headers of the client's request to the inner request, which has the headers and cookies that are
// arguments. Arguments take precedence, also over a header that servers read as the same. Exception: a header that may identify
// the caller, which a handler before the endpoint may have set, takes precedence over an argument. Headers of the client's message, its
// body, its connection and the tool protocol are not copied. Values are cloned, because handlers may change theirs in place.
//
// asOperator says that the gateway adds its own credentials to the call. Only safe headers and those in forwarded
// are copied then, because the API would trust others as the operator's.
func copyHeaders(to, from http.Header, asOperator bool, forwarded []string) {
	connectionOptions := httpheader.ConnectionOptions(from)
	backing := make([]string, 0, len(from)+1) // enough for most requests, with Accept-Encoding
	arguments := argumentHeaders(to)
	for name, values := range from {
		if !httpheader.Forwarded(name, connectionOptions, forwarded...) || asOperator && !httpheader.MayAccompany(name, forwarded) {
			continue
		}
		if arguments != nil && slices.Contains(arguments, httpheader.Canonical(name)) {
			if name == "Cookie" {
				to[name] = []string{joinCookies(values, to[name])}
			}
			if !httpheader.Identifies(name) {
				continue
			}
			maps.DeleteFunc(to, func(other string, _ []string) bool { return httpheader.Canonical(other) == httpheader.Canonical(name) })
		}
		start := len(backing)
		backing = append(backing, values...)
		to[name] = backing[start:len(backing):len(backing)]
	}
	start := len(backing)
	backing = append(backing, "identity")
	to["Accept-Encoding"] = backing[start:len(backing):len(backing)]
}

// argumentHeaders returns the canonical names of the headers of a new inner request that are arguments, or nil if there are none.
func argumentHeaders(header http.Header) (names []string) {
	if len(header) == 1 { // Accept, as most requests
		return nil
	}
	for name := range header {
		if name != "Accept" && name != "Content-Type" {
			names = append(names, httpheader.Canonical(name))
		}
	}
	return names
}

// joinCookies appends the cookies from arguments to those of the caller that have other names.
func joinCookies(callerCookies, arguments []string) string {
	given := strings.Split(strings.Join(arguments, "; "), "; ")
	var joined []string
	for cookie := range strings.SplitSeq(strings.Join(callerCookies, ";"), ";") {
		cookie = strings.TrimSpace(cookie)
		name, _, _ := strings.Cut(cookie, "=")
		isGiven := func(argument string) bool {
			other, _, _ := strings.Cut(argument, "=")
			return strings.EqualFold(other, strings.TrimSpace(name))
		}
		if cookie != "" && !slices.ContainsFunc(given, isGiven) {
			joined = append(joined, cookie)
		}
	}
	return strings.Join(append(joined, given...), "; ")
}

// fixedValue returns a function that replaces the placeholders of a fixed value: those without a request,
// and those of the client's request that app.FixedPlaceholder permits.
func (d *dispatch) fixedValue(call *tools.Call) func(text string) (string, error) {
	return func(text string) (string, error) {
		repl := caddy.NewReplacer()
		repl.Map(func(key string) (any, bool) {
			if value, ok := toolPlaceholder(key, call.Tool.Name, d.toolset, d.protocol); ok {
				return value, true
			}
			if d.client.repl == nil || !app.FixedPlaceholder(key) {
				return nil, false
			}
			return d.client.repl.Get(key)
		})
		return repl.ReplaceOrErr(text, true, true)
	}
}

// placeholder looks up a placeholder of the client's request that also applies to its tool calls:
// the caller's identity (http.auth), its OCP and OTC context, and placeholders that the
// operator defines (map). Other http.* placeholders describe the client's request itself and
// are not inherited.
func (c *clientState) placeholder(key string) (any, bool) {
	if c.repl == nil {
		return nil, false
	}
	if strings.HasPrefix(key, "http.") && !strings.HasPrefix(key, "http.auth.") && !strings.HasPrefix(key, "http.ocp.") &&
		!strings.HasPrefix(key, "http.otc.") {
		return nil, false
	}
	return c.repl.Get(key)
}

// toolPlaceholders are the placeholders that toolPlaceholder supports, except the outcome.
var toolPlaceholders = [...]string{"http.tool.name", "http.tool.toolset", "http.tool.protocol"}

// toolPlaceholder returns the value of a {http.tool.*} placeholder.
func toolPlaceholder(key, tool, toolset, protocol string) (any, bool) {
	name, ok := strings.CutPrefix(key, "http.tool.")
	if !ok {
		return nil, false
	}
	switch name {
	case "name":
		return tool, true
	case "toolset":
		return toolset, true
	case "protocol":
		return protocol, true
	case "outcome":
		return "", true // the call is still running
	}
	return nil, false
}
