package store

import "sync"

// Waiters holds the Wait calls in progress, by key. The zero value is ready to use.
type Waiters struct {
	mu    sync.Mutex
	byKey map[string]*keyWaiters
}

// keyWaiters counts the Wait calls for one key.
type keyWaiters struct {
	changed chan struct{} // closed by the next change
	count   int
}

// Join registers the caller as a waiter for the key. The caller must call Leave.
func (w *Waiters) Join(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.byKey[key]
	if k == nil {
		if w.byKey == nil {
			w.byKey = make(map[string]*keyWaiters)
		}
		k = &keyWaiters{changed: make(chan struct{})}
		w.byKey[key] = k
	}
	k.count++
}

// Leave ends what Join began.
func (w *Waiters) Leave(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.byKey[key]
	if k.count--; k.count == 0 {
		delete(w.byKey, key)
	}
}

// Changed returns a channel that the next change of the key closes. The caller must
// have called Join.
func (w *Waiters) Changed(key string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byKey[key].changed
}

// Wake makes all waiters for the key read the record again.
func (w *Waiters) Wake(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.byKey[key]; k != nil {
		close(k.changed)
		k.changed = make(chan struct{})
	}
}

// WakeAll makes all waiters read their records again.
func (w *Waiters) WakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.byKey {
		close(k.changed)
		k.changed = make(chan struct{})
	}
}

// Empty reports whether there are no waiters.
func (w *Waiters) Empty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.byKey) == 0
}
