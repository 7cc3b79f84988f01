package store

import (
	"context"
	"hash/maphash"
)

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
