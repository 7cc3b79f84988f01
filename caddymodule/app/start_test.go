package app

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
)

// fakeHandler is an oagent handler that notes what the app does with it.
type fakeHandler struct {
	GuardHandler // the methods that are not called
	startErr     error
	did          []string
}

func (h *fakeHandler) StartWork() error {
	h.did = append(h.did, "start")
	return h.startErr
}

func (h *fakeHandler) StopWork()                { h.did = append(h.did, "stop") }
func (h *fakeHandler) WakeReviewRequests()      { h.did = append(h.did, "wake") }
func (h *fakeHandler) ReviewDecided(run string) { h.did = append(h.did, "decided "+run) }

func TestAwaitStart(t *testing.T) {
	config := boltIn(filepath.Join(t.TempDir(), "store.db"))
	app, end := notStarted(t, config)
	defer end()
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := app.AwaitStart(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before the start: error %v, want the end of the context", err)
	}
	if err := app.Start(); err != nil {
		t.Fatal(err)
	}
	if err := app.AwaitStart(t.Context()); err != nil {
		t.Errorf("after the start: %v", err)
	}
	other, endOther := notStarted(t, config)
	endOther()
	if err := other.AwaitStart(t.Context()); !errors.Is(err, errEnded) {
		t.Errorf("after the end of a configuration that never started: error %v, want %v", err, errEnded)
	}
}

// TestStart_fails checks that a handler that fails to start is stopped, because a part of it may have started.
func TestStart_fails(t *testing.T) {
	app, end := notStarted(t, boltIn(filepath.Join(t.TempDir(), "store.db")))
	defer end()
	good, bad, unused := new(fakeHandler), &fakeHandler{startErr: errors.New("no")}, new(fakeHandler)
	app.GuardHandlers = []GuardHandler{good, bad, unused}
	if err := app.Start(); !errors.Is(err, bad.startErr) {
		t.Errorf("error %v", err)
	}
	for name, c := range map[string]struct {
		handler *fakeHandler
		want    []string
	}{"good": {good, []string{"start", "stop"}}, "bad": {bad, []string{"start", "stop"}}, "unused": {unused, nil}} {
		if !slices.Equal(c.handler.did, c.want) {
			t.Errorf("%s: %q, want %q", name, c.handler.did, c.want)
		}
	}
}

// TestEvents_after_a_reload checks that the handlers of the running configuration learn of what the last
// requests to the one before did.
func TestEvents_after_a_reload(t *testing.T) {
	config := boltIn(filepath.Join(t.TempDir(), "store.db"))
	app, end := provisioned(t, config)
	defer end()
	next, endNext := notStarted(t, config)
	defer endNext()
	handler := new(fakeHandler)
	next.GuardHandlers = []GuardHandler{handler}
	if err := next.Start(); err != nil {
		t.Fatal(err)
	}
	app.events = &eventEmitter{queue: make(chan event, 2), closed: make(chan struct{})}
	app.emitGuardEvent(oagent.Event{Kind: oagent.EventReviewAsked, Review: new(review.Review)})
	app.emitGuardEvent(oagent.Event{Kind: oagent.EventReviewDecided, Review: &review.Review{Engagement: "e1"}, User: engagement.User{ID: "ann"}})
	if want := []string{"start", "wake", "decided e1"}; !slices.Equal(handler.did, want) {
		t.Errorf("the handler did %q, want %q", handler.did, want)
	}
}
