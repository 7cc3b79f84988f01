package idempotency

import (
	"context"
	"errors"
	"time"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
)

// An execution is one request's way through the store: claim the record or find it claimed, run
// the call, and store the response.
type execution struct {
	*Records
	store store.Store
	call  Call
	key   string // of the record in the store
	own   record // what this request writes
}

// execute claims the record and runs the call. If another request has claimed the record, it
// waits for that one's response.
//
// The record is durable before the call runs. Exception: if the call is idempotent and only this
// process uses the store, there is no record before the response, because the flight is
// sufficient.
func (e *execution) execute(ctx context.Context) result {
	e.own.state, e.own.process, e.own.attempt = stateBegun, thisProcess, newNodeID()
	for waited := false; ctx.Err() == nil; waited = true {
		found, value, err := e.claim(ctx, waited)
		switch {
		case err != nil:
			return e.runWithoutStore(ctx, err)
		case found == nil:
			return e.run(ctx)
		case found.content != e.own.content:
			return result{outcome: Conflict}
		case found.state != stateBegun:
			return e.replay(found)
		case found.isDead(e.store):
			return result{outcome: Unfinished}
		}
		if err := e.awaitChange(ctx, value, found.leaseEnd); err != nil {
			return e.runWithoutStore(ctx, err)
		}
	}
	return result{}
}

// claim creates the record of the call. If there is a record already, claim returns it and its
// encoded form. Waited says that this request has waited for another one.
func (e *execution) claim(ctx context.Context, waited bool) (*record, []byte, error) {
	if e.call.Idempotent() && isEmbedded(e.store) {
		return e.lookUp(ctx, waited)
	}
	// If the change were canceled with its client, it would be unknown whether it was made.
	ctx, cancel := store.Detach(ctx, storeTimeout)
	defer cancel()
	var found *record
	var value []byte
	err := e.store.Update(ctx, e.key, func(old store.Record) (store.Change, error) {
		found, value = nil, nil
		if r, ok := decodeRecord(old.Value); ok && !e.mayReplace(&r, waited) {
			found, value = &r, old.Value
			return store.Change{}, errClaimed
		}
		e.own.leaseEnd = time.Now().Add(e.options.Lease)
		return store.Change{Value: e.own.encode(), TTL: e.runningTTL()}, nil
	})
	if errors.Is(err, errClaimed) {
		err = nil
	}
	return found, value, err
}

// lookUp is claim for an idempotent call if no other process uses the store. It creates no
// record.
func (e *execution) lookUp(ctx context.Context, waited bool) (*record, []byte, error) {
	old, err := e.store.Get(ctx, e.key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if r, ok := decodeRecord(old.Value); ok && !e.mayReplace(&r, waited) {
		return &r, old.Value, nil
	}
	return nil, nil, nil
}

// runningTTL returns the lifetime of a record without a response. The record must not expire
// between two heartbeats, because another node would run the call too then.
func (r *Records) runningTTL() time.Duration {
	return max(r.options.TTL, r.options.Lease)
}

// isEmbedded reports whether this process is the only user of the store.
func isEmbedded(st store.Store) bool {
	_, is := st.(*embedded.Store)
	return is
}

// mayReplace reports whether the call may run although there is a record.
func (e *execution) mayReplace(r *record, waited bool) bool {
	sameAndIdempotent := e.call.Idempotent() && r.content == e.own.content
	switch {
	case r.state == stateBegun:
		return sameAndIdempotent && r.isDead(e.store)
	case r.retryable:
		// A request that waited for the response gets it, if the response was stored and has
		// the form that the request expects.
		return !waited || r.state == stateNotStored || !e.call.HasForm(r.body)
	}
	return sameAndIdempotent && r.state == stateNotStored
}

// isDead reports whether the call of a begun record no longer runs.
func (r *record) isDead(st store.Store) bool {
	if isEmbedded(st) && r.process != thisProcess {
		return true
	}
	return time.Now().After(r.leaseEnd)
}

// awaitChange returns when the record of a call on another node may have changed.
func (e *execution) awaitChange(ctx context.Context, seen []byte, leaseEnd time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, leaseEnd.Add(time.Millisecond))
	defer cancel()
	_, err := e.store.Wait(ctx, e.key, seen)
	if ctx.Err() != nil || time.Now().After(leaseEnd) || errors.Is(err, store.ErrNotFound) {
		// A connection may report the timeout just before the context does.
		return nil
	}
	return err
}

// replay returns the result in a record.
func (e *execution) replay(r *record) result {
	if r.state == stateNotStored {
		if notStoredReason(r.body) == notStoredCredentials {
			return result{outcome: HadCredentials}
		}
		return result{outcome: TooLarge}
	}
	if stored, ok := e.adopt(result{Response{Status: r.status, Body: r.body}, Replayed}); ok {
		return stored
	}
	return result{outcome: Unreadable}
}

// run runs the call and stores its response. It continues if the client disconnects, so that a
// client that returns finds the response.
func (e *execution) run(ctx context.Context) result {
	ctx, release := detach(ctx)
	defer release()
	value, response := e.runWithLease(ctx)
	e.own.state, e.own.status, e.own.retryable = stateDone, response.Status, response.Retryable
	ttl := e.options.TTL
	if response.Retryable {
		ttl = min(ttl, retryableResponseTTL)
	}
	reason, stored := notStoredReason(""), true
	switch {
	case len(response.Body) > e.options.MaxResponse:
		reason, stored = notStoredTooLarge, false
	case response.HasCredentials:
		reason, stored = notStoredCredentials, false
	}
	if !stored {
		e.own.state, value = stateNotStored, append(value[:headerSize:headerSize], reason...)
	}
	e.own.writeHeader(value)
	ctx, cancel := store.Detach(ctx, storeTimeout)
	defer cancel()
	// The client gets the response when the record is durable, so that a crash right after it
	// does not lose the response. Calls that end together share one sync. A call that only reads
	// does not wait: after a crash it runs again.
	change := store.Change{Value: value, TTL: ttl, Async: e.call.ReadOnly(), Evictable: true}
	if err := e.store.Put(ctx, e.key, change); err != nil {
		e.options.Failed(err)
		e.retryStore(e.store, e.key, e.own.attempt, change)
	}
	return result{response, Ran}
}

// runWithLease runs the call and renews the lease of its record meanwhile. Value is a record
// whose header is not written yet, followed by the body of the response.
func (e *execution) runWithLease(ctx context.Context) (value []byte, response Response) {
	if !isEmbedded(e.store) || !e.call.Idempotent() {
		l := e.startLease(ctx)
		defer l.stop() // before the response replaces the record
	}
	response = e.call.Run(ctx, headerSize)
	value = response.Body
	response.Body = value[headerSize:]
	return value, response
}

// detach returns a context that outlives ctx by disconnectedTimeout, or until release is called.
func detach(ctx context.Context) (detached context.Context, release func()) {
	detached, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(disconnectedTimeout)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-detached.Done():
		}
	})
	return detached, func() {
		stop()
		cancel()
	}
}
