package tool

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/fairwayhq/fairway/internal/mediatype"
)

// A Caller runs the tool calls of one incoming request. Protocol adapters use it and
// decide themselves how to present an outcome to the client.
type Caller interface {
	// Call runs the named tool. Arguments is a JSON object; empty or null means {}.
	// Release the outcome after use.
	Call(ctx context.Context, tool string, arguments []byte) Outcome
}

// An Invoker performs a Call and returns its Result. It sends the request through the rest
// of a handler chain or directly to an upstream.
type Invoker interface {
	// Invoke performs the call. Its errors should be of type *Failure, because for any
	// other error the client learns only that the call failed.
	Invoke(ctx context.Context, call *Call) (*Result, error)
}

// A Result is the response of the API.
type Result struct {
	Status int
	Header http.Header
	Body   []byte // decoded: never compressed

	// Exposed is what the agent that made the call exposes (OpenAgentSpec v1, exposes): a
	// JSON object in ASCII, or "" if there is none. The agent's guard sets it, never the
	// API.
	Exposed string

	// Memory is the reusable memory that Body belongs to. If it is nil, the garbage
	// collector frees Body.
	Memory Releaser
}

// A Releaser is memory that can be reused.
type Releaser interface {
	Release()
}

// Release ends the use of the result. Body becomes nil, and slices of it must no longer be
// used. Results of a Client need no Release. Further calls of Release do nothing.
func (r *Result) Release() {
	if r == nil || r.Memory == nil {
		return
	}
	memory := r.Memory
	r.Memory, r.Body = nil, nil
	memory.Release()
}

// Owned returns the result with a copy of the body that needs no Release.
func (r *Result) Owned() *Result {
	if r == nil || r.Memory == nil {
		return r
	}
	own := *r
	own.Memory, own.Body = nil, bytes.Clone(r.Body)
	r.Release()
	return &own
}

// MediaType returns the response's media type in lower case, without parameters, or "" if
// it has none.
func (r *Result) MediaType() string {
	return mediatype.Base(r.Header.Get("Content-Type"))
}

// An Outcome is how a call ended. Failure is nil exactly if the call succeeded. If the API
// responded with an error, the outcome has both a Result and a Failure.
type Outcome struct {
	Tool     *Tool // nil if there is no such tool
	Result   *Result
	Failure  *Failure
	Duration time.Duration
}

// Release releases the result. Its Result must not be used afterwards.
func (o Outcome) Release() {
	o.Result.Release()
}
