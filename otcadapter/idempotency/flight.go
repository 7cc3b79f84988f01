package idempotency

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/fairwayhq/fairway/internal/keyedhash"
)

// Records ensures that each call runs once, in this process (flights) and on all nodes (the
// store). It is safe for concurrent use.
type Records struct {
	options  Options
	keys     *keyedhash.Keys
	retrying atomic.Int32 // responses that retryStore is trying to store

	mu      sync.Mutex
	flights map[string]*flight
}

// A flight is an execution that concurrent requests of this process share.
type flight struct {
	content keyedhash.Digest
	done    chan struct{} // closed when result is set
	result  result
}

// A result is what Records.Do returns.
type result struct {
	response Response
	outcome  Outcome
}

// New returns Records.
func New(options Options) *Records {
	options.setDefaults()
	return &Records{options: options, keys: keyedhash.NewKeys(options.Key), flights: make(map[string]*flight)}
}

// MaxResponse returns the largest response that is stored, in bytes.
func (r *Records) MaxResponse() int { return r.options.MaxResponse }

// Endpoint returns Options.Endpoint.
func (r *Records) Endpoint() string { return r.options.Endpoint }

// Do runs the call, or returns what an earlier request for the same call came to. A later
// request finds one of these:
//
//   - a stored response, which it gets
//   - a running call, for whose response it waits
//   - a record with other content: Conflict
//   - a record without a response: the response was too large, it repeated credentials, or the
//     node died and the effect of the call is unknown. The call runs again only if it is
//     idempotent.
func (r *Records) Do(ctx context.Context, call Call) (Response, Outcome) {
	st, err := r.options.Open(ctx)
	var key *keyedhash.Key
	if err == nil {
		key, err = r.keys.Current(ctx, st)
	}
	e := &execution{Records: r, store: st, call: call}
	if err != nil {
		result := e.runWithoutStore(ctx, err)
		return result.response, result.outcome
	}
	e.key, e.own.content = call.Identity(key)
	result := e.share(ctx)
	return result.response, result.outcome
}

// share returns the result of the call. Of concurrent requests for the same call, one executes
// it and the others wait.
func (e *execution) share(ctx context.Context) result {
	for ctx.Err() == nil {
		e.mu.Lock()
		f := e.flights[e.key]
		if f == nil {
			f = &flight{content: e.own.content, done: make(chan struct{})}
			e.flights[e.key] = f
			e.mu.Unlock()
			e.lead(ctx, f)
			return f.result
		}
		e.mu.Unlock()
		if f.content != e.own.content {
			return result{outcome: Conflict}
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return result{}
		}
		if shared, ok := e.adopt(f.result); ok {
			return shared
		}
	}
	return result{}
}

// lead executes the call and sets the flight's result.
func (e *execution) lead(ctx context.Context, f *flight) {
	defer func() {
		e.mu.Lock()
		delete(e.flights, e.key)
		e.mu.Unlock()
		close(f.done)
	}()
	f.result = e.execute(ctx)
}

// adopt returns another request's result as the result of this request. It returns false if this
// request has to start again: the other client disconnected, or its response cannot be converted
// and the call may run once more.
func (e *execution) adopt(other result) (result, bool) {
	switch other.outcome {
	case Canceled:
		return result{}, false
	case Ran, Replayed:
	default:
		return other, true
	}
	if other.response.Retryable && !e.call.HasForm(other.response.Body) {
		return result{}, false
	}
	body := e.call.Convert(other.response.Body)
	if body == nil {
		return result{}, false
	}
	other.response.Body, other.outcome = body, Replayed
	return other, true
}

// runWithoutStore handles a call if the store does not work. A call that is not idempotent is
// rejected, because it may have run before.
func (e *execution) runWithoutStore(ctx context.Context, err error) result {
	if ctx.Err() != nil {
		return result{}
	}
	e.options.Failed(err)
	if e.call.Idempotent() {
		return result{e.call.Run(ctx, 0), Ran}
	}
	return result{outcome: Unavailable}
}

// errClaimed aborts a change because another attempt has the record.
var errClaimed = errors.New("another attempt has the record of this call")
