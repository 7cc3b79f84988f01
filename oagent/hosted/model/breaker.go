package model

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// BreakerOptions configure WithBreaker.
type BreakerOptions struct {
	// MaxFails is the number of requests that fail in a row before the breaker opens.
	MaxFails int
	// FailDuration is the time until an open breaker lets a request through. If the API asks for less, it is that.
	FailDuration time.Duration
	// Changed is called when the breaker opens, with the error of the last request, and with nil when it closes. It must
	// return quickly.
	Changed func(cause *Error)
}

// WithBreaker returns a Model with a circuit breaker. After several temporary errors in a row, the breaker is open: requests
// fail at once with KindUnavailable, and RetryAfter says when the next request is let through. A response closes the breaker.
func WithBreaker(m Model, options BreakerOptions) Model { return &breaker{Model: m, options: options} }

type breaker struct {
	Model
	options BreakerOptions

	mu    sync.Mutex
	fails int       // in a row
	until time.Time // while the breaker is open: when the next request is let through
}

// Generate implements Model.
func (b *breaker) Generate(ctx context.Context, request *Request, onText func(string)) (*Response, error) {
	if wait := b.enter(); wait > 0 {
		e := Errorf(KindUnavailable, "the latest requests have failed, so no request is made for %s", wait.Round(time.Second))
		e.RetryAfter = int((wait + time.Second - 1) / time.Second)
		return nil, e
	}
	response, err := b.Model.Generate(ctx, request, onText)
	b.leave(err)
	return response, err
}

// enter returns how long no request may be made; 0 if this one may.
func (b *breaker) enter() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fails < b.options.MaxFails {
		return 0
	}
	if wait := time.Until(b.until); wait > 0 {
		return wait
	}
	b.until = time.Now().Add(b.options.FailDuration) // only this request is let through, until it has a result
	return 0
}

// leave counts the result of a request. Errors that are not those of the API do not count.
func (b *breaker) leave(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := errors.AsType[*Error](err)
	switch wasOpen := b.fails >= b.options.MaxFails; {
	case err != nil && !ok, ok && e.Kind == KindRequest:
	case ok && e.Temporary():
		b.fails = min(b.fails+1, b.options.MaxFails)
		asked := time.Duration(e.RetryAfter) * time.Second
		b.until = time.Now().Add(min(cmp.Or(asked, b.options.FailDuration), b.options.FailDuration))
		if !wasOpen && b.fails == b.options.MaxFails {
			b.options.Changed(e)
		}
	default: // the API has responded
		b.fails = 0
		if wasOpen {
			b.options.Changed(nil)
		}
	}
}
