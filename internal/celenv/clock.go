package celenv

import (
	"context"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"
)

// EvaluateWithin evaluates a program. If the program has a loop, it is interrupted after the
// time limit, and the error is an interpreter.InterruptError.
func (p *Program) EvaluateWithin(limit time.Duration, variables cel.Activation) (ref.Val, error) {
	if !p.loops {
		return p.Evaluate(variables)
	}
	c := startClock(limit)
	defer c.stop()
	return p.EvaluateContext(c, variables)
}

// clock is a context with a time limit. A clock that has not expired is reused, because most
// evaluations take less time than creating one.
type clock struct {
	context.Context
	up    chan struct{}
	timer *time.Timer
}

var clocks sync.Pool

// startClock returns a clock that expires after the limit.
func startClock(limit time.Duration) *clock {
	if c, ok := clocks.Get().(*clock); ok {
		c.timer.Reset(limit)
		return c
	}
	c := &clock{Context: context.Background(), up: make(chan struct{})}
	c.timer = time.AfterFunc(limit, func() { close(c.up) })
	return c
}

// stop releases the clock.
func (c *clock) stop() {
	if c.timer.Stop() {
		clocks.Put(c)
	}
}

// Done implements context.Context.
func (c *clock) Done() <-chan struct{} { return c.up }

// Err implements context.Context.
func (c *clock) Err() error {
	select {
	case <-c.up:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
