package once

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/keyedhash"
	"github.com/fairwayhq/fairway/store/lease"
)

// Limits of an execution.
const (
	disconnectedTimeout  = time.Minute      // how long a call continues after its client disconnected
	storeTimeout         = 5 * time.Second  // for one operation of the store
	retryableResponseTTL = time.Minute      // how long waiting requests can find a response that allows another attempt
	putLaterTimeout      = 30 * time.Second // at most, and at most the lease: after that the call counts as dead
	maxRetrying          = 64               // attempts that may wait for the store at a time
)

// Records ensures that each call runs once, in this process (flights) and on all nodes (the
// store). It is safe for concurrent use.
type Records struct {
	options  Options
	keys     *keyedhash.Keys
	opened   atomic.Pointer[openStore] // nil until the first call
	retrying atomic.Int32              // attempts of later

	mu        sync.Mutex
	flights   map[string]*flight
	abandoned []string // tokens of claims
}

// An openStore is the store, with the terms of the leases in it.
type openStore struct {
	store.Store
	terms lease.Terms
}

// open returns the store, and opens it at the first call.
func (r *Records) open(ctx context.Context) (*openStore, error) {
	if opened := r.opened.Load(); opened != nil {
		return opened, nil
	}
	st, err := r.options.Open(ctx)
	if err != nil {
		return nil, err
	}
	process := lease.ProcessOf(st)
	opened := &openStore{st, lease.Terms{Duration: r.options.Lease, Node: process, Process: process, Failed: r.options.Failed}}
	r.opened.Store(opened)
	return opened, nil
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
	st, err := r.open(ctx)
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

// An execution is one request's way through the store: claim the record or find it claimed, run
// the call, and store the response.
type execution struct {
	*Records
	store *openStore
	call  Call
	key   string                      // of the record in the store
	own   record                      // what this request writes
	claim *lease.Claim[*store.Change] // nil if there is no record before the response

	flight flight       // if this request executes the call
	waited bool         // this request has waited for another one
	until  time.Time    // when it stops waiting; zero before, and without a limit
	found  *record      // because of which the call must not run, nil for none
	value  []byte       // encoded form of found
	latest record       // of the transaction in progress: claims have one at a time
	change store.Change // of latest
}

// share returns the result of the call. Of concurrent requests for the same call, one executes
// it and the others wait.
func (e *execution) share(ctx context.Context) result {
	for ctx.Err() == nil {
		e.mu.Lock()
		f := e.flights[e.key]
		if f == nil {
			f = &e.flight
			*f = flight{content: e.own.content, done: make(chan struct{})}
			e.flights[e.key] = f
			e.mu.Unlock()
			e.lead(ctx, f)
			return f.result
		}
		e.mu.Unlock()
		if f.content != e.own.content {
			return result{outcome: Conflict}
		}
		var late <-chan time.Time
		if e.limitWait(); !e.until.IsZero() {
			late = time.After(time.Until(e.until))
		}
		select {
		case <-f.done:
		case <-late:
			return result{outcome: InFlight}
		case <-ctx.Done():
			return result{}
		}
		if shared, ok := e.adopt(f.result); ok {
			return shared
		}
	}
	return result{}
}

// limitWait sets until, when this request begins to wait.
func (e *execution) limitWait() {
	if e.until.IsZero() && e.options.Wait > 0 {
		e.until = time.Now().Add(e.options.Wait)
	}
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
	noShare := errors.Is(err, store.ErrShare)
	if !noShare {
		e.options.Failed(err)
	}
	switch {
	case e.call.Idempotent():
		return result{e.call.Run(ctx, 0), Ran}
	case noShare:
		return result{outcome: NoShare}
	}
	return result{outcome: Unavailable}
}

// execute claims the record and runs the call. If another request has claimed the record, it
// waits for that one's response.
func (e *execution) execute(ctx context.Context) result {
	for ; ctx.Err() == nil; e.waited = true {
		err := e.begin(ctx)
		switch {
		case err != nil:
			return e.runWithoutStore(ctx, err)
		case e.found == nil:
			return e.run(ctx)
		case e.found.content != e.own.content:
			return result{outcome: Conflict}
		case e.found.state != stateBegun:
			return e.replay(e.found)
		case !e.store.terms.IsHeld(&e.found.lease):
			return result{outcome: Unfinished}
		case !e.until.IsZero() && !time.Now().Before(e.until):
			return result{outcome: InFlight}
		}
		end := e.found.lease.Until.Add(time.Millisecond)
		if e.limitWait(); !e.until.IsZero() && e.until.Before(end) {
			end = e.until
		}
		if _, _, err := lease.Wait(ctx, e.store, e.key, e.value, end); err != nil && !errors.Is(err, store.ErrNotFound) {
			return e.runWithoutStore(ctx, err)
		}
	}
	return result{}
}

// errClaimed aborts a change because another attempt has the record.
var errClaimed = errors.New("another attempt has the record of this call")

// begin creates the record of the call and claims it. If there is a record already, begin sets found.
//
// The record is durable before the call runs. Exception: if the call is idempotent and only this
// process uses the store, there is no record before the response, because the flight is
// sufficient.
func (e *execution) begin(ctx context.Context) error {
	if e.call.Idempotent() && e.store.Exclusive() {
		old, err := e.store.Get(ctx, e.key)
		if errors.Is(err, store.ErrNotFound) {
			e.found = nil
			return nil
		}
		if err == nil {
			e.found, err = e.inTheWay(old, e.waited)
		}
		e.value = old.Value
		return err
	}
	// If the change were canceled with its client, it would be unknown whether it was made.
	ctx, cancel := store.Detach(ctx, storeTimeout)
	defer cancel()
	err := e.store.Update(ctx, e.key, e.take)
	switch {
	case errors.Is(err, errClaimed):
		return nil
	case err == nil:
		e.claim = lease.Hold(&e.store.terms, e.transact, &e.own.lease)
	default:
		e.abandon(err)
	}
	return err
}

// take returns the record of the call with a lease. If there is a record already, it sets found.
func (e *execution) take(old store.Record) (store.Change, error) {
	var err error
	if e.found, err = e.inTheWay(old, e.waited); e.found != nil {
		err = errClaimed
	}
	if e.value = old.Value; err != nil {
		return store.Change{}, err
	}
	e.own.state, e.own.lease = stateBegun, lease.Lease{}
	e.store.terms.Take(&e.own.lease)
	return store.Change{Value: e.own.encode(), TTL: e.runningTTL(), Owner: e.call.Owner()}, nil
}

// inTheWay returns the record because of which the call must not run, or nil. A record that cannot be read is an error, because
// the call may have run.
func (e *execution) inTheWay(old store.Record, waited bool) (*record, error) {
	r, ok := decodeRecord(old.Value, &e.own.lease)
	if !ok && old.Value != nil {
		return nil, stored.Unreadable("otc_calls", e.key, stored.ErrUnreadable)
	}
	if !ok || e.mayReplace(&r, waited) {
		return nil, nil
	}
	found := r // r stays on the stack if it is not returned
	return &found, nil
}

// mayReplace reports whether the call may run although there is a record.
func (e *execution) mayReplace(r *record, waited bool) bool {
	sameAndIdempotent := e.call.Idempotent() && r.content == e.own.content
	switch {
	case r.state == stateBegun:
		return sameAndIdempotent && !e.store.terms.IsHeld(&r.lease) || e.isAbandoned(r.lease.Token)
	case r.retryable:
		// A request that waited for the response gets it, if the response was stored and has
		// the form that the request expects.
		return !waited || r.state == stateNotStored || !e.call.HasForm(r.body)
	}
	return sameAndIdempotent && r.state == stateNotStored
}

// runningTTL returns the lifetime of a record without a response. The record must not expire
// while its lease is valid, because another node would run the call too then.
func (e *execution) runningTTL() time.Duration {
	return max(e.options.TTL, e.options.Lease)
}

// transact implements lease.Transaction for the record of the claim. Without another change, it extends the lease. A
// record that the store has lost is written again.
func (e *execution) transact(ctx context.Context, change func(*store.Change, *lease.Lease) error) error {
	return e.store.Update(ctx, e.key, func(old store.Record) (store.Change, error) {
		e.change, e.latest = store.Change{}, e.own
		if old.Value != nil {
			e.latest, _ = decodeRecord(old.Value, &e.own.lease)
		}
		if err := change(&e.change, &e.latest.lease); err != nil {
			return store.Change{}, err
		}
		if e.change.Value == nil && !e.change.Delete {
			e.change = store.Change{Value: e.latest.encode(), TTL: e.runningTTL(), Async: true}
		}
		return e.change, nil
	})
}

// replay returns the result in a record.
func (e *execution) replay(r *record) result {
	if r.state == stateNotStored {
		switch notStoredReason(r.body) {
		case notStoredCredentials:
			return result{outcome: HadCredentials}
		case notStoredDropped:
			return result{outcome: Dropped}
		}
		return result{outcome: TooLarge}
	}
	if replayed, ok := e.adopt(result{Response{Status: r.status, Body: r.body}, Replayed}); ok {
		return replayed
	}
	return result{outcome: Unreadable}
}

// run runs the call and stores its response. It continues if the client disconnects, so that a
// client that returns finds the response.
func (e *execution) run(ctx context.Context) result {
	detached, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-time.After(disconnectedTimeout):
			cancel()
		case <-detached.Done():
		}
	})()
	response := e.runWithLease(detached)
	change := e.finished(&response)
	// The client gets the response when the record is durable, so that a crash right after it
	// does not lose the response. Calls that end together share one sync. A call that only reads
	// does not wait: after a crash it runs again.
	if err := e.put(detached, change); err != nil && (change.Tombstone != nil || !errors.Is(err, store.ErrShare)) {
		e.options.Failed(err)
		e.putLater(change)
	}
	return result{response, Ran}
}

// runWithLease runs the call and extends the lease of its record meanwhile.
func (e *execution) runWithLease(ctx context.Context) Response {
	if e.claim != nil {
		defer e.claim.Keep(ctx, nil)()
	}
	return e.call.Run(ctx, headerSize)
}

// finished returns the change that stores the response. The body of the response has room for the header of the
// record, which finished removes.
func (e *execution) finished(response *Response) store.Change {
	value := response.Body
	response.Body = value[headerSize:]
	r := record{state: stateDone, status: response.Status, retryable: response.Retryable, content: e.own.content}
	switch {
	case len(response.Body) > e.options.MaxResponse:
		r.state, value = stateNotStored, append(value[:headerSize:headerSize], notStoredTooLarge...)
	case response.HasCredentials:
		r.state, value = stateNotStored, append(value[:headerSize:headerSize], notStoredCredentials...)
	}
	r.writeHeader(value)
	change := store.Change{Value: value, TTL: e.options.TTL, Async: e.call.ReadOnly(), Evictable: true, Owner: e.call.Owner()}
	switch {
	case response.Retryable:
		change.TTL = min(change.TTL, retryableResponseTTL)
	case !e.call.Idempotent():
		change.Tombstone = r.tombstone()
	}
	return change
}

// put stores the response, unless another attempt has the record.
func (e *execution) put(ctx context.Context, change store.Change) (err error) {
	if e.claim != nil {
		err = e.claim.End(ctx, func(c *store.Change, _ *lease.Lease) error {
			*c = change
			return nil
		})
	} else {
		ctx, cancel := store.Detach(ctx, storeTimeout)
		defer cancel()
		err = e.store.Update(ctx, e.key, func(old store.Record) (store.Change, error) {
			if found, err := e.inTheWay(old, false); found != nil || err != nil {
				return store.Change{}, lease.ErrLost
			}
			return change, nil
		})
	}
	if errors.Is(err, lease.ErrLost) {
		return nil
	}
	return err
}

// putLater tries again to store a response, in the background. Without its response, a call
// that has run would be reported as unfinished. putLater gives up after putLaterTimeout.
func (e *execution) putLater(change store.Change) {
	e.later(min(putLaterTimeout, e.options.Lease), func(ctx context.Context) error { return e.put(ctx, change) })
}

// later repeats an attempt in the background until it succeeds or the time is over. If too many wait, it does nothing.
func (e *execution) later(limit time.Duration, attempt func(context.Context) error) {
	if e.retrying.Add(1) > maxRetrying {
		e.retrying.Add(-1)
		return
	}
	go func() {
		defer e.retrying.Add(-1)
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		_ = e.store.terms.Repeat(ctx, func() error { return attempt(ctx) }) // Repeat has reported its errors
	}()
}
