package model

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Limits of the time between two tries.
const (
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 8 * time.Second

	// MaxRetryAfter is the longest time that a Model with retries waits because the API asks it
	// to. If the API asks for more, the error is returned at once.
	MaxRetryAfter = time.Minute
)

// WithRetries returns a Model that repeats a request up to retries times if its error is
// temporary. Between two tries it waits as long as the API asks for, otherwise an exponentially
// growing time with jitter. A request whose response has begun to arrive at onText is not
// repeated, since the caller has passed its text on already.
func WithRetries(m Model, retries int) Model {
	if retries <= 0 {
		return m
	}
	return &retrying{Model: m, retries: retries}
}

type retrying struct {
	Model
	retries int
}

// Generate implements Model.
func (r *retrying) Generate(ctx context.Context, request *Request, onText func(string)) (*Response, error) {
	begun := false
	var report func(string)
	if onText != nil {
		report = func(text string) {
			begun = true
			onText(text)
		}
	}
	for try := 0; ; try++ {
		response, err := r.Model.Generate(ctx, request, report)
		e, ok := errors.AsType[*Error](err)
		if !ok || !e.Temporary() || begun || try == r.retries {
			return response, err
		}
		wait := backoff(try)
		if e.RetryAfter > 0 {
			wait = time.Duration(e.RetryAfter) * time.Second
			if wait > MaxRetryAfter {
				return nil, err
			}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// backoff returns how long to wait after a failed try, the first of which is 0: between half of
// the exponentially growing time and all of it.
func backoff(try int) time.Duration {
	longest := min(firstBackoff<<min(try, 10), maxBackoff)
	return longest/2 + rand.N(longest/2) //nolint:gosec // jitter needs no secure source
}
