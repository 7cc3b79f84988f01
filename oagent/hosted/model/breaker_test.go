package model_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// TestWithBreaker checks when a breaker opens and closes.
func TestWithBreaker(t *testing.T) {
	down, bad := model.Errorf(model.KindUnavailable, "500"), model.Errorf(model.KindRejected, "400")
	invalid := model.Errorf(model.KindRequest, "no messages")
	limited := &model.Error{Kind: model.KindRateLimited, RetryAfter: 5, Message: "429"}
	hour := &model.Error{Kind: model.KindRateLimited, RetryAfter: 3600, Message: "429"}
	for name, test := range map[string]struct {
		errs    []error // of the requests, one each second; nil is a response
		reached int     // requests that reach the model
		changes string
	}{
		"in a row":            {[]error{down, down, down, nil, nil}, 3, "open"},
		"not in a row":        {[]error{down, down, nil, down, down, bad, down, down, context.Canceled}, 9, ""},
		"others do not count": {[]error{down, context.Canceled, invalid, down, down, nil}, 5, "open"},
		"asks for less":       {append([]error{down, down, limited}, slices.Repeat([]error{nil}, 6)...), 5, "open closed"},
		"asks for more":       {append([]error{down, down, hour}, slices.Repeat([]error{nil}, 32)...), 6, "open closed"},
		"still down":          {append([]error{down, down, down}, slices.Repeat([]error{down}, 62)...), 5, "open"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var changes []string
				reached, next := 0, error(nil)
				m := model.WithBreaker(generator(func() error { reached++; return next }), model.BreakerOptions{MaxFails: 3, FailDuration: 30 * time.Second, Changed: func(cause *model.Error) {
					changes = append(changes, map[bool]string{true: "open", false: "closed"}[cause != nil])
				}})
				for _, next = range test.errs {
					before := reached
					_, err := m.Generate(t.Context(), &model.Request{}, nil)
					if reached > before && !errors.Is(err, next) {
						t.Errorf("got %v, want %v", err, next)
					}
					if e, ok := errors.AsType[*model.Error](err); reached == before && (!ok || e.Kind != model.KindUnavailable || e.RetryAfter < 1 || e.RetryAfter > 30) {
						t.Errorf("refused with %v", err)
					}
					time.Sleep(time.Second)
				}
				if got := strings.Join(changes, " "); reached != test.reached || got != test.changes {
					t.Errorf("%d requests, changes %q, want %d and %q", reached, got, test.reached, test.changes)
				}
			})
		})
	}
}

// generator is a Model that fails as a function says.
type generator func() error

func (g generator) Generate(context.Context, *model.Request, func(string)) (*model.Response, error) {
	if err := g(); err != nil {
		return nil, err
	}
	return &model.Response{Text: "ok"}, nil
}

func TestWithFallback(t *testing.T) {
	down, bad := model.Errorf(model.KindUnavailable, "500"), model.Errorf(model.KindRejected, "400")
	wait := func(seconds int) error {
		return &model.Error{Kind: model.KindRateLimited, RetryAfter: seconds, Message: "429"}
	}
	final := &model.Error{Kind: model.KindUnavailable, Final: true}
	for name, test := range map[string]struct {
		first, second error
		used          bool // the fallback
		kind          model.Kind
		retryAfter    int
		final         bool
	}{
		"first works":       {nil, bad, false, "", 0, false},
		"first is down":     {down, nil, true, "", 0, false},
		"first is final":    {final, nil, true, "", 0, false},
		"first rejects":     {bad, nil, false, model.KindRejected, 0, false},
		"both wait":         {wait(60), wait(5), true, model.KindRateLimited, 5, false},
		"fallback rejects":  {wait(60), bad, true, model.KindRateLimited, 60, false},
		"both final":        {final, final, true, model.KindUnavailable, 0, true},
		"fallback can wait": {final, wait(5), true, model.KindUnavailable, 0, false},
		"canceled":          {context.Canceled, nil, false, "", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			used := false
			m := model.WithFallback(generator(func() error { return test.first }), generator(func() error { used = true; return test.second }))
			_, err := m.Generate(t.Context(), &model.Request{}, nil)
			var got model.Error
			if e, ok := errors.AsType[*model.Error](err); ok {
				got = *e
			}
			if got, want := [...]any{used, got.Kind, got.RetryAfter, got.Final}, [...]any{test.used, test.kind, test.retryAfter, test.final}; got != want {
				t.Errorf("fallback used, kind, time to wait, final: got %v, want %v", got, want)
			}
		})
	}
}

// TestWithFallback_restart checks that the message begins again if the first model has begun it.
func TestWithFallback_restart(t *testing.T) {
	first := &attempts{errs: []error{model.Errorf(model.KindConnection, "broken")}, text: "Half"}
	second := &attempts{text: "Whole"}
	text := ""
	r := &model.Request{OnRestart: func() { text = "" }}
	if _, err := model.WithFallback(first, second).Generate(t.Context(), r, func(piece string) { text += piece }); err != nil || text != "Whole" {
		t.Errorf("text %q, error %v", text, err)
	}
	if _, err := model.WithFallback(&attempts{errs: first.errs, text: "Half"}, second).Generate(t.Context(), &model.Request{}, func(string) {}); err == nil || len(second.times) != 1 {
		t.Error(fmt.Errorf("a response that was passed on was replaced: %w", err))
	}
}
