package oagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/internal/store"
)

// record is the in-memory copy of one Engagement: the last state that was seen in the store,
// and the part of the log that expressions needed. The store is authoritative. Each change
// begins with resolve, which compares the copy with the store. Two records of the same
// Engagement are harmless.
type record struct {
	key     string        // in the store
	loading chan struct{} // held by the goroutine that reads the log

	mu      sync.Mutex
	value   []byte // the value in the store; nil if not known
	state   *state // decoded value
	length  int64  // length of the log at that value
	next    *step  // the change being written, until the store confirms it
	recent  map[string]*recentCall
	history *history // nil until an expression needs it
	size    int      // approximate number of bytes that the record holds
}

// recentCall is the latest call of a name.
type recentCall struct {
	callFields
	begun, done int64 // as in named
}

// history contains all calls.
type history struct {
	applied int64                // number of log entries that are included
	list    []int32              // indexes into state.Names
	calls   map[string]*callList // only for the names that expressions read
}

// callList contains all calls of one name.
type callList struct{ all []*callFields }

// step is a change that is being written to the store.
type step struct {
	value   []byte
	state   *state
	length  int64
	entries []Entry
}

// errGone means that the store has no such Engagement.
var errGone = errors.New("the Engagement is gone")

// resolve updates the record from the store and returns its state. The state is nil if the
// Engagement does not exist yet.
func (r *record) resolve(old store.Record) (*state, error) {
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
	s, err := decodeState(old.Value)
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
	r.recent, r.history, r.size = nil, nil, 0
}

// adopt applies the change that the store has confirmed.
func (r *record) adopt() {
	next := r.next
	first := r.length
	if r.state != nil && r.state.Born != next.state.Born { // the Engagement was renewed in the same record
		r.recent, r.history, r.size = nil, nil, 0
	}
	r.value, r.state, r.length, r.next = next.value, next.state, next.length, nil
	for i := range next.entries {
		r.applyRecent(&next.entries[i], first+int64(i))
	}
	if h := r.history; h != nil && h.applied == first {
		for i := range next.entries {
			r.applyHistory(&next.entries[i])
		}
	}
}

// applyRecent updates the latest calls from an entry at that position of the log.
func (r *record) applyRecent(e *Entry, at int64) {
	if e.What != EntryBegun && e.What != EntryFinished && e.What != EntryReleased {
		return
	}
	if r.recent == nil {
		r.recent = make(map[string]*recentCall)
	}
	call := r.recent[e.Name]
	i := r.state.find(e.Name)
	if i < 0 {
		return
	}
	n := &r.state.Names[i]
	switch {
	case e.What == EntryBegun && n.Begun == at:
		if call != nil {
			r.size -= call.weight()
		}
		call = &recentCall{callFields: callFields{inputs: e.Inputs}, begun: at}
		r.recent[e.Name] = call
		r.size += call.weight()
	case e.What != EntryBegun && n.Done == at && call != nil && call.begun == n.Begun:
		call.outputs, call.done = e.Outputs, at
		r.size += len(e.Outputs)
	}
}

// applyHistory updates the history from the next entry of the log.
func (r *record) applyHistory(e *Entry) {
	h := r.history
	h.applied++
	switch e.What {
	case EntryBegun:
		h.list = append(h.list, int32(r.state.find(e.Name))) //nolint:gosec // at most maxNames
		r.size += 4
		if calls := h.calls[e.Name]; calls != nil {
			call := &callFields{inputs: e.Inputs}
			calls.all = append(calls.all, call)
			r.size += call.weight()
		}
	case EntryFinished, EntryReleased:
		calls := h.calls[e.Name]
		if calls != nil && e.Nth > 0 && e.Nth <= int64(len(calls.all)) {
			calls.all[e.Nth-1].outputs = e.Outputs
			r.size += len(e.Outputs)
		}
	}
}

const callOverhead = 256 // bytes, including the parts of the entries that its payloads point into

func (c *callFields) weight() int { return callOverhead + len(c.inputs) + len(c.outputs) }

// engagement returns the key of the Engagement.
func (r *record) engagement() string { return r.key[len(engagementPath):] }

func newRecord(engagement string) *record {
	return &record{key: engagementPath + engagement, loading: make(chan struct{}, 1)}
}

// load reads the part of the log that an expression needs.
func (r *record) load(ctx context.Context, s store.Store, w *wants) error {
	select {
	case r.loading <- struct{}{}:
		defer func() { <-r.loading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	type place struct {
		name        string
		begun, done int64
	}
	r.mu.Lock()
	state, length := r.state, r.length
	var places []place
	if state == nil {
		r.mu.Unlock()
		return nil
	}
	for _, name := range w.recent {
		if i := state.find(name); i >= 0 {
			places = append(places, place{name, state.Names[i].Begun, state.Names[i].Done})
		}
	}
	from := length
	if w.list || len(w.history) > 0 {
		from = r.trackHistory(w.history)
	}
	r.mu.Unlock()

	for _, p := range places {
		call, err := readCall(ctx, s, r.key, p.begun, p.done)
		if err != nil {
			return err
		}
		r.mu.Lock()
		if r.state != nil && r.state.Born == state.Born {
			if r.recent == nil {
				r.recent = make(map[string]*recentCall)
			}
			if old := r.recent[p.name]; old != nil {
				r.size -= old.weight()
			}
			r.recent[p.name] = call
			r.size += call.weight()
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
					r.size -= call.weight()
				}
			}
		}
		r.history = &history{calls: calls, applied: r.state.First}
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
			return errGone
		}
		decoded := make([]Entry, len(entries))
		for i, data := range entries {
			if decoded[i], err = decodeEntry(data); err != nil {
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
func readCall(ctx context.Context, s store.Store, key string, begun, done int64) (*recentCall, error) {
	call := &recentCall{begun: begun, done: done}
	e, err := readEntry(ctx, s, key, begun)
	if err != nil {
		return nil, err
	}
	call.inputs = e.Inputs
	if done == 0 {
		return call, nil
	}
	if e, err = readEntry(ctx, s, key, done); err != nil {
		return nil, err
	}
	call.outputs = e.Outputs
	return call, nil
}

func readEntry(ctx context.Context, s store.Store, key string, at int64) (Entry, error) {
	entries, err := s.Read(ctx, key, at, 1)
	switch {
	case err != nil:
		return Entry{}, err
	case len(entries) == 0:
		return Entry{}, errGone
	}
	return decodeEntry(entries[0])
}

// turn is one run of a decision inside a transaction on the store's record.
type turn struct {
	guard   *Guard
	record  *record
	state   *state // may be changed; a new state if the Engagement does not exist yet
	now     time.Time
	isNew   bool
	entries []Entry
	first   [1]Entry // storage for entries: most turns have one
	durable bool     // the change must be on disk before the turn has any effect
	prolong bool     // restart the lifetime of the Engagement; refusals do not
}

// log adds an entry and returns its position in the log.
func (t *turn) log(e Entry) int64 {
	e.At = t.now
	if t.entries == nil {
		t.entries = t.first[:0]
	}
	t.entries = append(t.entries, e)
	return t.record.length + int64(len(t.entries)) - 1
}

// keep returns the form of a payload for the record: the payload, or a Shed. The entry copies
// it when it is encoded.
func (t *turn) keep(p payload) payload {
	if p == nil {
		return nil
	}
	size, most, all := int64(len(p)), int64(t.guard.options.MaxPayload), t.guard.options.MaxRecord
	switch {
	case size > most:
		return Shed{size, ShedLarge, most}.JSON()
	case t.state.Kept+size > all:
		return Shed{size, ShedFull, all}.JSON()
	}
	t.state.Kept += size
	return p
}

// end ends the Engagement.
func (t *turn) end(kind Kind, rule, why string) {
	t.state.Ended = t.now.UnixMilli()
	t.state.EndedKind, t.state.EndedRule, t.state.EndedWhy = kind, rule, why
	t.durable = true
}

// change returns the change for the store.
func (t *turn) change() (store.Change, error) {
	if length := t.record.length + int64(len(t.entries)); length > store.MaxLength {
		return store.Change{}, fmt.Errorf("%w: the record of an Engagement has %d entries", store.ErrTooLarge, length)
	}
	t.state.Revision = random()
	t.state.Last = t.now.UnixMilli()
	if t.prolong {
		t.state.Used = t.now.UnixMilli()
	}
	c := store.Change{Value: t.state.append(make([]byte, 0, t.stateSize())), TTL: t.life(), Later: !t.durable}
	if t.isStray() {
		c.Spare = true
		if t.state.UserID == "" {
			c.TTL = min(c.TTL, strayTTL)
		}
	}
	size := 0
	for i := range t.entries {
		size += t.entries[i].size()
	}
	written := make([]byte, 0, size)
	for i := range t.entries {
		begin := len(written)
		written = t.entries[i].append(written)
		c.Entries = append(c.Entries, written[begin:len(written):len(written)])
	}
	t.record.next = &step{value: c.Value, state: t.state, length: t.record.length + int64(len(t.entries)), entries: t.entries}
	return c, nil
}

// minLife is the minimum lifetime that the store accepts, so that an expired record disappears
// at once.
const minLife = time.Millisecond

// life returns the remaining lifetime of the Engagement.
func (t *turn) life() time.Duration {
	ttl := t.guard.options.TTL
	used := time.Duration(t.now.UnixMilli()-t.state.Used) * time.Millisecond
	return min(max(ttl-used, minLife), ttl)
}

// isStray reports whether nothing but refusals has happened in the Engagement. A client can
// create one for each id, so the store may delete stray Engagements to make space for others,
// and anonymous ones expire after strayTTL.
func (t *turn) isStray() bool {
	s := t.state
	return s.Total == 0 && s.Ended == 0 && s.Renewals == 0 && len(s.Reviews) == 0 && len(s.Questions) == 0 &&
		s.Refused >= t.record.length+int64(len(t.entries))
}

// stateSize returns the approximate number of bytes of the encoded state.
func (t *turn) stateSize() int {
	const fixed, each = 512, 96
	if t.record.value != nil {
		return len(t.record.value) + each
	}
	return fixed + each*len(t.state.Names)
}
