package ocp

import (
	"bytes"
	"context"
	"net/http"
	"time"
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

	// Memory is what Body belongs to if it is to be used again; nil leaves Body to the
	// garbage collector.
	Memory Releaser
}

// A Releaser is memory that can be used again.
type Releaser interface {
	Release()
}

// Release ends the use of the result: Body becomes nil, and what was sliced from it must
// not be used any more. Results of a Client need no Release. Release does nothing the
// second time.
func (r *Result) Release() {
	if r == nil || r.Memory == nil {
		return
	}
	memory := r.Memory
	r.Memory, r.Body = nil, nil
	memory.Release()
}

// owned returns the result with a body of its own, which needs no Release.
func (r *Result) owned() *Result {
	if r == nil || r.Memory == nil {
		return r
	}
	own := *r
	own.Memory, own.Body = nil, bytes.Clone(r.Body)
	r.Release()
	return &own
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
