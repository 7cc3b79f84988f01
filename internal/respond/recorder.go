package respond

import (
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/fairwayhq/fairway/internal/buffer"
)

// Errors of writes to a Recorder.
var (
	errTooLarge = errors.New("the response exceeds the limit of what is held")
	ErrEnded    = errors.New("the response is no longer recorded")
)

// policy decides what a Recorder does with a response. It usually has the Recorder as a field.
type policy interface {
	// Begin is called once, when the status and the header are complete. The Recorder holds the body unless
	// Begin calls SendTo.
	Begin()

	// Overflow is called when the body that is held would exceed the limit. Declared is the Content-Length if
	// that shows it, else 0. Overflow calls SendTo and returns nil, or it returns the error of all further
	// writes; the body is discarded then.
	Overflow(declared int64) error
}

// Recorder is an http.ResponseWriter that holds a response up to a limit. Its Policy may release the response
// earlier, or read it as it is written. Without a Policy, a Recorder keeps the first bytes of a response that exceeds the limit,
// and further writes fail. It cannot reach the connection of a client: it supports neither Hijack nor Unwrap.
type Recorder struct {
	Headers  http.Header
	Status   int            // 0 until the final header is written
	Body     *buffer.Buffer // what is held; nil if nothing is
	Size     int64          // bytes that were written, held or not
	Limit    int64          // bytes that are held
	NoBody   bool           // the response has no body: unless it is sent, writes are ignored
	TooLarge bool           // the response was discarded because it exceeds the limit
	holds    bool           // writes are appended to Body
	Err      error          // why writes fail; nil while they do not
	Policy   policy         // nil to keep what fits
	sink     io.Writer      // gets what is written; nil if it is only held
}

// NewRecorder returns a Recorder without a Policy. Its header is empty.
func NewRecorder(limit int64) *Recorder {
	r := &Recorder{Headers: make(http.Header), Limit: limit}
	r.Hold()
	return r
}

// Hold holds what is written from now on. It discards what is held, and does not change the header and the status.
func (r *Recorder) Hold() {
	r.Release()
	r.Body, r.holds, r.sink, r.TooLarge, r.Err = buffer.Get(), true, nil, false, nil
}

// Holds reports whether the whole response is held, and none of it was sent.
func (r *Recorder) Holds() bool { return r.holds && r.sink == nil }

// Sends reports whether writes go to a writer.
func (r *Recorder) Sends() bool { return r.sink != nil }

// SendTo passes further writes to a writer, nil for none. With keep, they are also held, if all before were.
func (r *Recorder) SendTo(sink io.Writer, keep bool) { r.sink, r.holds = sink, r.holds && keep }

// Fail discards the response. Further writes return the error.
func (r *Recorder) Fail(err error) {
	r.Err = err
	r.Release()
}

// Release returns the buffer to the pool.
func (r *Recorder) Release() {
	buffer.Put(r.TakeBody())
}

// TakeBody transfers ownership of what is held to the caller, and ends the recording, so that a late write cannot
// change it.
func (r *Recorder) TakeBody() *buffer.Buffer {
	body := r.Body
	r.Body, r.holds, r.sink = nil, false, nil
	return body
}

// Header implements http.ResponseWriter.
func (r *Recorder) Header() http.Header { return r.Headers }

// WriteHeader records the first final status, and calls Policy.Begin.
func (r *Recorder) WriteHeader(status int) {
	if r.Status != 0 || status < http.StatusOK {
		return
	}
	r.Status = status
	r.NoBody = r.NoBody || status == http.StatusNoContent || status == http.StatusNotModified
	if r.Policy != nil {
		r.Policy.Begin()
	}
	length := r.Headers["Content-Length"]
	if len(length) != 1 || r.NoBody || !r.holds {
		return
	}
	if n, err := strconv.ParseInt(length[0], 10, 64); err == nil && n > r.Limit {
		_ = r.overflow(n) // the next write returns the error
	} else if err == nil && n >= 0 {
		r.Body.Grow(int(n) + 1) // one more, to read the end without growing
	}
}

// overflow asks the policy what to do with a response above the limit.
func (r *Recorder) overflow(declared int64) error {
	if r.Policy == nil {
		return nil
	}
	err := r.Policy.Overflow(declared)
	if err != nil {
		r.TooLarge = true
		r.Fail(err)
	}
	return err
}

// begin writes the implied header. It returns an error if the response no longer takes bytes.
func (r *Recorder) begin() error {
	if r.Status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if r.Err == nil && r.Body == nil && r.sink == nil && !r.NoBody {
		return ErrEnded
	}
	return r.Err
}

// Write appends to the response.
func (r *Recorder) Write(p []byte) (int, error) {
	if err := r.begin(); err != nil {
		return 0, err
	}
	r.Size += int64(len(p))
	if r.holds && !r.NoBody {
		room := r.Limit - int64(len(r.Body.B))
		switch {
		case int64(len(p)) <= room:
			_, _ = r.Body.Write(p) // never fails
		case r.Policy == nil:
			r.Body.B = append(r.Body.B, p[:room]...)
			return int(room), errTooLarge
		default:
			if err := r.overflow(0); err != nil {
				return 0, err
			}
		}
	}
	if r.sink != nil {
		return r.sink.Write(p)
	}
	return len(p), nil
}

// ReadFrom appends all of source to the response, each piece as soon as it arrives.
func (r *Recorder) ReadFrom(source io.Reader) (int64, error) {
	if err := r.begin(); err != nil {
		return 0, err
	}
	if direct, ok := r.sink.(io.ReaderFrom); ok && !r.holds {
		n, err := direct.ReadFrom(source)
		r.Size += n
		return n, err
	}
	chunk := buffer.Get()
	defer buffer.Put(chunk)
	return io.CopyBuffer(struct{ io.Writer }{r}, struct{ io.Reader }{source}, chunk.B[:cap(chunk.B)])
}

// FlushError flushes the writer that the response is sent to. What is held stays so.
func (r *Recorder) FlushError() error {
	if w, ok := r.sink.(http.ResponseWriter); ok {
		return http.NewResponseController(w).Flush()
	}
	return nil
}
