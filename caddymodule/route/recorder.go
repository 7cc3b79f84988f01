package route

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/inspect"
	"github.com/fairwayhq/fairway/tools/security"
)

// errResponseTooLarge is the write error that a handler gets if the response exceeds the limit of
// a tool call.
var errResponseTooLarge = fmt.Errorf("the response exceeds the limit of a tool call: %w", buffer.ErrTooLarge)

// Recorder is the http.ResponseWriter of one inner request. It holds the final response, up to a limit that ends
// the call. If the response is a stream, it reads the events as they arrive, and keeps only the stream's result.
type Recorder struct {
	respond.Recorder
	declared           int64                   // Content-Length, if it exceeds the limit
	cancel             context.CancelCauseFunc // ends the call
	Refusal            *tools.Failure          // set by a guard after the endpoint; the response reports the same
	Exposed            string                  // set by a guard after the endpoint; see tools.Result
	Changed            string                  // set by a guard after the endpoint; see tools.Result
	ClientRequest      *http.Request           // the client's request to the endpoint; nil if this is not a tool call
	ToolsetCredentials *security.Supplement    // credentials that the gateway adds for the toolset
	Injected           InjectedCredentials     // ToolsetCredentials and further injected credentials
	callContext        tools.CallContext       // of the inner request
	result             tools.Result            // of the call

	Inspection *Inspection          // of the response; nil without inspectors
	Review     *inspect.ReviewError // that inspectors of the arguments require; nil without one

	StreamOptions streamOptions   // how to handle a stream; the zero value holds it like any other response
	Stream        *recordedStream // nil unless the response is a stream
}

// NewRecorder returns a Recorder for a request with this method. Cancel ends the call.
func NewRecorder(method string, limit int64, cancel context.CancelCauseFunc) *Recorder {
	r := &Recorder{cancel: cancel}
	r.Headers, r.Limit, r.Policy = make(http.Header, 8), limit, r
	r.Reset(method)
	return r
}

// Begin implements respond.Policy: it begins to read a stream.
func (r *Recorder) Begin() {
	if r.NoBody || r.callContext.Context == nil || !mayStream(r.Headers["Content-Type"]) {
		return
	}
	if r.Stream = r.StreamOptions.open(r); r.Stream != nil {
		r.SendTo(r.Stream, false)
	}
}

// mayStream reports whether a response with this Content-Type may be a stream. Plain JSON, the usual
// response, is not one.
func mayStream(contentType []string) bool {
	return len(contentType) > 0 && contentType[0] != "application/json" && !strings.HasPrefix(contentType[0], "application/json;")
}

// Overflow implements respond.Policy: it ends the call, if possible before any byte of the body is read.
func (r *Recorder) Overflow(declared int64) error {
	r.declared = declared
	r.cancel(errResponseTooLarge)
	return errResponseTooLarge
}

// Release returns the buffers to the pool.
func (r *Recorder) Release() {
	if r.Stream != nil {
		r.Stream.Release()
		r.Stream = nil
	}
	r.Recorder.Release()
}

// Reset clears the Recorder for another response.
func (r *Recorder) Reset(method string) {
	r.Discard()
	r.Hold()
	r.Status, r.declared, r.Exposed, r.NoBody = 0, 0, "", method == http.MethodHead
}

// SuppressEvents stops forwarding the events of a stream to the client. A response
// that has not passed its output check must not be shown.
func (r *Recorder) SuppressEvents() {
	r.StreamOptions.suppressEvents = true
}

// Discard deletes a response that must not be released.
func (r *Recorder) Discard() {
	r.Release()
	clear(r.Headers)
}
