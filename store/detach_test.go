package store_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// valueKey is the key of a value in a context.
type valueKey struct{}

func TestDetach_outlives_its_parent(t *testing.T) {
	parent, cancelParent := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "value"))
	cancelParent()
	ctx, cancel := store.Detach(parent, time.Hour)
	select {
	case <-ctx.Done():
		t.Error("the context has ended with its parent")
	default:
	}
	if err := ctx.Err(); err != nil {
		t.Errorf("error %v, want none", err)
	}
	if got := ctx.Value(valueKey{}); got != "value" {
		t.Errorf("value %v, want that of the parent", got)
	}
	cancel()
	<-ctx.Done()
	if err := ctx.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("after cancel, the error is %v", err)
	}
}

func TestDetach_ends_after_its_limit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := store.Detach(t.Context(), time.Minute)
		defer cancel()
		if until, ok := ctx.Deadline(); !ok || !until.Equal(began.Add(time.Minute)) {
			t.Errorf("deadline %v (%t), want a minute later than %v", until, ok, began)
		}
		<-time.After(time.Second) // the limit counts from Detach, not from the first wait
		child, cancelChild := context.WithCancel(ctx)
		defer cancelChild()
		<-child.Done()
		if took := time.Since(began); took != time.Minute {
			t.Errorf("the context has ended after %v", took)
		}
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(child.Err(), context.DeadlineExceeded) {
			t.Errorf("errors %v and %v, want DeadlineExceeded", ctx.Err(), child.Err())
		}
	})
}
