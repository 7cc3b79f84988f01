package mcpservers

import (
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/sse"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/client"
)

// A responseWriter writes the response to a call: the result, or an event stream that ends with it.
type responseWriter struct {
	http.ResponseWriter
	streams bool // the event stream has begun
}

// notify sends a progress notification or a log message as an event.
func (w *responseWriter) notify(method string, params jsontext.Value) {
	if !w.streams {
		w.streams = true
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
	}
	name := "progress"
	if method == client.MethodLog {
		name = "log"
	}
	_, _ = w.Write(sse.AppendEvent(nil, name, "", params)) // a failed write ends the call through its context
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// finish writes the result.
func (w *responseWriter) finish(result jsontext.Value) error {
	if !w.streams {
		w.Header().Set("Content-Type", client.ResultType)
		w.WriteHeader(http.StatusOK)
		_, err := w.Write(result)
		return err
	}
	_, err := w.Write(sse.AppendEvent(nil, "mcp-result", "", result))
	return err
}

var errTooLarge = errors.New("the response of the MCP server is larger than max_response of the toolset")

// fail writes the error of a call. An error of the protocol is a native result too.
func (w *responseWriter) fail(err error) error {
	status, title := http.StatusBadGateway, "The MCP server cannot be used"
	if errors.Is(err, buffer.ErrTooLarge) {
		err = errTooLarge
	}
	refused, _ := errors.AsType[*client.StatusError](err)
	unavailable, _ := errors.AsType[*client.UnavailableError](err)
	if fault, ok := errors.AsType[*client.Error](err); ok {
		return w.finish(append(fault.Append([]byte(`{"error":`)), '}'))
	}
	isBusy := refused != nil && (refused.Status == http.StatusTooManyRequests || refused.Status == http.StatusServiceUnavailable)
	switch {
	case w.streams:
		text := strictjson.AppendString([]byte(`{"isError":true,"content":[{"type":"text","text":`), err.Error())
		return w.finish(append(text, `}]}`...))
	case isBusy:
		status, title, err = refused.Status, "The MCP server is busy", refused
		if refused.RetryAfter != "" {
			w.Header().Set("Retry-After", refused.RetryAfter)
		}
	case unavailable != nil && unavailable.Unsent():
		status, title, err = http.StatusServiceUnavailable, "The MCP server is not available", unavailable.Err
	case unavailable != nil: // the server may have executed the call, so it must not be repeated
		title, err = "The connection to the MCP server was lost during the call", unavailable.Err
	case errors.Is(err, client.ErrUnreadable):
		title = "The MCP server was called, so do not repeat the call if it changes something. Its response cannot be read"
	case errors.Is(err, client.ErrNotParked):
		status, title = http.StatusConflict, "The call has ended"
	case refused != nil && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden):
		status, title = refused.Status, "The MCP server refused the credentials"
	}
	respond.WriteProblem(w, status, title, err.Error())
	return nil
}
