package caddymodule

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

// recorder is the http.ResponseWriter of one tool call. It keeps the final
// answer in a pooled buffer up to a limit and has no way to the client's
// connection: it neither hijacks nor unwraps. Of an answer that streams it keeps
// what the stream comes to.
type recorder struct {
	header   http.Header
	body     *buffer.Buffer
	limit    int64 // bytes
	status   int   // 0 until the final header is written
	bodiless bool  // nothing that is written belongs to the answer
	tooLarge bool
	declared int64                   // Content-Length, where that alone was over the limit
	cancel   context.CancelCauseFunc // ends the call
	refused  *ocp.Failure            // of a guard behind the endpoint; the response says the same
	exposed  string                  // by the agent of a guard behind: see ocp.Result
	outer    *http.Request           // the caller's own, to the endpoint; nil if it is not a tool call
	own      *ocp.Supplement         // what the gateway has put into the request for the toolset
	with     presented               // that and what else there is of the kind

	streams streams   // what is done with a stream; zero if that is an answer like others
	stream  *streamed // of an answer that streams
	broken  error     // why a stream was given up that is not too large
}

func newRecorder(method string, limit int64, cancel context.CancelCauseFunc) *recorder {
	return &recorder{
		header:   make(http.Header, 8),
		body:     buffer.Get(),
		limit:    limit,
		bodiless: method == http.MethodHead,
		cancel:   cancel,
	}
}

// Header returns the header of the answer.
func (r *recorder) Header() http.Header {
	return r.header
}

// WriteHeader keeps the first final status. An answer that announces more bytes
// than the limit ends the call before any of them is read.
func (r *recorder) WriteHeader(status int) {
	if r.status != 0 || status < http.StatusOK {
		return
	}
	r.status = status
	if status == http.StatusNoContent || status == http.StatusNotModified {
		r.bodiless = true
	}
	if r.bodiless {
		return
	}
	if r.stream = r.streams.begin(r); r.stream != nil {
		return
	}
	if length := r.header["Content-Length"]; len(length) == 1 {
		if n, err := strconv.ParseInt(length[0], 10, 64); err == nil && n > r.limit {
			r.declared = n
			r.exceed()
		}
	}
}

// Write appends to the answer.
func (r *recorder) Write(p []byte) (int, error) {
	if err := r.accept(); err != nil {
		return 0, err
	}
	switch {
	case r.bodiless:
		return len(p), nil
	case r.stream != nil:
		return r.writeStream(p)
	}
	if int64(len(r.body.B))+int64(len(p)) > r.limit {
		r.exceed()
		return 0, errAnswerTooLarge
	}
	r.body.B = append(r.body.B, p...)
	return len(p), nil
}

// WriteString appends to the answer.
func (r *recorder) WriteString(s string) (int, error) {
	if err := r.accept(); err != nil {
		return 0, err
	}
	switch {
	case r.bodiless:
		return len(s), nil
	case r.stream != nil:
		return r.writeStream([]byte(s))
	}
	if int64(len(r.body.B))+int64(len(s)) > r.limit {
		r.exceed()
		return 0, errAnswerTooLarge
	}
	r.body.B = append(r.body.B, s...)
	return len(s), nil
}

// ReadFrom appends all of source to the answer, reading straight into the
// buffer.
func (r *recorder) ReadFrom(source io.Reader) (int64, error) {
	if err := r.accept(); err != nil {
		return 0, err
	}
	switch {
	case r.bodiless:
		return io.Copy(io.Discard, source)
	case r.stream != nil:
		return r.readStream(source)
	}
	before := int64(len(r.body.B))
	err := r.body.ReadAll(source, r.limit)
	if errors.Is(err, buffer.ErrTooLarge) {
		r.exceed()
		err = errAnswerTooLarge
	}
	if r.body == nil {
		return 0, err
	}
	return int64(len(r.body.B)) - before, err
}

// FlushError does nothing: there is no one to flush to before the end.
func (r *recorder) FlushError() error {
	return nil
}

// accept writes the implied header, and refuses bytes that have nowhere to go.
func (r *recorder) accept() error {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	switch {
	case r.tooLarge:
		return errAnswerTooLarge
	case r.broken != nil:
		return r.broken
	case r.body == nil:
		return errRecorded
	}
	return nil
}

// exceed ends the call and drops what was recorded of it.
func (r *recorder) exceed() {
	r.tooLarge = true
	r.drop()
	r.cancel(errAnswerTooLarge)
}

// drop gives the buffers back.
func (r *recorder) drop() {
	if r.stream != nil {
		r.stream.Release()
		r.stream = nil
	}
	buffer.Put(r.body)
	r.body = nil
}

// reset makes place for another answer.
func (r *recorder) reset(method string) {
	r.drop()
	clear(r.header)
	r.body = buffer.Get()
	r.status, r.declared, r.exposed = 0, 0, ""
	r.bodiless, r.tooLarge, r.broken = method == http.MethodHead, false, nil
}

// take hands the body over to whoever makes a Result of it, and leaves nothing
// that a late write could change.
func (r *recorder) take() *buffer.Buffer {
	body := r.body
	r.body = nil
	return body
}

// suppressEvents stops forwarding the events of a stream to the client. A response
// that has not passed its output check must not be shown.
func (r *recorder) suppressEvents() {
	if r.streams.ctx != nil && ocp.ListenerFromContext(r.streams.ctx) != nil {
		r.streams.ctx = ocp.ContextWithListener(r.streams.ctx, nil)
	}
}

// discard drops a response that must not be released.
func (r *recorder) discard() {
	r.drop()
	clear(r.header)
}
