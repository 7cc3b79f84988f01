package route

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/result"
)

// statusClientClosed is the status that reverse_proxy uses if the client disconnects.
const statusClientClosed = 499

// interruptedFailure returns the failure of a call that ended before its response was complete.
func (d *dispatch) interruptedFailure(ctx context.Context, where string, rec *Recorder) *tools.Failure {
	if errors.Is(context.Cause(ctx), errCallTimeout) || errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		if rec.Stream != nil && d.limits.Timeout > 0 {
			return d.streamTimeoutFailure(where, rec.Stream)
		}
		return &tools.Failure{Kind: tools.TimedOut, Message: fmt.Sprintf(
			"%s did not respond within %s; %s", where, d.limits.Timeout, timeoutAdvice(where))}
	}
	return &tools.Failure{Kind: tools.Canceled, Message: where + " was canceled because the client disconnected"}
}

// streamTimeoutFailure returns the failure of a stream that exceeds one of its two time limits.
func (d *dispatch) streamTimeoutFailure(where string, s *recordedStream) *tools.Failure {
	message := fmt.Sprintf("%s started to respond and then sent nothing for %s", where, d.limits.Timeout)
	if !time.Now().Before(s.end) {
		message = fmt.Sprintf("%s streamed its response for more than %s", where, maxStreamTimeouts*d.limits.Timeout)
	}
	return &tools.Failure{Kind: tools.TimedOut, Message: message + " without finishing; " + timeoutAdvice(where)}
}

// retryAdvice returns the advice whether a call that failed in transit can be repeated. The
// request may have reached the API, so only an idempotent method is safe to repeat. Where is
// the method and the path.
func retryAdvice(where string) string {
	if isIdempotent(where) {
		return "try again later"
	}
	return "it is unknown whether the call had an effect, so check the current state before you repeat it"
}

// timeoutAdvice is retryAdvice for a call that timed out.
func timeoutAdvice(where string) string {
	if isIdempotent(where) {
		return "try again later, or request less"
	}
	return retryAdvice(where)
}

// brokenResponseAdvice is retryAdvice for a response that is incomplete.
func brokenResponseAdvice(where string) string {
	if isIdempotent(where) {
		return "try again; if it fails again, the operator must check the API"
	}
	return retryAdvice(where)
}

// isIdempotent reports whether the method is idempotent (RFC 9110, section 9.2.2).
func isIdempotent(where string) bool {
	method, _, _ := strings.Cut(where, " ")
	return (&tools.Tool{Plan: tools.Plan{Method: method}}).Idempotent()
}

// streamLimitFailure returns the failure of a stream that was canceled because of its size.
func streamLimitFailure(where string, err error) *tools.Failure {
	if errors.Is(err, result.ErrTooManyEvents) {
		return &tools.Failure{Kind: tools.TooLarge, Message: where + " streamed too many events; request less"}
	}
	return &tools.Failure{Kind: tools.TooLarge, Message: fmt.Sprintf(
		"%s streamed a progress or log event of more than %s, the limit of one event; the operator must check the API",
		where, humanize.IBytes(result.DefaultMaxEvent))}
}

// unfinishedStreamFailure returns the failure of a stream that ended without a result.
func (d *dispatch) unfinishedStreamFailure(t *tools.Tool, err error) *tools.Failure {
	where := operationOf(t)
	switch {
	case errors.Is(err, buffer.ErrTooLarge):
		return d.tooLargeFailure(t, 0)
	case errors.Is(err, result.ErrCutOff):
		return &tools.Failure{Kind: tools.Unreachable, Message: where + " ended its stream in the middle of an event, " +
			"which must end with an empty line; " + brokenResponseAdvice(where)}
	}
	return streamLimitFailure(where, err)
}

// missingCredentialFailure returns the failure of a call that was not sent because a credential has no
// usable value. The reason is for the operator and only in the log.
func (d *dispatch) missingCredentialFailure(t *tools.Tool, err error) *tools.Failure {
	if failure, ok := errors.AsType[*tools.Failure](err); ok {
		return failure // of the user's own credential, who can do something about it
	}
	if failed, ok := errors.AsType[*credential.CallError](err); ok {
		if c := d.logger.Check(zapcore.WarnLevel, "tool call not sent: the authorization server gave no access token for it"); c != nil {
			c.Write(zap.String("tool", t.Name), zap.String("toolset", d.toolset), zap.Error(err))
		}
		return &tools.Failure{Kind: failed.Kind, Unsent: true, Message: operationOf(t) + " was not sent: " + failed.Message}
	}
	if c := d.logger.Check(zapcore.ErrorLevel, "tool call not sent: a credential has no usable value"); c != nil {
		c.Write(zap.String("tool", t.Name), zap.String("toolset", d.toolset), zap.Error(err))
	}
	location := "the API"
	if missing, ok := errors.AsType[*credential.MissingError](err); ok {
		location += " (" + missing.Location + ")"
	}
	return &tools.Failure{Kind: tools.Internal, Unsent: true, Message: fmt.Sprintf(
		"%s %s was not sent: the gateway's credential for %s is missing; the operator must set it (the reason is in the gateway's log)",
		t.Plan.Method, t.Plan.Path, location)}
}

// missingFixedFailure returns the failure of a call that was not sent because a value that the operator
// fixes is missing. The reason is for the operator and only in the log.
func (d *dispatch) missingFixedFailure(t *tools.Tool, err error) *tools.Failure {
	if c := d.logger.Check(zapcore.ErrorLevel, "tool call not sent: a fixed value of an argument is missing"); c != nil {
		c.Write(zap.String("tool", t.Name), zap.String("toolset", d.toolset), zap.Error(err))
	}
	return &tools.Failure{Kind: tools.Internal, Unsent: true, Message: fmt.Sprintf(
		"%s %s was not sent: a value that the operator sets for this call is missing (the reason is in the gateway's log)", t.Plan.Method, t.Plan.Path)}
}

// UpstreamFailure returns the failure for a handler error with a status that says that the
// upstream cannot be reached. It returns nil for other statuses.
func UpstreamFailure(where string, status int) *tools.Failure {
	switch status {
	case http.StatusBadGateway:
		return &tools.Failure{Kind: tools.Unreachable, Status: status, Message: where +
			" could not be reached (502 Bad Gateway): the API is down or closed the connection; " + retryAdvice(where)}
	case http.StatusServiceUnavailable:
		return &tools.Failure{Kind: tools.Unreachable, Status: status, Message: where +
			" could not be reached (503 Service Unavailable): no server of the API is available; " + retryAdvice(where)}
	case http.StatusGatewayTimeout:
		return &tools.Failure{Kind: tools.TimedOut, Status: status, Message: where +
			" did not respond in time (504 Gateway Timeout); " + timeoutAdvice(where)}
	case statusClientClosed:
		return &tools.Failure{Kind: tools.Canceled, Message: where + " was canceled because the client disconnected"}
	}
	return nil
}

// noHandlerFailure returns the failure of a call that no handler responded to.
func noHandlerFailure(where, protocol string) *tools.Failure {
	return &tools.Failure{Kind: tools.Unanswered, Message: fmt.Sprintf(
		"no handler on this site responds to %s: the operator must add a handler for the API, such as reverse_proxy, after %s, "+
			"or set base_path if the API has another path on this site", where, protocol)}
}

// checkGuarded returns a failure if a call would not pass the oagent handler of the endpoint's agent.
func (e *Endpoint) checkGuarded(call *http.Request, t *tools.Tool, toolset string) error {
	if e.Routes.IsGuarded(call, e.AgentLimit.Agent) {
		return nil
	}
	e.Logger.Error("tool call not sent: it would not pass the oagent handler of its agent; "+
		"let the routes and matchers around oagent cover the tool's path, and put it before the handlers that respond",
		zap.String("tool", t.Name), zap.String("toolset", toolset), zap.String("agent", e.AgentLimit.Agent))
	return &tools.Failure{Kind: tools.Internal, Unsent: true, Message: operationOf(t) +
		" was not sent: the site has no check of the agent for it; the operator must change the routes (the reason is in the gateway's log)"}
}

// tooLargeFailure returns the failure of a response over the limit. It names the size, if known, and
// arguments of the tool that may make the response smaller.
func (d *dispatch) tooLargeFailure(t *tools.Tool, declared int64) *tools.Failure {
	limit := humanize.IBytes(uint64(d.limits.MaxResponse))
	size := "more than " + limit
	if declared > 0 {
		size = humanize.IBytes(uint64(declared)) + ", over the limit of " + limit
	}
	message := fmt.Sprintf("the response of %s %s has %s: narrow the call", t.Plan.Method, t.Plan.Path, size)
	if names := narrowingArguments(t); len(names) > 0 {
		message += " with " + strings.Join(names, ", ")
	} else {
		message += " if its arguments allow it"
	}
	return &tools.Failure{Kind: tools.TooLarge, Message: message + "; the operator can raise max_response"}
}

// narrowingArguments returns optional arguments of a tool that, by their names, make the
// response smaller.
func narrowingArguments(t *tools.Tool) (names []string) {
	const maxNames = 6
	for i := range t.Definition.Arguments {
		a := &t.Definition.Arguments[i]
		if a.In != tools.InQuery || len(names) == maxNames {
			continue
		}
		switch strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(a.Name)) {
		case "limit", "perpage", "pagesize", "size", "first", "top", "count", "max", "maxresults", "page", "offset",
			"fields", "select", "filter", "q", "query", "search", "since", "from", "to", "before", "after":
			names = append(names, a.Name)
		}
	}
	return names
}

// undecodableFailure returns the failure of a response whose body cannot be decoded.
func (d *dispatch) undecodableFailure(t *tools.Tool, err error) *tools.Failure {
	if errors.Is(err, buffer.ErrTooLarge) {
		return d.tooLargeFailure(t, 0)
	}
	where := t.Plan.Method + " " + t.Plan.Path
	if coding, ok := errors.AsType[unknownCodingError](err); ok {
		return &tools.Failure{Kind: tools.Unreadable, Message: fmt.Sprintf(
			"the response of %s has the unsupported content coding %.40q; the API must send identity, gzip, deflate or zstd",
			where, coding.coding)}
	}
	return &tools.Failure{Kind: tools.Unreadable, Message: "the compressed response of " + where + " is corrupt or truncated; the operator must check the API and the proxies in front of it"}
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
func (d *dispatch) handlerFailure(t *tools.Tool, rec *Recorder, err error) *tools.Failure {
	where := operationOf(t)
	if p, ok := errors.AsType[*PanicError](err); ok {
		return d.panicFailure(where, p)
	}
	handlerError, ok := errors.AsType[caddyhttp.HandlerError](err)
	if !ok {
		if c := d.logger.Check(zapcore.ErrorLevel, "handler failed in a tool call"); c != nil {
			c.Write(zap.String("tool", t.Name), zap.String("toolset", d.toolset), zap.Error(err))
		}
		return &tools.Failure{Kind: tools.Internal, Message: "the gateway failed to handle " + where + "; the reason is in its log"}
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
func (d *dispatch) panicFailure(where string, p *PanicError) *tools.Failure {
	if p.Stack == nil {
		return &tools.Failure{Kind: tools.Unreachable, Message: "the connection closed before the response of " + where + " was complete; " + brokenResponseAdvice(where)}
	}
	if c := d.logger.Check(zapcore.ErrorLevel, "panic in a tool call"); c != nil {
		c.Write(zap.String("operation", where), zap.String("toolset", d.toolset),
			zap.Any("panic", p.Value), zap.ByteString("stack", p.Stack))
	}
	return &tools.Failure{Kind: tools.Internal, Message: "the gateway failed to handle " + where + "; the reason is in its log"}
}

// isAbortedResponse reports whether a handler aborted the response, as reverse_proxy does when the
// connection to its upstream breaks.
func isAbortedResponse(err error) bool {
	p, ok := errors.AsType[*PanicError](err)
	return ok && p.Stack == nil
}

// PanicError is the error of a handler that panicked.
type PanicError struct {
	Value any
	Stack []byte // nil if the handler aborted the response with http.ErrAbortHandler
}

func (p *PanicError) Error() string {
	return fmt.Sprintf("panic: %v", p.Value)
}
