package toolcall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/ocp"
)

// errAnswerTooLarge is what a handler sees when it writes more than the tool
// call may return.
var errAnswerTooLarge = fmt.Errorf("the answer is larger than a tool call may return: %w", buffer.ErrTooLarge)

// errRecorded is what a handler sees that writes after its call has ended.
var errRecorded = errors.New("the tool call has ended")

// Recorder is the http.ResponseWriter of one tool call. It keeps the final
// answer in a pooled buffer up to a limit and has no way to the client's
// connection: it neither hijacks nor unwraps. Of an answer that streams it keeps
// what the stream comes to.
type Recorder struct {
	Headers  http.Header
	Body     *buffer.Buffer
	limit    int64 // bytes
	Status   int   // 0 until the final header is written
	bodiless bool  // nothing that is written belongs to the answer
	TooLarge bool
	declared int64                   // Content-Length, where that alone was over the limit
	cancel   context.CancelCauseFunc // ends the call
	Refused  *ocp.Failure            // of a guard behind the endpoint; the response says the same
	Exposed  string                  // by the agent of a guard behind: see ocp.Result
	Outer    *http.Request           // the caller's own, to the endpoint; nil if it is not a tool call
	Own      *ocp.Supplement         // what the gateway has put into the request for the toolset
	With     InjectedCredentials     // that and what else there is of the kind

	Streams streams   // what is done with a stream; zero if that is an answer like others
	Stream  *streamed // of an answer that streams
	Broken  error     // why a stream was given up that is not too large
}

func NewRecorder(method string, limit int64, cancel context.CancelCauseFunc) *Recorder {
	return &Recorder{
		Headers:  make(http.Header, 8),
		Body:     buffer.Get(),
		limit:    limit,
		bodiless: method == http.MethodHead,
		cancel:   cancel,
	}
}

// Header returns the header of the answer.
func (r *Recorder) Header() http.Header {
	return r.Headers
}

// WriteHeader keeps the first final status. An answer that announces more bytes
// than the limit ends the call before any of them is read.
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
	if r.Stream = r.Streams.begin(r); r.Stream != nil {
		return
	}
	if length := r.Headers["Content-Length"]; len(length) == 1 {
		if n, err := strconv.ParseInt(length[0], 10, 64); err == nil && n > r.limit {
			r.declared = n
			r.exceed()
		}
	}
}

// Write appends to the answer.
func (r *Recorder) Write(p []byte) (int, error) {
	if err := r.accept(); err != nil {
		return 0, err
	}
	switch {
	case r.bodiless:
		return len(p), nil
	case r.Stream != nil:
		return r.writeStream(p)
	}
	if int64(len(r.Body.B))+int64(len(p)) > r.limit {
		r.exceed()
		return 0, errAnswerTooLarge
	}
	r.Body.B = append(r.Body.B, p...)
	return len(p), nil
}

// WriteString appends to the answer.
func (r *Recorder) WriteString(s string) (int, error) {
	if err := r.accept(); err != nil {
		return 0, err
	}
	switch {
	case r.bodiless:
		return len(s), nil
	case r.Stream != nil:
		return r.writeStream([]byte(s))
	}
	if int64(len(r.Body.B))+int64(len(s)) > r.limit {
		r.exceed()
		return 0, errAnswerTooLarge
	}
	r.Body.B = append(r.Body.B, s...)
	return len(s), nil
}

// ReadFrom appends all of source to the answer, reading straight into the
// buffer.
func (r *Recorder) ReadFrom(source io.Reader) (int64, error) {
	if err := r.accept(); err != nil {
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
		r.exceed()
		err = errAnswerTooLarge
	}
	if r.Body == nil {
		return 0, err
	}
	return int64(len(r.Body.B)) - before, err
}

// FlushError does nothing: there is no one to flush to before the end.
func (r *Recorder) FlushError() error {
	return nil
}

// accept writes the implied header, and refuses bytes that have nowhere to go.
func (r *Recorder) accept() error {
	if r.Status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	switch {
	case r.TooLarge:
		return errAnswerTooLarge
	case r.Broken != nil:
		return r.Broken
	case r.Body == nil:
		return errRecorded
	}
	return nil
}

// exceed ends the call and drops what was recorded of it.
func (r *Recorder) exceed() {
	r.TooLarge = true
	r.Drop()
	r.cancel(errAnswerTooLarge)
}

// Drop gives the buffers back.
func (r *Recorder) Drop() {
	if r.Stream != nil {
		r.Stream.Release()
		r.Stream = nil
	}
	buffer.Put(r.Body)
	r.Body = nil
}

// Reset makes place for another answer.
func (r *Recorder) Reset(method string) {
	r.Drop()
	clear(r.Headers)
	r.Body = buffer.Get()
	r.Status, r.declared, r.Exposed = 0, 0, ""
	r.bodiless, r.TooLarge, r.Broken = method == http.MethodHead, false, nil
}

// take hands the body over to whoever makes a Result of it, and leaves nothing
// that a late write could change.
func (r *Recorder) take() *buffer.Buffer {
	body := r.Body
	r.Body = nil
	return body
}

// SuppressEvents stops forwarding the events of a stream to the client. A response
// that has not passed its output check must not be shown.
func (r *Recorder) SuppressEvents() {
	if r.Streams.ctx != nil && ocp.ListenerFromContext(r.Streams.ctx) != nil {
		r.Streams.ctx = ocp.ContextWithListener(r.Streams.ctx, nil)
	}
}

// Discard drops a response that must not be released.
func (r *Recorder) Discard() {
	r.Drop()
	clear(r.Headers)
}
