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
)

// errCallTimeout is the cause that ends a tool call which took too long.
var errCallTimeout = errors.New("the tool call took longer than it may")

// dispatch is the ocp.Invoker of one incoming request: every call becomes a
// request of its own through the handlers that stand behind the adapter, with
// fresh route state, variables and placeholders, and its answer is recorded.
//
// Error routes (handle_errors) are the site's words to a visitor and are not run
// for tool calls: an error of a handler becomes the outcome of the call.
type dispatch struct {
	next     caddyhttp.Handler
	outer    *http.Request
	repl     *caddy.Replacer   // of outer
	server   *caddyhttp.Server // of outer
	vars     map[string]any    // of outer
	limits   agents.Limits
	protocol string
	toolset  string // its name
	logger   *zap.Logger

	credentials agents.Credentials
}

func newDispatch(next caddyhttp.Handler, outer *http.Request, protocol string, t *agents.Toolset, logger *zap.Logger) dispatch {
	ctx := outer.Context()
	d := dispatch{
		next:        next,
		outer:       outer,
		limits:      t.Limits,
		protocol:    protocol,
		toolset:     t.Name,
		logger:      logger,
		credentials: t.Credentials,
	}
	d.repl, _ = ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	d.server, _ = ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	d.vars, _ = ctx.Value(caddyhttp.VarsCtxKey).(map[string]any)
	return d
}

// Invoke sends the call through the chain and returns what it answers. Its
// errors are *ocp.Failure. The chain runs in this goroutine: when the time is up
// its context ends, and a handler that does not look at that is waited for.
func (d *dispatch) Invoke(ctx context.Context, call *ocp.Call) (*ocp.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var timer *time.Timer
	if d.limits.Timeout > 0 {
		timer = time.AfterFunc(d.limits.Timeout, func() { cancel(errCallTimeout) })
		defer timer.Stop()
	}
	own, err := d.credentials.Current()
	if err != nil {
		return nil, d.withoutCredential(call.Tool, err)
	}
	if own != nil {
		call.Fill(agents.ValuesOf(own))
	}
	r, err := call.Request(ocp.ContextWithCall(ctx, call))
	if err != nil {
		return nil, err
	}
	rec := NewRecorder(r.Method, d.limits.MaxResponse, cancel)
	rec.Outer = d.outer
	rec.Streams = streams{ctx: ctx, Timer: timer, Timeout: d.limits.Timeout}
	rec.Own = own
	r = d.prepare(r, rec, call)
	err = Serve(d.chain(), rec, r)
	return d.conclude(ctx, call, rec, err)
}

// prepare makes of r a request that has just arrived from the caller, with what
// belongs to the call beside its arguments. From the weakest to the strongest that
// is: what the caller's own request says, what the document fixes, what the adapter
// supplements, and the toolset's credentials (rec.own).
func (d *dispatch) prepare(r *http.Request, rec *Recorder, call *ocp.Call) *http.Request {
	asOperator := len(d.credentials) > 0
	carryHeaders(r.Header, d.outer.Header, asOperator)
	call.SetFilledHeaders(r.Header)
	own := d.ownContext(r)
	if own != nil {
		user, declared := r.Header[ocp.HeaderUser]
		own.Set(r.Header)
		switch {
		case asOperator && declared:
			r.Header[ocp.HeaderUser] = user
		case asOperator:
			delete(r.Header, ocp.HeaderUser)
		}
	}
	repl := caddy.NewReplacer()
	supplement := ocp.SupplementFromContext(r.Context())
	supplement.Apply(r)
	rec.With = supplement.Secrets()
	if rec.Own != nil {
		rec.Own.Apply(r)
		rec.With = append(rec.With, rec.Own)
	}
	r.Host = d.outer.Host
	r.RemoteAddr = d.outer.RemoteAddr
	r.TLS = d.outer.TLS
	r.Proto, r.ProtoMajor, r.ProtoMinor = d.outer.Proto, d.outer.ProtoMajor, d.outer.ProtoMinor
	r.URL.Scheme, r.URL.Host = "", ""
	r.RequestURI = r.URL.RequestURI()

	r = caddyhttp.PrepareRequest(r, repl, rec, d.server)
	if own != nil {
		repl.Map(PlaceholdersOf(own))
	}
	repl.Map(func(key string) (any, bool) {
		if value, ok := toolPlaceholder(key, call.Tool.Name, d.toolset, d.protocol); ok {
			return value, true
		}
		return d.inherited(key)
	})
	d.carryVars(r)
	return r
}

// preparedVars is how many variables PrepareRequest sets.
const preparedVars = 3

// carryVars gives the call the variables that handlers before the adapter have
// set, among them the site's root. What is said of a request itself is not
// carried: PrepareRequest has said it of this one.
func (d *dispatch) carryVars(r *http.Request) {
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

// inherited looks up a placeholder of the caller's request that holds for its
// tool calls too: who the caller is and says it is, what it says of the call, and
// what the operator has defined (map). Others speak of a request that is not this
// one.
func (d *dispatch) inherited(key string) (any, bool) {
	if d.repl == nil {
		return nil, false
	}
	if strings.HasPrefix(key, "http.") && !strings.HasPrefix(key, "http.auth.") && !strings.HasPrefix(key, "http.ocp.") &&
		!strings.HasPrefix(key, "http.otc.") {
		return nil, false
	}
	return d.repl.Get(key)
}

// toolPlaceholders are the placeholders that toolPlaceholder knows.
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
		return "", true // the call has not ended
	}
	return nil, false
}

// PanicError is the error of a handler that panicked.
type PanicError struct {
	Value any
	Stack []byte // nil if the handler only gave up the answer (http.ErrAbortHandler)
}

func (p *PanicError) Error() string {
	return fmt.Sprintf("panic: %v", p.Value)
}

// Serve runs the chain. A panic in it is an error of this call alone.
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

// conclude makes a Result of what was recorded, or a Failure of what went wrong.
func (d *dispatch) conclude(ctx context.Context, call *ocp.Call, rec *Recorder, err error) (*ocp.Result, error) {
	defer rec.Drop()
	where := call.Tool.Method + " " + call.Tool.Path
	if err != nil && rec.SaidAll() && (ctx.Err() != nil || brokeOff(err)) {
		err = nil
	}
	switch {
	case rec.TooLarge:
		return nil, d.tooLarge(call.Tool, rec.declared)
	case rec.Broken != nil:
		return nil, unstreamable(where, rec.Broken)
	case ctx.Err() != nil && (err != nil || rec.Status == 0 || rec.Status == statusClientClosed || rec.Stream != nil) && !rec.SaidAll():
		return nil, d.interrupted(ctx, where, rec)
	case err != nil:
		if failure := d.failed(call.Tool, rec, err); failure != nil {
			return nil, failure
		}
	case rec.Status == 0:
		return nil, unanswered(where, d.protocol)
	}
	result, err := d.result(call.Tool, rec)
	if err == nil && rec.Refused != nil {
		return result, rec.Refused
	}
	return result, err
}

// brokeOff reports whether a handler gave the answer up in the middle, as
// reverse_proxy does when its upstream has.
func brokeOff(err error) bool {
	p, ok := errors.AsType[*PanicError](err)
	return ok && p.Stack == nil
}

// result decodes the recorded body and hands it over.
func (d *dispatch) result(tool *ocp.Tool, rec *Recorder) (*ocp.Result, error) {
	if rec.Stream != nil {
		if err := rec.FinishStream(); err != nil {
			return nil, d.unfinished(tool, err)
		}
	}
	body, err := DecodeBody(rec.Headers, rec.take(), d.limits.MaxResponse)
	if err == nil {
		body, err = DecodeText(rec.Headers, body, d.limits.MaxResponse)
	}
	if err != nil {
		return nil, d.undecodable(tool, err)
	}
	ConcealAnswer(rec.With.Secrets(rec.Status), rec.Headers, body)
	result := &ocp.Result{Status: rec.Status, Header: rec.Headers, Exposed: rec.Exposed}
	switch {
	case body == nil:
	case len(body.B) == 0:
		buffer.Put(body)
	default:
		result.Body, result.Memory = body.B, body
	}
	return result, nil
}

// failed judges the error of a handler. It returns nil if the error is an HTTP
// refusal, of which it makes the recorded answer: one by authentication or a
// rate limit reads like one by the API.
func (d *dispatch) failed(tool *ocp.Tool, rec *Recorder, err error) *ocp.Failure {
	where := tool.Method + " " + tool.Path
	if p, ok := errors.AsType[*PanicError](err); ok {
		return d.panicked(where, p)
	}
	handlerError, ok := errors.AsType[caddyhttp.HandlerError](err)
	if !ok {
		if c := d.logger.Check(zapcore.ErrorLevel, "handler failed in a tool call"); c != nil {
			c.Write(zap.String("tool", tool.Name), zap.String("toolset", d.toolset), zap.Error(err))
		}
		return &ocp.Failure{Kind: ocp.Internal, Message: "the gateway failed while it handled " + where + "; its log says why"}
	}
	if c := d.logger.Check(levelOf(handlerError.StatusCode), "tool call ended in an error of a handler"); c != nil {
		c.Write(zap.String("tool", tool.Name), zap.String("toolset", d.toolset),
			zap.Int("status", handlerError.StatusCode), zap.Error(err))
	}
	if message, ok := operatorMessage(handlerError); ok {
		rec.answerText(handlerError.StatusCode, message)
		return nil
	}
	if failure := GatewayFailure(where, handlerError.StatusCode); failure != nil {
		return failure
	}
	if rec.Status < http.StatusBadRequest {
		rec.Status = handlerError.StatusCode
		rec.Drop() // what was written before belongs to no answer
	}
	return nil
}

func levelOf(status int) zapcore.Level {
	if status >= http.StatusInternalServerError {
		return zapcore.ErrorLevel
	}
	return zapcore.DebugLevel
}

func (d *dispatch) panicked(where string, p *PanicError) *ocp.Failure {
	if p.Stack == nil {
		return &ocp.Failure{Kind: ocp.Unreachable, Message: where + " broke off: the connection was closed in the middle of the answer; " + repeatedOrLook(where)}
	}
	if c := d.logger.Check(zapcore.ErrorLevel, "panic in a tool call"); c != nil {
		c.Write(zap.String("operation", where), zap.String("toolset", d.toolset),
			zap.Any("panic", p.Value), zap.ByteString("stack", p.Stack))
	}
	return &ocp.Failure{Kind: ocp.Internal, Message: "the gateway failed while it handled " + where + "; its log says why"}
}
