package toolcall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/ocp/security"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// errResponseTooLarge is the write error that a handler gets if the response exceeds the limit of
// a tool call.
var errResponseTooLarge = fmt.Errorf("the response exceeds the limit of a tool call: %w", buffer.ErrTooLarge)

// errCallEnded is the write error that a handler gets after its call has ended.
var errCallEnded = errors.New("the tool call has ended")

// Recorder is the http.ResponseWriter of one inner request. It keeps the final response in a
// pooled buffer, up to a limit. It cannot reach the client's connection: it supports neither
// Hijack nor Unwrap. If the response is a stream, the Recorder keeps only the stream's result.
type Recorder struct {
	Headers            http.Header
	Body               *buffer.Buffer
	limit              int64 // bytes
	Status             int   // 0 until the final header is written
	bodiless           bool  // the response has no body; writes are ignored
	TooLarge           bool
	contentLength      int64                   // Content-Length, if it exceeds the limit
	cancel             context.CancelCauseFunc // ends the call
	Refusal            *tool.Failure           // set by a guard after the endpoint; the response reports the same
	Exposed            string                  // set by a guard after the endpoint; see tool.Result
	ClientRequest      *http.Request           // the client's request to the endpoint; nil if this is not a tool call
	ToolsetCredentials *security.Supplement    // credentials that the gateway adds for the toolset
	Injected           InjectedCredentials     // ToolsetCredentials and further injected credentials
	callContext        tool.CallContext        // of the inner request
	result             tool.Result             // of the call

	StreamOptions streamOptions   // how to handle a stream; the zero value records it like any other response
	Stream        *recordedStream // nil unless the response is a stream
	StreamErr     error           // why a stream was canceled, except for its size
}

// NewRecorder returns a Recorder for a request with this method. Cancel ends the call.
func NewRecorder(method string, limit int64, cancel context.CancelCauseFunc) *Recorder {
	return &Recorder{
		Headers:  make(http.Header, 8),
		Body:     buffer.Get(),
		limit:    limit,
		bodiless: method == http.MethodHead,
		cancel:   cancel,
	}
}

// Header returns the header of the response.
func (r *Recorder) Header() http.Header {
	return r.Headers
}

// WriteHeader records the first final status. If the Content-Length exceeds the limit, it ends
// the call before any byte of the body is read.
func (r *Recorder) WriteHeader(status int) {
	if r.Status != 0 || status < http.StatusOK {
		return
	}
	r.Status = status
	if status == http.StatusNoContent || status == http.StatusNotModified {
		r.bodiless = true
	}
	if r.bodiless {
		return
	}
	if r.StreamOptions.ctx != nil && mayStream(r.Headers["Content-Type"]) {
		if r.Stream = r.StreamOptions.open(r); r.Stream != nil {
			return
		}
	}
	if length := r.Headers["Content-Length"]; len(length) == 1 {
		switch n, err := strconv.ParseInt(length[0], 10, 64); {
		case err != nil || n < 0:
		case n > r.limit:
			r.contentLength = n
			r.abortTooLarge()
		case r.Body != nil:
			r.Body.Grow(int(n) + 1) // one more, to read the end without growing
		}
	}
}

// mayStream reports whether a response with this Content-Type may be a stream. Plain JSON, the usual
// response, is not one.
func mayStream(contentType []string) bool {
	return len(contentType) > 0 && contentType[0] != "application/json" && !strings.HasPrefix(contentType[0], "application/json;")
}

// Write appends to the response.
func (r *Recorder) Write(p []byte) (int, error) {
	if err := r.beginWrite(); err != nil {
		return 0, err
	}
	switch {
	case r.bodiless:
		return len(p), nil
	case r.Stream != nil:
		return r.writeStream(p)
	}
	if int64(len(r.Body.B))+int64(len(p)) > r.limit {
		r.abortTooLarge()
		return 0, errResponseTooLarge
	}
	return r.Body.Write(p)
}

// WriteString appends to the response.
func (r *Recorder) WriteString(s string) (int, error) {
	if err := r.beginWrite(); err != nil {
		return 0, err
	}
	switch {
	case r.bodiless:
		return len(s), nil
	case r.Stream != nil:
		return r.writeStream([]byte(s))
	}
	if int64(len(r.Body.B))+int64(len(s)) > r.limit {
		r.abortTooLarge()
		return 0, errResponseTooLarge
	}
	r.Body.B = append(r.Body.B, s...)
	return len(s), nil
}

// ReadFrom appends all of source to the response. It reads directly into the buffer.
func (r *Recorder) ReadFrom(source io.Reader) (int64, error) {
	if err := r.beginWrite(); err != nil {
		return 0, err
	}
	switch {
	case r.bodiless:
		return io.Copy(io.Discard, source)
	case r.Stream != nil:
		return r.readStream(source)
	}
	before := int64(len(r.Body.B))
	err := r.Body.ReadAll(source, r.limit)
	if errors.Is(err, buffer.ErrTooLarge) {
		r.abortTooLarge()
		err = errResponseTooLarge
	}
	if r.Body == nil {
		return 0, err
	}
	return int64(len(r.Body.B)) - before, err
}

// FlushError does nothing, since the response is complete only at the end of the call.
func (r *Recorder) FlushError() error {
	return nil
}

// beginWrite writes the implied header. It returns an error if the response no longer takes bytes.
func (r *Recorder) beginWrite() error {
	if r.Status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	switch {
	case r.TooLarge:
		return errResponseTooLarge
	case r.StreamErr != nil:
		return r.StreamErr
	case r.Body == nil:
		return errCallEnded
	}
	return nil
}

// abortTooLarge ends the call and discards what was recorded.
func (r *Recorder) abortTooLarge() {
	r.TooLarge = true
	r.Release()
	r.cancel(errResponseTooLarge)
}

// Release returns the buffers to the pool.
func (r *Recorder) Release() {
	if r.Stream != nil {
		r.Stream.Release()
		r.Stream = nil
	}
	buffer.Put(r.Body)
	r.Body = nil
}

// Reset clears the Recorder for another response.
func (r *Recorder) Reset(method string) {
	r.Release()
	clear(r.Headers)
	r.Body = buffer.Get()
	r.Status, r.contentLength, r.Exposed = 0, 0, ""
	r.bodiless, r.TooLarge, r.StreamErr = method == http.MethodHead, false, nil
}

// takeBody transfers ownership of the body to the caller, so that a late write cannot change it.
func (r *Recorder) takeBody() *buffer.Buffer {
	body := r.Body
	r.Body = nil
	return body
}

// SuppressEvents stops forwarding the events of a stream to the client. A response
// that has not passed its output check must not be shown.
func (r *Recorder) SuppressEvents() {
	if r.StreamOptions.ctx != nil && tool.ListenerFromContext(r.StreamOptions.ctx) != nil {
		r.StreamOptions.ctx = tool.ContextWithListener(r.StreamOptions.ctx, nil)
	}
}

// Discard deletes a response that must not be released.
func (r *Recorder) Discard() {
	r.Release()
	clear(r.Headers)
}
