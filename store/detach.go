package store

import (
	"context"
	"sync"
	"time"
)

// Detach returns a context for an operation on a Store that must not be canceled with ctx: it would be
// unknown then whether the operation has changed the record. The context has the values of ctx, and ends
// after the limit. Its timer starts only when something waits for the context. Many operations never wait.
func Detach(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	d := &detached{Context: ctx, until: time.Now().Add(limit)}
	return d, d.cancel
}

// detached is a context with the values of its parent and a deadline of its own.
type detached struct {
	context.Context
	until time.Time

	mu    sync.Mutex
	done  chan struct{} // nil until something waits
	timer *time.Timer   // nil until something waits
	err   error         // nil until the context ends
}

func (d *detached) Deadline() (time.Time, bool) { return d.until, true }

func (d *detached) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done != nil {
		return d.done
	}
	d.done = make(chan struct{})
	if d.err != nil {
		close(d.done)
		return d.done
	}
	d.timer = time.AfterFunc(time.Until(d.until), func() { d.end(context.DeadlineExceeded) })
	return d.done
}

func (d *detached) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (d *detached) cancel() { d.end(context.Canceled) }

// end ends the context, unless it has ended.
func (d *detached) end(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return
	}
	d.err = err
	if d.done != nil {
		d.timer.Stop()
		close(d.done)
	}
}
