package engagement

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/store"
)

// record is the in-memory copy of one Engagement: the last known state, and the part of the log that
// expressions needed. The store is authoritative. Each change begins with resolve, which compares the
// copy with the store. Several records of the same Engagement may exist.
type record struct {
	key     string        // in the store
	loading chan struct{} // held by the goroutine that reads the log

	mu      sync.Mutex
	value   []byte // the value in the store; nil if unknown
	state   *State // decoded value
	length  int64  // length of the log at that value
	next    *Tx    // the change being written, until the store confirms it
	latest  map[string]*latestCall
	history *history // nil until an expression needs it
	size    int      // approximate number of bytes that the record holds
}

// latestCall is the latest call of a name.
type latestCall struct {
	Payloads
	begun, done int64 // as in CallSummary
}

// history contains all calls.
type history struct {
	applied int64                // number of log entries that are included
	list    []int32              // indexes into state.Names
	calls   map[string]*callList // only for the names that expressions read
}

// callList contains all calls of one name.
type callList struct{ all []*Payloads }

// errNoRecord means that the store has no such Engagement.
var errNoRecord = errors.New("the Engagement no longer exists")

// resolve updates the record from the store and returns its state. The state is nil if the
// Engagement does not exist yet.
func (r *record) resolve(old store.Record) (*State, error) {
	switch {
	case old.Value == nil:
		r.forget()
		return nil, nil
	case r.value != nil && bytes.Equal(old.Value, r.value):
		r.next = nil
		return r.state, nil
	case r.next != nil && bytes.Equal(old.Value, r.next.value):
		r.adopt()
		return r.state, nil
	}
	s, err := decodeState(r.key, old.Value)
	if err != nil {
		return nil, err
	}
	if r.state == nil || r.state.Born != s.Born || old.Length < r.length {
		r.forget()
	}
	r.value, r.state, r.length, r.next = old.Value, s, old.Length, nil
	return s, nil
}

// forget resets the record.
func (r *record) forget() {
	r.value, r.state, r.length, r.next = nil, nil, 0, nil
	r.latest, r.history, r.size = nil, nil, 0
}

// adopt applies the change after the store has confirmed it.
func (r *record) adopt() {
	next := r.next
	first := r.length
	if r.state != nil && r.state.Born != next.State.Born { // the Engagement was renewed in the same record
		r.latest, r.history, r.size = nil, nil, 0
	}
	r.value, r.state, r.length, r.next = next.value, next.State, first+int64(len(next.entries)), nil
	for i := range next.entries {
		r.applyLatest(&next.entries[i], first+int64(i))
	}
	if h := r.history; h != nil && h.applied == first {
		for i := range next.entries {
			r.applyHistory(&next.entries[i])
		}
	}
}

// applyLatest updates the latest calls from an entry at that position of the log.
func (r *record) applyLatest(e *Entry, at int64) {
	if e.Event != EntryBegun && e.Event != EntryFinished && e.Event != EntryReleased {
		return
	}
	if r.latest == nil {
		r.latest = make(map[string]*latestCall)
	}
	call := r.latest[e.Name]
	i := r.state.Find(e.Name)
	if i < 0 {
		return
	}
	n := &r.state.Names[i]
	switch {
	case e.Event == EntryBegun && n.Begun == at:
		if call != nil {
			r.size -= call.size()
		}
		call = &latestCall{Payloads: Payloads{Inputs: e.Inputs}, begun: at}
		r.latest[e.Name] = call
		r.size += call.size()
	case e.Event != EntryBegun && n.Done == at && call != nil && call.begun == n.Begun:
		call.Outputs, call.done = e.Outputs, at
		r.size += len(e.Outputs)
	}
}

// applyHistory updates the history from the next entry of the log.
func (r *record) applyHistory(e *Entry) {
	h := r.history
	h.applied++
	switch e.Event {
	case EntryBegun:
		h.list = append(h.list, int32(r.state.Find(e.Name))) //nolint:gosec // at most maxNames
		r.size += 4
		if calls := h.calls[e.Name]; calls != nil {
			call := &Payloads{Inputs: e.Inputs}
			calls.all = append(calls.all, call)
			r.size += call.size()
		}
	case EntryFinished, EntryReleased:
		calls := h.calls[e.Name]
		if calls != nil && e.Nth > 0 && e.Nth <= int64(len(calls.all)) {
			calls.all[e.Nth-1].Outputs = e.Outputs
			r.size += len(e.Outputs)
		}
	}
}

const callOverhead = 256 // bytes, including the parts of the entries that its payloads point into

func (c *Payloads) size() int { return callOverhead + len(c.Inputs) + len(c.Outputs) }

// engagement returns the key of the Engagement.
func (r *record) engagement() string { return r.key[len(keyPrefix):] }

func newRecord(engagement string) *record {
	return &record{key: keyPrefix + engagement, loading: make(chan struct{}, 1)}
}

// Payloads are the inputs and outputs of a call, as JSON; nil is null.
type Payloads struct{ Inputs, Outputs jsontext.Value }

// cache is an LRU cache of records, limited by size.
type cache struct {
	limit int // bytes

	mu      sync.Mutex
	records map[string]*list.Element
	order   *list.List // of *cached, most recently used first
	bytes   int
}

type cached struct {
	record *record
	bytes  int
}

// recordOverhead is the approximate memory use of a record without inputs and outputs, in bytes.
const recordOverhead = 4096

func newCache(limit int) *cache {
	return &cache{limit: limit, records: make(map[string]*list.Element), order: list.New()}
}

// get returns the record of the Engagement with that key.
func (c *cache) get(key string) *record {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.records[key]; found != nil {
		c.order.MoveToFront(found)
		return found.Value.(*cached).record
	}
	r := newRecord(key)
	c.records[key] = c.order.PushFront(&cached{record: r})
	return r
}

// resize updates the size of the record and evicts others if the cache is too large. It never evicts
// the most recently used record.
func (c *cache) resize(r *record) {
	r.mu.Lock()
	size := r.size + len(r.value) + recordOverhead
	r.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.records[r.engagement()]
	if found == nil || found.Value.(*cached).record != r {
		return
	}
	entry := found.Value.(*cached)
	c.bytes += size - entry.bytes
	entry.bytes = size
	for c.bytes > c.limit && c.order.Len() > 1 {
		last := c.order.Back()
		evicted := last.Value.(*cached)
		c.bytes -= evicted.bytes
		c.order.Remove(last)
		delete(c.records, evicted.record.engagement())
	}
}

// Unread lists the parts of the log that must be read before a decision can be made.
type Unread struct {
	Latest  []string // names whose latest call is needed, see Tx.Latest
	List    bool     // the order of all calls, see Tx.Order
	History []string // names of which all calls are needed, see Tx.Calls
}

// Any reports whether anything must be read.
func (u *Unread) Any() bool {
	return u.List || len(u.Latest) > 0 || len(u.History) > 0
}

// load reads the part of the log that an expression needs.
func (r *record) load(ctx context.Context, s store.Store, u *Unread) error {
	select {
	case r.loading <- struct{}{}:
		defer func() { <-r.loading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	type position struct {
		name        string
		begun, done int64
	}
	r.mu.Lock()
	state, length := r.state, r.length
	var positions []position
	if state == nil {
		r.mu.Unlock()
		return nil
	}
	for _, name := range u.Latest {
		if i := state.Find(name); i >= 0 {
			positions = append(positions, position{name, state.Names[i].Begun, state.Names[i].Done})
		}
	}
	from := length
	if u.List || len(u.History) > 0 {
		from = r.trackHistory(u.History)
	}
	r.mu.Unlock()

	for _, p := range positions {
		call, err := readCall(ctx, s, r.key, p.begun, p.done)
		if err != nil {
			return err
		}
		r.mu.Lock()
		if r.state != nil && r.state.Born == state.Born {
			if r.latest == nil {
				r.latest = make(map[string]*latestCall)
			}
			if old := r.latest[p.name]; old != nil {
				r.size -= old.size()
			}
			r.latest[p.name] = call
			r.size += call.size()
		}
		r.mu.Unlock()
	}
	return r.loadHistory(ctx, s, state.Born, from, length)
}

// trackHistory starts to keep the history with the calls of these names. It returns the
// position from which the log must be read.
func (r *record) trackHistory(names []string) int64 {
	missing := r.history == nil
	for _, name := range names {
		missing = missing || r.history.calls[name] == nil
	}
	if missing {
		calls := make(map[string]*callList)
		for _, name := range names {
			calls[name] = new(callList)
		}
		if r.history != nil {
			r.size -= 4 * len(r.history.list)
			for name, old := range r.history.calls {
				calls[name] = new(callList)
				for _, call := range old.all {
					r.size -= call.size()
				}
			}
		}
		r.history = &history{calls: calls, applied: r.state.Earlier.Entries}
	}
	return r.history.applied
}

// loadHistory reads the log up to that length.
func (r *record) loadHistory(ctx context.Context, s store.Store, born uint64, from, length int64) error {
	for from < length {
		entries, err := s.Read(ctx, r.key, from, int(min(length-from, store.MaxRead)))
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return errNoRecord
		}
		decoded := make([]Entry, len(entries))
		for i, data := range entries {
			if decoded[i], err = decodeEntry(r.key, data); err != nil {
				return err
			}
		}
		r.mu.Lock()
		if r.state == nil || r.state.Born != born || r.history == nil || r.history.applied != from {
			r.mu.Unlock()
			return nil // the caller retries
		}
		for i := range decoded {
			r.applyHistory(&decoded[i])
		}
		from = r.history.applied
		r.mu.Unlock()
	}
	return nil
}

// readCall reads the entries of one call.
func readCall(ctx context.Context, s store.Store, key string, begun, done int64) (*latestCall, error) {
	call := &latestCall{begun: begun, done: done}
	e, err := readEntry(ctx, s, key, begun)
	if err != nil {
		return nil, err
	}
	call.Inputs = e.Inputs
	if done == 0 {
		return call, nil
	}
	if e, err = readEntry(ctx, s, key, done); err != nil {
		return nil, err
	}
	call.Outputs = e.Outputs
	return call, nil
}

func readEntry(ctx context.Context, s store.Store, key string, at int64) (Entry, error) {
	entries, err := s.Read(ctx, key, at, 1)
	switch {
	case err != nil:
		return Entry{}, err
	case len(entries) == 0:
		return Entry{}, errNoRecord
	}
	return decodeEntry(key, entries[0])
}
