package model

import (
	"context"
	"errors"
)

// WithFallback returns a Model that makes a request to fallback if the first Model returns a temporary error. If fallback
// fails too, the error is that of the first Model, or a temporary one of fallback if that asks for less time.
func WithFallback(first, fallback Model) Model { return &withFallback{first, fallback} }

type withFallback struct {
	Model
	fallback Model
}

// Generate implements Model.
func (f *withFallback) Generate(ctx context.Context, request *Request, onText func(string)) (*Response, error) {
	report, begun := observe(onText)
	response, err := f.Model.Generate(ctx, request, report)
	e, ok := errors.AsType[*Error](err)
	if !ok || !e.Temporary() || *begun && request.OnRestart == nil {
		return response, err
	}
	if *begun {
		request.OnRestart()
	}
	response, err = f.fallback.Generate(ctx, request, onText)
	second, ok := errors.AsType[*Error](err)
	if !ok {
		return response, err
	}
	both := *e
	both.Message += "; the fallback: " + second.Message
	if second.Temporary() {
		both.RetryAfter = min(e.RetryAfter, second.RetryAfter)
		both.Final = e.Final && second.Final
	}
	return nil, &both
}
