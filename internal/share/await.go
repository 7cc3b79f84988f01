package share

import (
	"context"
	"time"
)

// Await is like Take, but waits up to limit until others return theirs if there are none. If ctx ends
// first, it returns the same error as at the limit.
func (b *Bound) Await(ctx context.Context, o Owner, n int64, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		freed := b.waitChannel()
		err := b.Take(o, n)
		if err == nil {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return err
		}
	}
}

// waitChannel returns the channel that is closed when units are returned next.
func (b *Bound) waitChannel() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.freed == nil {
		b.freed = make(chan struct{})
	}
	return b.freed
}

// Slots is a bounded resource without shares, because it serves one owner only: sending to it takes a slot, and receiving
// returns one.
type Slots chan struct{}

// NewSlots returns n free Slots. The name is that in docs/limits.md.
func NewSlots(_ string, n int) Slots { return make(Slots, n) }
