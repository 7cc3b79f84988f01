package engagement

import (
	"context"
	"sync"
	"time"
)

// detachedTime is the time to record the result of a call whose client has disconnected.
const detachedTime = 5 * time.Second

// Detach returns a context for recording the result of a call even if its client has disconnected.
// Its timer starts only when Done is called, which is rare.
func Detach(ctx context.Context) (context.Context, context.CancelFunc) {
	d := &detached{Context: ctx, until: time.Now().Add(detachedTime)}
	return d, d.end
}

// detached is a context with the values of its parent and a deadline of its own.
type detached struct {
	context.Context
	until time.Time

	mu     sync.Mutex
	timed  context.Context // nil until Done is called
	cancel context.CancelFunc
}

func (d *detached) Deadline() (time.Time, bool) { return d.until, true }

func (d *detached) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timed == nil {
		d.timed, d.cancel = context.WithDeadline(context.WithoutCancel(d.Context), d.until)
	}
	return d.timed.Done()
}

func (d *detached) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timed != nil {
		return d.timed.Err()
	}
	return nil
}

// end releases the timer, if it was started.
func (d *detached) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cancel != nil {
		d.cancel()
	}
}
