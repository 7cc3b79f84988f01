package store

import (
	"context"
	"hash/maphash"
	"sync"
)

// waiters holds the Wait calls in progress, by key.
type waiters struct {
	mu    sync.Mutex
	byKey map[string]*waiting
}

// waiting counts the Wait calls for one key.
type waiting struct {
	changed chan struct{} // closed by the next change
	count   int
}

// join registers the caller as a waiter for the key. The caller must call leave.
func (w *waiters) join(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.byKey[key]
	if all == nil {
		if w.byKey == nil {
			w.byKey = make(map[string]*waiting)
		}
		all = &waiting{changed: make(chan struct{})}
		w.byKey[key] = all
	}
	all.count++
}

func (w *waiters) leave(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.byKey[key]
	if all.count--; all.count == 0 {
		delete(w.byKey, key)
	}
}

// changed returns a channel that the next change of the key closes. The caller must
// have called join.
func (w *waiters) changed(key string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byKey[key].changed
}

// wake makes all waiters for the key read the record again.
func (w *waiters) wake(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if all := w.byKey[key]; all != nil {
		close(all.changed)
		all.changed = make(chan struct{})
	}
}

// wakeAll makes all waiters read their records again.
func (w *waiters) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, all := range w.byKey {
		close(all.changed)
		all.changed = make(chan struct{})
	}
}

// none reports whether there are no waiters.
func (w *waiters) none() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.byKey) == 0
}

// stripes is the number of locks that the keys share. Two keys that hash to the same
// stripe cannot be changed at the same time in this process.
const stripes = 256

// keyLocks serializes the changes of each key. Unlike a mutex, acquire stops waiting
// when the context ends.
type keyLocks struct {
	seed maphash.Seed
	held [stripes]chan struct{}
}

func newKeyLocks() *keyLocks {
	l := &keyLocks{seed: maphash.MakeSeed()}
	for i := range l.held {
		l.held[i] = make(chan struct{}, 1)
	}
	return l
}

// heldKey is the lock of a key, held by the caller.
type heldKey chan struct{}

func (h heldKey) release() { <-h }

// acquire locks the key, or returns the context's error.
func (l *keyLocks) acquire(ctx context.Context, key string) (heldKey, error) {
	held := l.held[maphash.String(l.seed, key)%stripes]
	select {
	case held <- struct{}{}:
		return held, nil
	default:
	}
	select {
	case held <- struct{}{}:
		return held, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
