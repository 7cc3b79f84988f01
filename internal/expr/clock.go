package expr

import (
	"context"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"
)

// EvaluateWithin runs a program that is interrupted when its time is up, if it has
// a loop. The error is an interpreter.InterruptError then.
func (p *Program) EvaluateWithin(limit time.Duration, variables cel.Activation) (ref.Val, error) {
	if !p.loops {
		return p.Evaluate(variables)
	}
	c := startClock(limit)
	defer c.stop()
	return p.EvaluateContext(c, variables)
}

// clock is a context that is done when its time is up. It is used again if that
// was not the case, as most evaluations take less long than to make one.
type clock struct {
	context.Context
	up    chan struct{}
	timer *time.Timer
}

var clocks sync.Pool

func startClock(limit time.Duration) *clock {
	if c, ok := clocks.Get().(*clock); ok {
		c.timer.Reset(limit)
		return c
	}
	c := &clock{Context: context.Background(), up: make(chan struct{})}
	c.timer = time.AfterFunc(limit, func() { close(c.up) })
	return c
}

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
