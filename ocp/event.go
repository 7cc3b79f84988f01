package ocp

import (
	"context"

	"github.com/fairwayhq/fairway/ocp/stream"
)

// An Event is what an answer that streams says before its end: progress, a line
// of the API's log, or a part of the content. Its values are good only until the
// listener returns.
type Event = stream.Event

// EventKind says what an Event tells.
type EventKind = stream.Kind

// The kinds of events.
const (
	EventProgress = stream.Progress
	EventLog      = stream.Log
	EventContent  = stream.Content
)

type listenerKey struct{}

// ContextWithListener returns a context for Caller.Call. If the answer streams,
// listener is called with its events as they arrive, in the goroutine of the call
// and one after the other. The API waits for it: a listener that takes long slows
// the stream down, and one that waits for ever must heed the context. The Result
// of the call is the same with and without a listener.
func ContextWithListener(ctx context.Context, listener func(Event)) context.Context {
	return context.WithValue(ctx, listenerKey{}, listener)
}

// ListenerFromContext returns the listener of a call, nil if nobody listens.
func ListenerFromContext(ctx context.Context) func(Event) {
	listener, _ := ctx.Value(listenerKey{}).(func(Event))
	return listener
}
