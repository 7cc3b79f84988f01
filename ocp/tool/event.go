package tool

import (
	"context"

	"github.com/fairwayhq/fairway/ocp/stream"
)

// An Event is what a streaming response reports before its end: progress, a line of the
// API's log, or a part of the content. Its values are valid only until the listener
// returns.
type Event = stream.Event

// EventKind is the kind of an Event.
type EventKind = stream.Kind

// The kinds of events.
const (
	EventProgress = stream.Progress
	EventLog      = stream.Log
	EventContent  = stream.Content
)

type listenerKey struct{}

// ContextWithListener returns a context for Caller.Call. If the response streams, listener
// is called with each event as it arrives, one at a time, in the goroutine of the call. A
// slow listener slows down the stream. A listener that blocks must return when the context
// is done. The listener does not change the Result of the call.
func ContextWithListener(ctx context.Context, listener func(Event)) context.Context {
	return context.WithValue(ctx, listenerKey{}, listener)
}

// ListenerFromContext returns the listener of a call, or nil if there is none.
func ListenerFromContext(ctx context.Context) func(Event) {
	listener, _ := ctx.Value(listenerKey{}).(func(Event))
	return listener
}
