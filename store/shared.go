package store

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"time"
)

// PollInterval is the longest time between two reads of Waiters.Await.
const PollInterval = 2 * time.Second

// stripes is the number of locks that the keys share. Two keys that hash to the same
// stripe cannot be changed at the same time in this process.
const stripes = 256

// KeyLocks serializes the changes of each key. Unlike a mutex, Acquire stops waiting
// when the context ends.
type KeyLocks struct {
	seed maphash.Seed
	held [stripes]chan struct{}
}

// NewKeyLocks returns unlocked locks.
func NewKeyLocks() *KeyLocks {
	l := &KeyLocks{seed: maphash.MakeSeed()}
	for i := range l.held {
		l.held[i] = make(chan struct{}, 1)
	}
	return l
}

// HeldKey is the lock of a key, held by the caller.
type HeldKey chan struct{}

// Release unlocks the key.
func (h HeldKey) Release() { <-h }

// Acquire locks the key, or returns the context's error.
func (l *KeyLocks) Acquire(ctx context.Context, key string) (HeldKey, error) {
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

// Await implements Store.Wait for records that other nodes change, too: it also reads the record every PollInterval, since
// a notification can be lost, and since records expire. get is Store.Get. The caller must have called Join.
func (w *Waiters) Await(ctx context.Context, key string, seen []byte, closing <-chan struct{}, get func() (Record, error)) (Record, error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		changed := w.Changed(key)
		r, err := get()
		switch {
		case errors.Is(err, ErrNotFound):
			if seen != nil {
				return Record{}, err
			}
		case err != nil:
			return Record{}, err
		case seen == nil || !bytes.Equal(r.Value, seen):
			return r, nil
		}
		timer.Reset(PollInterval/2 + rand.N(PollInterval/2)) //nolint:gosec // only spreads reads
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			return Record{}, ctx.Err()
		case <-closing:
			return Record{}, ErrClosed
		}
	}
}

// Empty reports whether there are no waiters.
func (w *Waiters) Empty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.byKey) == 0
}

// Detach returns a context for an operation on a Store that must not be canceled with ctx: it would be
// unknown then whether the operation has changed the record. The context has the values of ctx, and ends
// after the limit.
func Detach(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), limit)
}
