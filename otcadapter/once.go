package otcadapter

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairwayhq/fairway/internal/store"
	"github.com/fairwayhq/fairway/ocp"
)

// Defaults of Idempotency, and fixed limits.
const (
	DefaultCallTTL   = 24 * time.Hour
	DefaultCallLease = 15 * time.Second
	DefaultMaxAnswer = 64 << 10  // bytes
	MaxAnswer        = 768 << 10 // bytes; limit of the store without the fields around it

	beatsInLease = 3               // heartbeats per lease
	abandonAfter = time.Minute     // how long a call continues after its client disconnected
	storeTimeout = 5 * time.Second // for one operation of the store
	againFor     = time.Minute     // how long waiting requests can find a response that is not stored
	retryStore   = time.Second     // Retry-After while the store does not work
)

// Idempotency configures how calls with a call_id are recorded (OTC 1.0, Tool Request Schema:
// call_id is an idempotency key).
type Idempotency struct {
	// Open returns the store. It is called for each call, so it must be fast once the store is
	// open. The store must stay open until the server has responded to its last request.
	Open func(context.Context) (store.Store, error)

	// Endpoint distinguishes this server's records from those of other servers in the store. It
	// must be the same on all nodes of a site.
	Endpoint string

	// TTL is how long a record is kept. The record of a running call is kept for at least
	// Lease. Default: DefaultCallTTL.
	TTL time.Duration

	// Lease is how long after its last heartbeat a call counts as dead, measured by the clocks
	// of the nodes. Default: DefaultCallLease.
	Lease time.Duration

	// MaxAnswer is the largest response that is stored, in bytes. It is at most the constant
	// MaxAnswer. Default: DefaultMaxAnswer.
	MaxAnswer int

	// Key is the key of the hashes in records. Default: a random key in the same store.
	Key []byte

	// Failed is called with errors of the store. Default: errors are ignored.
	Failed func(error)
}

// records ensures that a call with a call_id runs once, in this process (flights) and on all
// nodes (the store).
//
// The first request begins a record, which is durable before the API is called. It renews the
// record's lease while the call runs, and stores the response in it. Exception: if the method
// is idempotent and only this process uses the store, there is no record before the response,
// because the flight is sufficient.
//
// A later request with the same call_id finds one of these:
//
//   - a stored response, which it gets
//   - a running call, for whose response it waits
//   - a record with other content, so it is rejected
//   - a record without a response: the response was too large, it repeated credentials of the
//     call, or the node died and the effect of the call is unknown. The call runs again only if
//     it is idempotent.
type records struct {
	options Idempotency
	keys    hashKeys
	unkept  atomic.Int32 // responses that keepLater is trying to store

	mu      sync.Mutex
	flights map[string]*flight
}

// A flight is a call that this process runs or waits for.
type flight struct {
	content digest
	landed  chan struct{} // closed when answer is set
	answer  *kept         // nil if the client disconnected before the call ran
}

// newRecords returns records with the defaults of options that are not set.
func newRecords(options Idempotency) *records {
	if options.TTL <= 0 {
		options.TTL = DefaultCallTTL
	}
	if options.Lease <= 0 {
		options.Lease = DefaultCallLease
	}
	if options.MaxAnswer <= 0 {
		options.MaxAnswer = DefaultMaxAnswer
	}
	options.MaxAnswer = min(options.MaxAnswer, MaxAnswer)
	if options.Failed == nil {
		options.Failed = func(error) {}
	}
	p := &records{options: options, flights: make(map[string]*flight)}
	if len(options.Key) > 0 {
		p.keys.configured = newHashKey(options.Key)
	}
	return p
}

// serveOnce handles a call with a call_id from the client.
func (s *Server) serveOnce(ctx context.Context, w http.ResponseWriter, r *http.Request, c *call, user string) {
	p := s.records
	st, err := p.options.Open(ctx)
	var key *hashKey
	if err == nil {
		key, err = p.keys.key(ctx, st)
	}
	var answer *kept
	if err != nil {
		answer = p.without(ctx, c, err)
	} else {
		answer = p.once(ctx, st, c, recordKey(key, p.options.Endpoint, user, r, c), contentOf(key, user, r, c))
	}
	if answer == nil {
		return // the client has disconnected
	}
	if answer.replayed {
		ocp.RecordCall(c.caller, c.tool.Tool, ocp.OutcomeReplayed)
		w.Header().Set("Idempotent-Replayed", "true")
	}
	answer.write(w, answer.body)
}

// once returns the response to the call. It returns nil if the client has disconnected. Of
// concurrent requests for the same call, one leads the flight and the others wait for it.
func (p *records) once(ctx context.Context, st store.Store, c *call, key string, content digest) *kept {
	for ctx.Err() == nil {
		p.mu.Lock()
		f := p.flights[key]
		if f == nil {
			f = &flight{content: content, landed: make(chan struct{})}
			p.flights[key] = f
			p.mu.Unlock()
			p.lead(ctx, st, c, key, f)
			return f.answer
		}
		p.mu.Unlock()
		if f.content != content {
			return c.otherContent()
		}
		select {
		case <-f.landed:
		case <-ctx.Done():
			return nil
		}
		if f.answer != nil {
			if answer := c.again(f.answer); answer != nil {
				return answer
			}
		}
	}
	return nil
}

// lead determines the flight's response.
func (p *records) lead(ctx context.Context, st store.Store, c *call, key string, f *flight) {
	defer func() {
		p.mu.Lock()
		delete(p.flights, key)
		p.mu.Unlock()
		close(f.landed)
	}()
	mine := record{state: recordBegun, process: thisProcess, attempt: newNodeID(), content: f.content}
	for waited := false; ctx.Err() == nil; waited = true {
		found, value, err := p.begin(ctx, st, c, key, &mine, waited)
		switch {
		case err != nil:
			f.answer = p.without(ctx, c, err)
			return
		case found == nil:
			f.answer = p.run(ctx, st, c, key, mine)
			return
		case found.content != f.content:
			f.answer = c.otherContent()
			return
		case found.state != recordBegun:
			f.answer = c.replay(found)
			return
		case found.dead(st):
			f.answer = c.died()
			return
		}
		if err := p.await(ctx, st, key, value, found.until); err != nil {
			f.answer = p.without(ctx, c, err)
			return
		}
	}
}

// errTaken aborts a change because the call already has a record.
var errTaken = errors.New("the call has a record")

// begin creates the record of the call. If there is a record already, begin returns it and its
// encoded form.
func (p *records) begin(ctx context.Context, st store.Store, c *call, key string, mine *record, waited bool) (*record, []byte, error) {
	if c.tool.Idempotent() && embedded(st) {
		return p.look(ctx, st, c, key, mine.content, waited)
	}
	// If the change were canceled with its client, it would be unknown whether it was made.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	var found *record
	var value []byte
	err := st.Update(ctx, key, func(old store.Record) (store.Change, error) {
		found, value = nil, nil
		if r, ok := decodeRecord(old.Value); ok && !r.free(st, c, mine.content, waited) {
			found, value = &r, old.Value
			return store.Change{}, errTaken
		}
		mine.until = time.Now().Add(p.options.Lease)
		return store.Change{Value: mine.encode(), TTL: p.whileRunning()}, nil
	})
	if errors.Is(err, errTaken) {
		err = nil
	}
	return found, value, err
}

// whileRunning returns the lifetime of a record without a response. The record must not expire
// between two heartbeats, because another node would run the call too then.
func (p *records) whileRunning() time.Duration {
	return max(p.options.TTL, p.options.Lease)
}

// look is begin for an idempotent call if no other process uses the store. It creates no
// record.
func (p *records) look(ctx context.Context, st store.Store, c *call, key string, content digest, waited bool) (*record, []byte, error) {
	old, err := st.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if r, ok := decodeRecord(old.Value); ok && !r.free(st, c, content, waited) {
		return &r, old.Value, nil
	}
	return nil, nil, nil
}

// embedded reports whether this process is the only user of the store.
func embedded(st store.Store) bool {
	_, is := st.(*store.Bolt)
	return is
}

// free reports whether the call may replace the record.
func (r *record) free(st store.Store, c *call, content digest, waited bool) bool {
	harmless := c.tool.Idempotent() && r.content == content
	switch {
	case r.state == recordBegun:
		return harmless && r.dead(st)
	case r.again:
		// A request that waited for the response gets it, if the response was stored and has
		// the form of the endpoint.
		return !waited || r.state == recordUnkept || formOf(r.answer) != c.form
	}
	return harmless && r.state == recordUnkept
}

// dead reports whether the call of a begun record no longer runs.
func (r *record) dead(st store.Store) bool {
	if embedded(st) && r.process != thisProcess {
		return true
	}
	return time.Now().After(r.until)
}

// await returns when the record of a call on another node may have changed.
func (p *records) await(ctx context.Context, st store.Store, key string, seen []byte, until time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, until.Add(time.Millisecond))
	defer cancel()
	_, err := st.Wait(ctx, key, seen)
	if ctx.Err() != nil || time.Now().After(until) || errors.Is(err, store.ErrNotFound) {
		// A connection may report the timeout just before the context does.
		return nil
	}
	return err
}

// run runs the call and stores its response. It continues if the client disconnects, so that a
// client that returns finds the response.
func (p *records) run(ctx context.Context, st store.Store, c *call, key string, mine record) *kept {
	ctx, release := detach(ctx)
	defer release()
	stop := func() {}
	if !embedded(st) || !c.tool.Idempotent() {
		stop = p.prolong(ctx, st, key, mine)
	}
	c.maxRecorded = p.options.MaxAnswer
	var answer *kept
	value := make([]byte, atAnswer, atAnswer+1<<10)
	func() {
		defer stop() // stop before the response replaces the record
		var rep reply
		value, rep = c.run(ctx, value)
		answer = &kept{reply: rep, body: value[atAnswer:]}
	}()

	mine.state, mine.status, mine.again = recordDone, answer.status, answer.again
	ttl := p.options.TTL
	if answer.again {
		ttl = min(ttl, againFor)
	}
	unkept := func(reason unkeptReason) {
		mine.state, value = recordUnkept, append(value[:atAnswer:atAnswer], reason...)
	}
	switch {
	case len(answer.body) > p.options.MaxAnswer:
		unkept(unkeptLarge)
	case answer.secret:
		unkept(unkeptCredentials)
	}
	mine.put(value)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	// The client gets the response when the record is durable, so that a crash right
	// after it does not lose the response. Calls that end together share one sync. A call
	// that only reads does not wait: after a crash it runs again.
	change := store.Change{Value: value, TTL: ttl, Later: c.tool.ReadOnly(), Spare: true}
	if err := st.Put(ctx, key, change); err != nil {
		p.options.Failed(err)
		p.keepLater(st, key, mine.attempt, change)
	}
	return answer
}

// detach returns a context that outlives ctx by abandonAfter, or until release is called.
func detach(ctx context.Context) (detached context.Context, release func()) {
	detached, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(abandonAfter)
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

// prolong renews the lease of a call until stop is called.
func (p *records) prolong(ctx context.Context, st store.Store, key string, mine record) (stop func()) {
	ctx = context.WithoutCancel(ctx)
	every := p.options.Lease / beatsInLease
	var mu sync.Mutex
	var timer *time.Timer
	stopped := false
	beat := func() {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, min(every, storeTimeout))
		defer cancel()
		err := st.Update(ctx, key, func(old store.Record) (store.Change, error) {
			r, ok := decodeRecord(old.Value)
			if !ok || r.attempt != mine.attempt {
				return store.Change{}, errTaken
			}
			mine.until = time.Now().Add(p.options.Lease)
			return store.Change{Value: mine.encode(), TTL: p.whileRunning(), Later: true}, nil
		})
		if err != nil && !errors.Is(err, errTaken) {
			p.options.Failed(err)
		}
		timer.Reset(every)
	}
	mu.Lock()
	timer = time.AfterFunc(every, beat)
	mu.Unlock()
	return func() {
		timer.Stop()
		mu.Lock()
		stopped = true
		mu.Unlock()
	}
}

// without handles a call if the store does not work. A call that is not idempotent is rejected,
// because it may have run before.
func (p *records) without(ctx context.Context, c *call, err error) *kept {
	if ctx.Err() != nil {
		return nil
	}
	p.options.Failed(err)
	if c.tool.Idempotent() {
		body, rep := c.run(ctx, nil)
		return &kept{reply: rep, body: body}
	}
	return c.refuse(unavailable("calls with a call_id cannot be kept at the moment, so this one was not run", retryStore))
}
