package engagement

import (
	"context"

	"github.com/fairwayhq/fairway/store"
)

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
			return errNoRecord
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
	return decodeEntry(entries[0])
}
