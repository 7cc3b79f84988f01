package toolcall

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/security"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// errCallTimeout is the cancellation cause of a tool call that exceeds its time limit.
var errCallTimeout = errors.New("the tool call exceeded its time limit")

// dispatch is the ocp.Invoker of one incoming request. Each call becomes an inner request: a
// new request with its own route state, variables and placeholders, sent through the handlers
// after the endpoint. A Recorder captures the response.
//
// Error routes (handle_errors) are for visitors of the site and do not run for tool calls. An
// error of a handler becomes the outcome of the call.
type dispatch struct {
	next          caddyhttp.Handler
	clientRequest *http.Request
	repl          *caddy.Replacer   // of outer
	server        *caddyhttp.Server // of outer
	vars          map[string]any    // of outer
	limits        agents.Limits
	protocol      string
	toolset       string // name of the toolset
	logger        *zap.Logger

	credentials agents.Credentials
}

// newDispatch returns the dispatch of the request outer. Next is the handler after the
// endpoint.
func newDispatch(next caddyhttp.Handler, outer *http.Request, protocol string, t *agents.Toolset, logger *zap.Logger) dispatch {
	ctx := outer.Context()
	d := dispatch{
		next:          next,
		clientRequest: outer,
		protocol:      protocol,
		logger:        logger,
	}
	d.serve(t)
	d.repl, _ = ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	d.server, _ = ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	d.vars, _ = ctx.Value(caddyhttp.VarsCtxKey).(map[string]any)
	return d
}

// serve gives calls the limits, the credentials and the name of a toolset.
func (d *dispatch) serve(t *agents.Toolset) {
	d.limits, d.credentials, d.toolset = t.Limits, t.Credentials, t.Name
}

// Invoke sends the call through the chain and returns the response. Its errors are
// *ocp.Failure. The chain runs in the calling goroutine. At the time limit the context is
// canceled, but Invoke still waits for a handler that ignores its context.
func (d *dispatch) Invoke(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var timer *time.Timer
	if d.limits.Timeout > 0 {
		timer = time.AfterFunc(d.limits.Timeout, func() { cancel(errCallTimeout) })
		defer timer.Stop()
	}
	credentials, err := d.credentials.Current()
	if err != nil {
		return nil, d.missingCredentialFailure(call.Tool, err)
	}
	if credentials != nil {
		call.Fill(agents.CredentialValues(credentials))
	}
	if err := call.Resolve(d.fixedValue(call)); err != nil {
		return nil, d.missingFixedFailure(call.Tool, err)
	}
	rec := NewRecorder(call.Tool.Method, d.limits.MaxResponse, cancel)
	rec.callContext = tool.CallContext{Context: ctx, Call: call}
	r, err := call.Request(&rec.callContext)
	if err != nil {
		rec.Release()
		return nil, err
	}
	rec.ClientRequest = d.clientRequest
	rec.StreamOptions = streamOptions{ctx: ctx, Timer: timer, Timeout: d.limits.Timeout}
	rec.ToolsetCredentials = credentials
	r = d.prepare(r, rec, call)
	err = Serve(d.handlerChain(), rec, r)
	return d.conclude(ctx, call, rec, err)
}

// prepare turns r into an inner request from the caller. It adds headers and parameters that
// are not arguments of the call. In increasing priority these are: the headers of the client's
// request, the values that the document fixes, the adapter's supplement, and the toolset's
// credentials (rec.ToolsetCredentials).
func (d *dispatch) prepare(r *http.Request, rec *Recorder, call *tool.Call) *http.Request {
	asOperator := len(d.credentials) > 0
	copyHeaders(r.Header, d.clientRequest.Header, asOperator)
	call.SetFilledHeaders(r.Header)
	callContext := d.callContext(r)
	if callContext != nil {
		user, declared := r.Header[ocp.HeaderUser]
		callContext.Set(r.Header)
		switch {
		case asOperator && declared:
			r.Header[ocp.HeaderUser] = user
		case asOperator:
			delete(r.Header, ocp.HeaderUser)
		}
	}
	repl := caddy.NewReplacer()
	supplement := security.SupplementFromContext(r.Context())
	supplement.Apply(r)
	rec.Injected = supplement.Secrets()
	if rec.ToolsetCredentials != nil {
		rec.ToolsetCredentials.Apply(r)
		rec.Injected = append(rec.Injected, rec.ToolsetCredentials)
	}
	r.Host = d.clientRequest.Host
	r.RemoteAddr = d.clientRequest.RemoteAddr
	r.TLS = d.clientRequest.TLS
	r.Proto, r.ProtoMajor, r.ProtoMinor = d.clientRequest.Proto, d.clientRequest.ProtoMajor, d.clientRequest.ProtoMinor
	r.URL.Scheme, r.URL.Host = "", ""
	r.RequestURI = r.URL.RequestURI()

	r = caddyhttp.PrepareRequest(r, repl, rec, d.server)
	if callContext != nil {
		repl.Map(OCPPlaceholders(callContext))
	}
	repl.Map(func(key string) (any, bool) {
		if value, ok := toolPlaceholder(key, call.Tool.Name, d.toolset, d.protocol); ok {
			return value, true
		}
		return d.inheritedPlaceholder(key)
	})
	d.copyVars(r)
	return r
}

// preparedVars is the number of variables that PrepareRequest sets.
const preparedVars = 3

// copyVars copies the variables that handlers before the endpoint have set, such as the site's
// root, to the inner request. Variables that describe a single request are not copied:
// PrepareRequest has set them for the inner request.
func (d *dispatch) copyVars(r *http.Request) {
	if len(d.vars) <= preparedVars {
		return
	}
	vars, _ := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	for name, value := range d.vars {
		if _, set := vars[name]; !set && name != "unhandled" {
			vars[name] = value
		}
	}
}

// fixedValue returns a function that replaces the placeholders of a fixed value: those without a request,
// and those of the client's request that agents.FixedPlaceholder permits.
func (d *dispatch) fixedValue(call *tool.Call) func(text string) (string, error) {
	return func(text string) (string, error) {
		repl := caddy.NewReplacer()
		repl.Map(func(key string) (any, bool) {
			if value, ok := toolPlaceholder(key, call.Tool.Name, d.toolset, d.protocol); ok {
				return value, true
			}
			if d.repl == nil || !agents.FixedPlaceholder(key) {
				return nil, false
			}
			return d.repl.Get(key)
		})
		return repl.ReplaceOrErr(text, true, true)
	}
}

// inheritedPlaceholder looks up a placeholder of the client's request that also applies to its tool calls:
// the caller's identity (http.auth), its OCP and OTC context, and placeholders that the
// operator defines (map). Other http.* placeholders describe the client's request itself and
// are not inherited.
func (d *dispatch) inheritedPlaceholder(key string) (any, bool) {
	if d.repl == nil {
		return nil, false
	}
	if strings.HasPrefix(key, "http.") && !strings.HasPrefix(key, "http.auth.") && !strings.HasPrefix(key, "http.ocp.") &&
		!strings.HasPrefix(key, "http.otc.") {
		return nil, false
	}
	return d.repl.Get(key)
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

// PanicError is the error of a handler that panicked.
type PanicError struct {
	Value any
	Stack []byte // nil if the handler aborted the response with http.ErrAbortHandler
}

func (p *PanicError) Error() string {
	return fmt.Sprintf("panic: %v", p.Value)
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
func operationOf(tool *tool.Tool) string {
	return tool.Method + " " + tool.Path
}

// conclude turns the recorded response into a Result, or an error into a Failure.
func (d *dispatch) conclude(ctx context.Context, call *tool.Call, rec *Recorder, err error) (*tool.Result, error) {
	defer rec.Release()
	if err != nil && rec.StreamComplete() && (ctx.Err() != nil || isAbortedResponse(err)) {
		err = nil
	}
	switch {
	case rec.TooLarge:
		return nil, d.tooLargeFailure(call.Tool, rec.contentLength)
	case rec.StreamErr != nil:
		return nil, streamLimitFailure(operationOf(call.Tool), rec.StreamErr)
	case ctx.Err() != nil && (err != nil || rec.Status == 0 || rec.Status == statusClientClosed || rec.Stream != nil) && !rec.StreamComplete():
		return nil, d.interruptedFailure(ctx, operationOf(call.Tool), rec)
	case err != nil:
		if failure := d.handlerFailure(call.Tool, rec, err); failure != nil {
			return nil, failure
		}
	case rec.Status == 0:
		return nil, noHandlerFailure(operationOf(call.Tool), d.protocol)
	}
	result, err := d.decodeResult(call.Tool, rec)
	if err == nil && rec.Refusal != nil {
		return result, rec.Refusal
	}
	return result, err
}

// isAbortedResponse reports whether a handler aborted the response, as reverse_proxy does when the
// connection to its upstream breaks.
func isAbortedResponse(err error) bool {
	p, ok := errors.AsType[*PanicError](err)
	return ok && p.Stack == nil
}

// decodeResult decodes the recorded body and returns it as a Result.
func (d *dispatch) decodeResult(t *tool.Tool, rec *Recorder) (*tool.Result, error) {
	if rec.Stream != nil {
		if err := rec.FinishStream(); err != nil {
			return nil, d.unfinishedStreamFailure(t, err)
		}
	}
	body, err := DecodeBody(rec.Headers, rec.takeBody(), d.limits.MaxResponse)
	if err == nil {
		body, err = DecodeText(rec.Headers, body, d.limits.MaxResponse)
	}
	if err != nil {
		return nil, d.undecodableFailure(t, err)
	}
	ConcealInResponse(rec.Injected.Secrets(rec.Status), rec.Headers, body)
	result := &tool.Result{Status: rec.Status, Header: rec.Headers, Exposed: rec.Exposed}
	switch {
	case body == nil:
	case len(body.B) == 0:
		buffer.Put(body)
	default:
		result.Body, result.Memory = body.B, body
	}
	return result, nil
}

// handlerFailure converts the error of a handler:
//
//   - A panic, or an error without an HTTP status, is an internal failure.
//   - The message of the operator's error directive becomes the recorded response.
//   - Status 502, 503 or 504 is a failure: the upstream cannot be reached.
//   - Any other status, such as that of a rejected authentication or an exceeded rate limit,
//     becomes the status of the recorded response, so that it reads like a response of the API.
//
// If there is a recorded response, failed returns nil.
func (d *dispatch) handlerFailure(t *tool.Tool, rec *Recorder, err error) *tool.Failure {
	where := operationOf(t)
	if p, ok := errors.AsType[*PanicError](err); ok {
		return d.panicFailure(where, p)
	}
	handlerError, ok := errors.AsType[caddyhttp.HandlerError](err)
	if !ok {
		if c := d.logger.Check(zapcore.ErrorLevel, "handler failed in a tool call"); c != nil {
			c.Write(zap.String("tool", t.Name), zap.String("toolset", d.toolset), zap.Error(err))
		}
		return &tool.Failure{Kind: tool.Internal, Message: "the gateway failed to handle " + where + "; the reason is in its log"}
	}
	if c := d.logger.Check(logLevel(handlerError.StatusCode), "handler returned an error for a tool call"); c != nil {
		c.Write(zap.String("tool", t.Name), zap.String("toolset", d.toolset),
			zap.Int("status", handlerError.StatusCode), zap.Error(err))
	}
	if message, ok := operatorMessage(handlerError); ok {
		rec.replaceWithText(handlerError.StatusCode, message)
		return nil
	}
	if failure := UpstreamFailure(where, handlerError.StatusCode); failure != nil {
		return failure
	}
	if rec.Status < http.StatusBadRequest {
		rec.Status = handlerError.StatusCode
		rec.Release() // discard what was written before the error
	}
	return nil
}

// logLevel returns the log level for an error with this status.
func logLevel(status int) zapcore.Level {
	if status >= http.StatusInternalServerError {
		return zapcore.ErrorLevel
	}
	return zapcore.DebugLevel
}

// panicFailure logs the panic of a handler and returns the failure of the call.
func (d *dispatch) panicFailure(where string, p *PanicError) *tool.Failure {
	if p.Stack == nil {
		return &tool.Failure{Kind: tool.Unreachable, Message: "the connection closed before the response of " + where + " was complete; " + brokenResponseAdvice(where)}
	}
	if c := d.logger.Check(zapcore.ErrorLevel, "panic in a tool call"); c != nil {
		c.Write(zap.String("operation", where), zap.String("toolset", d.toolset),
			zap.Any("panic", p.Value), zap.ByteString("stack", p.Stack))
	}
	return &tool.Failure{Kind: tool.Internal, Message: "the gateway failed to handle " + where + "; the reason is in its log"}
}
