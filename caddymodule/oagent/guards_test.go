package oagent

import (
	"slices"
	"sync/atomic"
	"testing"
)

// TestGuards_events_after_a_reload checks that the handlers of the running configuration learn of what the last
// requests to the one before did.
func TestGuards_events_after_a_reload(t *testing.T) {
	latest := new(atomic.Pointer[Guards])
	before, after := &Guards{latest: latest, Handlers: []*Handler{{}}}, &Guards{latest: latest, Handlers: []*Handler{{}}}
	latest.Store(before)
	if got := before.workingHandlers(); !slices.Equal(got, before.Handlers) {
		t.Errorf("before the reload: %d handlers, want its own", len(got))
	}
	latest.Store(after)
	if got, want := before.workingHandlers(), []*Handler{before.Handlers[0], after.Handlers[0]}; !slices.Equal(got, want) {
		t.Errorf("after the reload: %d handlers, want those of both configurations", len(got))
	}
}
