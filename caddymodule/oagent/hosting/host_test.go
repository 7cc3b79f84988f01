package hosting

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestRunner_waits_for_Open(t *testing.T) {
	h := New(Options{Realm: func() string { return t.Name() }})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := h.Runner(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before Open: error %v, want the end of the context", err)
	}
	h.Release()
	if _, err := h.Runner(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("after Release: error %v, want %v", err, errClosed)
	}
}
