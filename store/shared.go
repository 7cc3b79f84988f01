package store

import (
	"bytes"
	"cmp"
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

// Waiters are the Wait calls in progress, by key. The zero value is ready to use.
type Waiters struct {
	Hub[struct{}]
}

// Join returns a channel that receives when the record may have changed. The caller must call leave.
func (w *Waiters) Join(key string) (changed <-chan struct{}, leave func()) { return w.Listen(key, 1) }

// Wake makes all waiters for the key read the record again.
func (w *Waiters) Wake(key string) { w.Send(key, struct{}{}) }

// WakeAll makes all waiters read their records again.
func (w *Waiters) WakeAll() { w.SendAll(struct{}{}) }

// Await implements Store.Wait. get is Store.Get, and returns when the record must be read again although nothing has woken the
// waiter; 0 if a notification can be lost, or if it is not known when the record expires: then at the latest after PollInterval.
func (w *Waiters) Await(ctx context.Context, key string, seen []byte, closing <-chan struct{}, get func() (Record, time.Duration, error)) (Record, error) {
	changed, leave := w.Join(key)
	defer leave()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		r, again, err := get()
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
		timer.Reset(cmp.Or(again, PollInterval/2+rand.N(PollInterval/2))) //nolint:gosec // only spreads reads
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

// Detach returns a context for an operation on a Store that must not be canceled with ctx: it would be
// unknown then whether the operation has changed the record. The context has the values of ctx, and ends
// after the limit.
func Detach(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), limit)
}

// Hub has the listeners, by topic. The zero value is ready to use. It is safe for concurrent use.
type Hub[T any] struct {
	mu     sync.Mutex
	topics map[string]map[chan T]struct{}
}

// Listen returns a channel with the messages of a topic, until leave is called. A listener that lags behind by more than
// the size of the buffer misses messages. With a buffer of one and messages that are all equal, it misses nothing: it learns
// that there was a message since it has last received one.
func (h *Hub[T]) Listen(topic string, buffer int) (messages <-chan T, leave func()) {
	c := make(chan T, buffer)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.topics == nil {
		h.topics = make(map[string]map[chan T]struct{})
	}
	if h.topics[topic] == nil {
		h.topics[topic] = make(map[chan T]struct{})
	}
	h.topics[topic][c] = struct{}{}
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if delete(h.topics[topic], c); len(h.topics[topic]) == 0 {
			delete(h.topics, topic)
		}
	}
}

// Send sends a message to the listeners of a topic.
func (h *Hub[T]) Send(topic string, message T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	send(h.topics[topic], message)
}

// SendAll sends a message to the listeners of all topics.
func (h *Hub[T]) SendAll(message T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, listeners := range h.topics {
		send(listeners, message)
	}
}

func send[T any](listeners map[chan T]struct{}, message T) {
	for c := range listeners {
		select {
		case c <- message:
		default:
		}
	}
}

// IsEmpty reports whether there are no listeners.
func (h *Hub[T]) IsEmpty() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.topics) == 0
}
