package ocp

import (
	"context"
	"net/http"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
)

// A Caller runs the tool calls of one incoming request. Protocol adapters call
// it; it decides nothing about how an outcome is put to the client.
type Caller interface {
	// Call runs the named tool. Arguments is a JSON object; empty or null
	// stands for {}. The caller must Release the outcome when done with it.
	Call(ctx context.Context, tool string, arguments []byte) Outcome
}

// An Invoker turns a Call into a Result: through the rest of a handler chain, or
// straight to an upstream.
type Invoker interface {
	// Invoke performs the call. Its errors are best a *Failure, which tells the
	// client more than an error of another type, of which it is only told that
	// the call failed.
	Invoke(ctx context.Context, call *Call) (*Result, error)
}

// A Result is the answer of the API.
type Result struct {
	Status int
	Header http.Header
	Body   []byte // decoded: never compressed

	// Exposed is what the agent that made the call exposes (OpenAgentSpec v1,
	// exposes): a JSON object in ASCII, "" if there is none. Its guard says so,
	// never the API.
	Exposed string

	// Buffer holds Body if it came from the pool; Release gives it back.
	Buffer *buffer.Buffer
}

// Release gives the body's buffer back to the pool.
func (r *Result) Release() {
	if r == nil || r.Buffer == nil {
		return
	}
	b := r.Buffer
	r.Buffer, r.Body = nil, nil
	buffer.Put(b)
}

// MediaType returns the answer's media type in lower case, without parameters;
// "" if it names none.
func (r *Result) MediaType() string {
	return mediaType(r.Header.Get("Content-Type"))
}

// An Outcome is how a call ended. Failure is nil exactly if it succeeded. A
// call that the API itself refused has both a Result and a Failure.
type Outcome struct {
	Tool     *Tool // nil if there is no such tool
	Result   *Result
	Failure  *Failure
	Duration time.Duration
}

// Release gives back what the outcome holds. Its Result must not be read after.
func (o Outcome) Release() {
	o.Result.Release()
}
