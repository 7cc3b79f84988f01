package toolcall

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/ocp/security"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// errCallTimeout is the cancellation cause of a tool call that exceeds its time limit.
var errCallTimeout = errors.New("the tool call exceeded its time limit")

// dispatch is the tool.Invoker of one incoming request. Each call becomes an inner request: a
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
// *tool.Failure. The chain runs in the calling goroutine. At the time limit the context is
// canceled, but Invoke still waits for a handler that ignores its context.
func (d *dispatch) Invoke(ctx context.Context, call *tool.Call) (*tool.Result, error) {
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
		if credentials, err = d.credentials.Current(); err != nil {
			return nil, d.missingCredentialFailure(call.Tool, err)
		}
		call.Fill(agents.CredentialValues(credentials))
	}
	if err := call.Resolve(d.fixedValue(call)); err != nil {
		return nil, d.missingFixedFailure(call.Tool, err)
	}
	rec := NewRecorder(call.Tool.Method, d.limits.MaxResponse, cancel)
	rec.callContext = tool.CallContext{Context: ctx, Call: call}
	r, err := call.ServerRequest(&rec.callContext)
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

// mayNeedDecoding reports whether DecodeText may change a body: if the content type has a parameter,
// such as a charset, or if the body may begin with a byte order mark.
func mayNeedDecoding(contentType string, body []byte) bool {
	return strings.Contains(contentType, "=") || len(body) > 0 && body[0] == ByteOrderMark[0]
}

// decodeResult decodes the recorded body and returns it as a Result.
func (d *dispatch) decodeResult(t *tool.Tool, rec *Recorder) (*tool.Result, error) {
	if rec.Stream != nil {
		if err := rec.FinishStream(); err != nil {
			return nil, d.unfinishedStreamFailure(t, err)
		}
	}
	body := rec.takeBody()
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

// contextLayer is the part of an ocp handler that processes the tool calls of a request. The
// handler runs before the tool endpoint and so does not see the inner requests. It stores its
// contextLayer in the variable ContextVar, and dispatch runs each inner request through it.
type contextLayer interface {
	// WrapCalls returns a handler that applies the layer to a tool call and then calls next.
	WrapCalls(next caddyhttp.Handler) caddyhttp.Handler
	// MarkToolEndpoint records that a tool endpoint, not the API, responds to the request.
	MarkToolEndpoint()
}

// ContextVar is the request variable that holds the contextLayer.
const ContextVar = "fairway.ocp"

// handlerChain returns the handlers that a tool call passes.
func (d *dispatch) handlerChain() caddyhttp.Handler {
	if layer, ok := d.vars[ContextVar].(contextLayer); ok {
		return layer.WrapCalls(d.next)
	}
	return d.next
}
