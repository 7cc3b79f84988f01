package store

import (
	"context"
	"hash/maphash"
	"sync"
)

// waiters are those who wait for a key to change, by key.
type waiters struct {
	mu    sync.Mutex
	byKey map[string]*waiting
}

// waiting is all who wait for one key.
type waiting struct {
	changed chan struct{} // closed by the next change
	count   int
}

// join makes the caller one of those who wait for the key, until it leaves.
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

// changed returns what the key's next change closes. The caller has joined.
func (w *waiters) changed(key string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byKey[key].changed
}

// wake tells all who wait for the key to look again.
func (w *waiters) wake(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if all := w.byKey[key]; all != nil {
		close(all.changed)
		all.changed = make(chan struct{})
	}
}

// wakeAll tells everybody to look again.
func (w *waiters) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, all := range w.byKey {
		close(all.changed)
		all.changed = make(chan struct{})
	}
}

// none reports whether nobody waits.
func (w *waiters) none() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.byKey) == 0
}

// stripes are as many keys as are changed at the same time in this process, if
// no two of them fall on one stripe.
const stripes = 256

// keyLocks let one change of a key run at a time. Unlike a mutex, who waits for
// one can give up.
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

// heldKey is a key that is locked.
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
