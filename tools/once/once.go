// Package once runs a call once for each key, in one process and on all nodes that share a
// store.
//
// Records.Do handles a request for a call (records.go). The first request for a key claims the record
// (package lease): it writes a record with a lease to the store before the call runs, extends the
// lease while the call runs, and replaces the record with the response. Concurrent
// requests in this process share one execution. Requests on other nodes wait for the
// record to change. A later request finds the record and gets its response. If the store fails when a call ends, the
// response is stored in the background.
//
// A record is a fixed header and the body of the response (record.go). It contains no key, no
// arguments and no credentials in clear: both the name and the content of a call are keyed hashes
// (package keyedhash).
//
// Request (record.go) has the rules that all protocols share: which calls are the same, what is stored, and the key that the API gets.
// Packages otcadapter and mcpadapter implement the rest of Call, which depends on the form of their responses.
package once

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/keyedhash"
)

// Defaults of Options, and fixed limits.
const (
	DefaultTTL         = 24 * time.Hour
	DefaultLease       = 15 * time.Second
	defaultMaxResponse = 64 << 10  // bytes
	MaxResponse        = 768 << 10 // bytes; limit of the store without the fields around it

	// RetryAfter is how long clients should wait after Unavailable.
	RetryAfter = time.Second
)

// Options configures Records.
type Options struct {
	// Open returns the store. It is called until it succeeds once. The store must stay open until the
	// last call of Records.Do has returned. Required.
	Open func(context.Context) (store.Store, error)

	// Endpoint distinguishes the records of this endpoint from those of others in the store. It
	// must be the same on all nodes of a site. Default: "".
	Endpoint string

	// TTL is how long a record is kept. The record of a running call is kept for at least
	// Lease. Default: DefaultTTL.
	TTL time.Duration

	// Lease is how long after its last heartbeat a call counts as dead, measured by the clocks
	// of the nodes. Default: DefaultLease.
	Lease time.Duration

	// MaxResponse is the largest response that is stored, in bytes. It is at most the constant
	// MaxResponse. Default: defaultMaxResponse.
	MaxResponse int

	// Key is the key of the hashes in records. Default: a random key in the same store.
	Key []byte

	// Wait is how long a repeated call waits for the first one. Default: until it ends.
	Wait time.Duration

	// Failed is called with errors of the store. Default: errors are ignored.
	Failed func(error)
}

// setDefaults sets the options that are not set.
func (o *Options) setDefaults() {
	o.TTL = cmp.Or(max(o.TTL, 0), DefaultTTL)
	o.Lease = cmp.Or(max(o.Lease, 0), DefaultLease)
	o.MaxResponse = cmp.Or(max(o.MaxResponse, 0), defaultMaxResponse)
	o.MaxResponse = min(o.MaxResponse, MaxResponse)
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
}

// A Call is one request to run a call.
type Call interface {
	// Identity returns the key of the call's record in the store, and a hash of what two
	// requests must have in common to be the same call.
	Identity(key *keyedhash.Key) (record string, content keyedhash.Digest)

	// Idempotent reports whether the call may run twice.
	Idempotent() bool

	// ReadOnly reports whether the call changes nothing.
	ReadOnly() bool

	// Owner is whose share of the store the record takes.
	Owner() store.Owner

	// Run runs the call. Response.Body begins with as many bytes as reserved says, and the body follows.
	Run(ctx context.Context, reserved int) Response

	// HasForm reports whether the body of another request's response has the form that this
	// request expects.
	HasForm(body []byte) bool

	// Convert returns the body of another request's response in the form that this request
	// expects. It returns nil if that is not possible.
	Convert(body []byte) []byte
}

// A Response is the response to a call.
type Response struct {
	Status int
	Header http.Header // further headers, nil for none; they are not stored
	Body   []byte

	// Retryable says that the same call may run once more, because it had no effect or is
	// idempotent. Only requests that were waiting for the response get it.
	Retryable bool

	// HasCredentials says that the response repeats credentials of the call, so that it must
	// not be stored.
	HasCredentials bool
}

// An Outcome says what became of a request.
type Outcome int

// Outcomes. Only Ran and Replayed have a Response.
const (
	Canceled       Outcome = iota // the client disconnected before the call ran
	Ran                           // the call ran for this request
	Replayed                      // the Response is that of an earlier request
	Conflict                      // the key belongs to a call with other content
	Unfinished                    // an earlier request began the call; its node died, so the effect is unknown
	TooLarge                      // the call has run; its response was too large to be stored
	HadCredentials                // the call has run; its response had credentials and was not stored
	Dropped                       // the call has run; its stored response was dropped to make room in the store
	Unreadable                    // the call has run; its stored response cannot be converted
	Unavailable                   // the store does not work, so the call was not run
	NoShare                       // the owner's share of the store is used up, so the call was not run
	InFlight                      // an earlier request still runs the call
)
