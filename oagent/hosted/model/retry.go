package model

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// firstPause is the pause before the first repeated request. It doubles with each further one, up to maxPause.
const firstPause = 500 * time.Millisecond

// maxPause is the longest pause between two tries of a Model with retries. If the API asks for a longer one, the error is
// returned at once: a caller that waits itself needs no goroutine for it.
const maxPause = 5 * time.Second

// WithRetries returns a Model that repeats a request up to retries times if its error is temporary and the request is not
// Once. Between two tries it waits as long as the API asks for, otherwise an exponentially growing time with jitter.
// Without retries, temporary errors are Final.
func WithRetries(m Model, retries int) Model { return &retrying{Model: m, retries: retries} }

type retrying struct {
	Model
	retries int
}

// Generate implements Model.
func (r *retrying) Generate(ctx context.Context, request *Request, onText func(string)) (*Response, error) {
	for try := 0; ; try++ {
		report, begun := observe(onText)
		response, err := r.Model.Generate(ctx, request, report)
		e, ok := errors.AsType[*Error](err)
		if !ok || !e.Temporary() {
			return response, err
		}
		if r.retries == 0 {
			final := *e
			final.Final = true
			return nil, &final
		}
		pause := e.Pause(firstPause, maxPause, try)
		if request.Once || try == r.retries || pause > maxPause || *begun && request.OnRestart == nil {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if *begun {
			request.OnRestart()
		}
	}
}

// observe returns a function that sets begun and calls onText. It is nil if onText is.
func observe(onText func(string)) (report func(string), begun *bool) {
	begun = new(bool)
	if onText == nil {
		return nil, begun
	}
	return func(text string) {
		*begun = true
		onText(text)
	}, begun
}

// Pause returns how long to wait after an error: as long as the API asks for. If it does not say, it is between half of an
// exponentially growing time and all of it. The time begins with first, and try is the number of tries before this one.
func (e *Error) Pause(first, longest time.Duration, try int) time.Duration {
	if e.RetryAfter > 0 {
		return time.Duration(e.RetryAfter) * time.Second
	}
	pause := min(first<<min(try, maxDoublings), longest)
	return pause/2 + rand.N(pause/2) //nolint:gosec // jitter needs no secure source
}

const maxDoublings = 10
