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

// Defaults of Idempotency, and what is not for anybody to choose.
const (
	DefaultCallTTL   = 24 * time.Hour
	DefaultCallLease = 15 * time.Second
	DefaultMaxAnswer = 64 << 10  // bytes
	MaxAnswer        = 768 << 10 // bytes; what the store takes, less what stands around it

	beatsInLease = 3               // how often a lease is prolonged before it ends
	abandonAfter = time.Minute     // a call whose client has gone runs on
	storeTimeout = 5 * time.Second // for one word with the store
	againFor     = time.Minute     // how long who waited may find an answer that is not kept
	retryStore   = time.Second     // what a client is told to wait if the store does not work
)

// Idempotency says how calls with a call_id are kept (OTC 1.0, Tool Request
// Schema: call_id is an idempotency key).
type Idempotency struct {
	// Open returns the store. It is asked for each call, and so must be quick
	// once it is open. The store must not be closed before the server's last
	// request is answered.
	Open func(context.Context) (store.Store, error)

	// Endpoint tells this server's records from those of others in the store;
	// the nodes of one site have the same.
	Endpoint string

	// TTL is how long a record is kept; that of a call that runs, a Lease at
	// least. Default: DefaultCallTTL.
	TTL time.Duration

	// Lease is how long after its last sign of life a call counts as dead,
	// measured by the clocks of the nodes. Default: DefaultCallLease.
	Lease time.Duration

	// MaxAnswer is the largest answer that is kept, in bytes, at most the
	// constant of that name. Default: DefaultMaxAnswer.
	MaxAnswer int

	// Key hashes what records are found by and compared with. Default: a random
	// one that the store keeps, beside the records.
	Key []byte

	// Failed is told what the store could not do. Default: nobody is.
	Failed func(error)
}

// records make a call with a call_id run once, in this process (flights) and on
// all nodes (the store).
//
// Who comes first begins a record, which is durable before the API is called,
// prolongs it while the call runs, and puts the answer into it. What is idempotent
// by its method has no record before its answer where one process has the store
// for itself: the flight is enough. Who comes later finds the answer, waits for it,
// is refused as the content is another, or learns that there is no answer: it was
// too large, it repeated credentials of the call, or the node died with the call, so
// that nobody knows what became of it. Then only what does no harm twice is run again.
type records struct {
	options Idempotency
	keys    hashKeys
	unkept  atomic.Int32 // answers that keepLater tries to keep

	mu      sync.Mutex
	flights map[string]*flight
}

// A flight is a call that this process runs, or waits for.
type flight struct {
	content digest
	landed  chan struct{} // closed when answer is there
	answer  *kept         // nil if its client went away before it ran
}

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

// serveOnce answers a call that its client has named.
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
		return // the client is gone
	}
	if answer.replayed {
		ocp.RecordCall(c.caller, c.tool.Tool, ocp.OutcomeReplayed)
		w.Header().Set("Idempotent-Replayed", "true")
	}
	answer.write(w, answer.body)
}

// once returns the answer to the call, nil if its client has gone. Of those who
// ask at the same time one leads.
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

// lead finds the flight's answer.
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

// errTaken ends a change: the record is there already.
var errTaken = errors.New("the call has a record")

// begin makes the record of the call, or returns the one that there is, and its
// bytes.
func (p *records) begin(ctx context.Context, st store.Store, c *call, key string, mine *record, waited bool) (*record, []byte, error) {
	if c.tool.Idempotent() && embedded(st) {
		return p.look(ctx, st, c, key, mine.content, waited)
	}
	// A change that ends with its client may have been made or not.
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

// whileRunning is how long the record of a call lives that has no answer yet. It
// must not end between two signs of life, or another node would run the call too.
func (p *records) whileRunning() time.Duration {
	return max(p.options.TTL, p.options.Lease)
}

// look is begin for a call that may be run again if it dies, and of which no
// other process needs to know.
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

// embedded reports whether this process has the store for itself.
func embedded(st store.Store) bool {
	_, is := st.(*store.Bolt)
	return is
}

// free reports whether the call may take the place of the record.
func (r *record) free(st store.Store, c *call, content digest, waited bool) bool {
	harmless := c.tool.Idempotent() && r.content == content
	switch {
	case r.state == recordBegun:
		return harmless && r.dead(st)
	case r.again:
		// A request that waited for the answer gets it, if it was kept and has the form of
		// the endpoint.
		return !waited || r.state == recordUnkept || formOf(r.answer) != c.form
	}
	return harmless && r.state == recordUnkept
}

// dead reports whether nobody runs the call of a begun record any more.
func (r *record) dead(st store.Store) bool {
	if embedded(st) && r.process != thisProcess {
		return true
	}
	return time.Now().After(r.until)
}

// await returns when there may be something new about a call that another node
// runs.
func (p *records) await(ctx context.Context, st store.Store, key string, seen []byte, until time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, until.Add(time.Millisecond))
	defer cancel()
	_, err := st.Wait(ctx, key, seen)
	if ctx.Err() != nil || time.Now().After(until) || errors.Is(err, store.ErrNotFound) {
		// A connection may notice that the time is up just before the context does.
		return nil
	}
	return err
}

// run runs the call and keeps its answer. It runs on though the client goes
// away: a client that comes back finds the answer.
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
		defer stop() // before the answer is put over what it prolongs
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

// detach returns a context that outlives ctx by abandonAfter, but not release.
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

// prolong gives signs of life of a call until it is stopped.
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

// without answers a call that the store cannot keep. What does harm twice is
// refused: the client may have been here before.
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
