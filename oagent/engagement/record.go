package engagement

import (
	"bytes"
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
