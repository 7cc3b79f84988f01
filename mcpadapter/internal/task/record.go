// Package task keeps the tasks of an MCP server: calls of tools that outlast the request that made
// them. A task is a record in the store that all nodes share, so that every node can be asked for its
// state and its result, even after a restart.
//
//   - Record is a task, and what a node needs to go on with its call (record.go).
//   - Tasks creates, reads and changes records. Only the owner of a task finds it (tasks.go).
//   - AppendTask writes a task as the revisions of MCP define it (encode.go).
//
// MCP has tasks in two forms: the experimental ones of 2025-11-25, and the extension
// io.modelcontextprotocol/tasks of 2026-07-28 (SEP-2663).
package task

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

// status is the state of a task.
type status string

// The states of a task. The last three are final.
const (
	Working       status = "working"
	InputRequired status = "input_required"
	Completed     status = "completed"
	Failed        status = "failed" // by a JSON-RPC error
	Cancelled     status = "cancelled"
)

// Final reports whether a task stays in this state.
func (s status) Final() bool { return s == Completed || s == Failed || s == Cancelled }

// A Record is a task. It holds no credentials: what continues a call uses those of the request that
// asks for the task.
type Record struct {
	ID       string    `json:"id"`
	Revision string    `json:"revision"` // of MCP, in which Result is written
	Status   status    `json:"status"`
	Message  string    `json:"message,omitempty"`
	Created  time.Time `json:"created"`
	Updated  time.Time `json:"updated"`
	Expires  time.Time `json:"expires"`

	// The call.
	Tool       string         `json:"tool"`
	Arguments  string         `json:"arguments,omitempty"`  // sealed
	Meta       jsontext.Value `json:"meta,omitempty"`       // _meta of the client's request
	Client     uint16         `json:"client,omitempty"`     // capabilities that the client has declared
	Repeatable bool           `json:"repeatable,omitempty"` // the call can be made twice
	Trace      string         `json:"trace,omitempty"`      // trace context of the call's span; see calltrace.Parent

	// How the call goes on.
	Handle string      `json:"handle,omitempty"` // of tools.Pending
	Lease  lease.Lease `json:"lease,omitzero"`   // of the attempt that runs; without one, says when to ask again

	Inputs

	// The outcome.
	Result  jsontext.Value `json:"result,omitempty"`   // members of the result, an object
	Error   jsontext.Value `json:"error,omitempty"`    // JSON-RPC error
	IsError bool           `json:"is_error,omitempty"` // Result has isError
}

// Inputs are what the client must supply, and has supplied (InputRequired).
type Inputs struct {
	Round     int            `json:"round,omitempty"`
	Requests  jsontext.Value `json:"requests,omitempty"`  // not yet responded to
	Responses jsontext.Value `json:"responses,omitempty"` // by the keys of the API
	State     string         `json:"state,omitempty"`     // sealed requestState
}

// Limits of a record, in bytes. Together they are less than store.DefaultMaxValue.
const (
	MaxResult    = 640 << 10
	MaxArguments = 64 << 10
	maxRequests  = 64 << 10
	maxResponses = 64 << 10
	maxMeta      = 16 << 10
	maxState     = 96 << 10
)

// ErrTooLarge means that a call does not fit into a record.
var ErrTooLarge = fmt.Errorf("the call is larger than a task may be: %w", store.ErrTooLarge)

// check returns an error if the record exceeds a limit.
func (r *Record) check() error {
	if len(r.Arguments) > 2*MaxArguments || len(r.Requests) > maxRequests || len(r.Responses) > maxResponses ||
		len(r.Meta) > maxMeta || len(r.State) > maxState || len(r.Result) > MaxResult {
		return ErrTooLarge
	}
	return nil
}

// CanRepeat reports whether an attempt can be made again if it is unknown what came of it: the call is
// idempotent, or the attempt only asked for the outcome.
func (r *Record) CanRepeat() bool { return r.Repeatable || r.Handle != "" }

// End sets a final state.
func (r *Record) End(s status, message string) {
	r.Status, r.Message = s, message
	r.Lease.Clear()
	r.Arguments, r.Meta, r.Requests, r.Responses, r.State = "", nil, nil, nil, ""
}

// Due returns when someone who waits for the task should look again, even if the record does not
// change.
func (r *Record) Due() time.Time {
	if !r.Lease.Until.IsZero() {
		return r.Lease.Until
	}
	return r.Expires
}
