package session

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/sse"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

// A Host is the server of the streams.
type Host struct {
	Open         context.Context // ends when the server closes
	KeepAlive    time.Duration   // between comments on an idle stream
	PollInterval time.Duration   // between polls of a watched resource

	// Successor returns the digests of the server that replaces this one. ok is false if there is none
	// or if it has no tools yet.
	Successor func() (d Digests, ok bool)
}

// A Watch sends notifications about changes on one stream until the client or the server ends it.
type Watch struct {
	Host      *Host
	Watcher   *Watcher
	Out       protocol.Channel
	Ended     <-chan struct{} // closed when the client sends no more messages; nil if that does not end the watch
	KeepAlive func() error    // nil if the transport needs no comments
	Meta      jsontext.Value  // id of the subscription; nil before 2026-07-28
	Lists     *ListWatch      // nil if changes come only from Notify

	// State has the watched resources, and Stamp returns the version of a resource. Both are nil if no
	// resources can be watched.
	State *State
	Stamp func(ctx context.Context, uri string) (string, bool)
}

// Begin starts a stream: it sends notifications for the lists that have changed since the client
// last saw them. If there are none and the stream has event ids, it sends an empty event, from whose
// id the client can resume the stream.
func (w *Watch) Begin(known Digests) error {
	if changed := known.Changes(w.Lists.Known); changed != 0 {
		w.Watcher.notify(changed)
		return nil
	}
	if stream, ok := w.Out.(*sse.Writer); ok && w.Lists.EventID != nil {
		return stream.Write("", w.Lists.EventID(w.Lists.Known), nil)
	}
	return nil
}

// An End is the reason why a stream ended.
type End int

// The values of End.
const (
	ClientGone    End = iota // the client has disconnected
	streamExpired            // the session or the credentials expired
	ServerClosing            // the server closes, or the client sends no more messages
)

// A ListWatch tracks which lists the client of a stream knows.
type ListWatch struct {
	Known   Digests
	Current func() Digests // returns the digests of the current tools
	OnSent  func(Digests)  // stores which lists the client knows; nil if not needed
	EventID func(Digests) string
}

// Run sends notifications until the stream ends. If another server replaces this one, the last
// notifications report the lists that differ there. If this server ends the stream, the client learns when to
// open the next one.
func (w *Watch) Run(ctx context.Context) End {
	end := w.notify(ctx)
	if end == ServerClosing && w.Lists != nil {
		_ = w.sendSuccessorChanges() // an error means that the client has disconnected
	}
	if stream, ok := w.Out.(*sse.Writer); ok && end == ServerClosing {
		_ = stream.Retry()
	}
	return end
}

// sendSuccessorChanges sends the last notifications before the stream closes. They compare the known
// lists with those of the server that replaces this one.
func (w *Watch) sendSuccessorChanges() error {
	lists := w.Lists.Known
	if current, ok := w.Host.Successor(); ok {
		lists = current
	}
	w.Watcher.notify(w.Lists.Known.Changes(lists))
	return w.sendPending(lists)
}

// notify sends notifications until the stream ends.
func (w *Watch) notify(ctx context.Context) End {
	// Polls may be slow. Cancel them when the server closes or the stream expires.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.Host.Open, cancel)()

	polled, stop := w.startPolling(ctx)
	defer stop()
	alive := time.NewTicker(w.Host.KeepAlive)
	defer alive.Stop()
	var err error
	for err == nil {
		select {
		case <-ctx.Done():
			if w.Host.Open.Err() != nil {
				return ServerClosing
			}
			return ClientGone
		case <-w.Watcher.end:
			return streamExpired
		case <-w.Ended:
			return ServerClosing
		case <-w.Host.Open.Done():
			return ServerClosing
		case <-w.Watcher.wake:
			var lists Digests
			if w.Lists != nil {
				lists = w.Lists.Current()
			}
			err = w.sendPending(lists)
		case end := <-polled:
			if end.panicked != nil {
				panic(end.panicked)
			}
			err = end.err
		case <-alive.C:
			if w.KeepAlive != nil {
				err = w.KeepAlive()
			}
		}
	}
	return ClientGone
}

// A pollEnd is the reason why polling ended.
type pollEnd struct {
	err      error // the client has disconnected; nil if the context ended
	panicked any   // panic value, to be raised in the goroutine of the request
}

// startPolling polls the watched resources in a separate goroutine, because the API may be slow and
// the rate low. stop ends the polling and waits for the goroutine.
func (w *Watch) startPolling(ctx context.Context) (ended <-chan pollEnd, stop func()) {
	if w.State == nil {
		return nil, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	end := make(chan pollEnd, 1)
	var polling sync.WaitGroup
	polling.Go(func() {
		defer func() {
			if value := recover(); value != nil {
				end <- pollEnd{panicked: fmt.Sprintf("%v\n%s", value, debug.Stack())}
			}
		}()
		if err := w.poll(ctx); err != nil {
			end <- pollEnd{err: err}
		}
	})
	return end, func() {
		cancel()
		polling.Wait()
	}
}

// poll checks the resources once per PollInterval until the context ends.
func (w *Watch) poll(ctx context.Context) error {
	tick := time.NewTicker(w.Host.PollInterval)
	defer tick.Stop()
	for {
		if err := w.pollOnce(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// sendPending sends the pending notifications and records that the client knows these lists.
func (w *Watch) sendPending(now Digests) error {
	for _, message := range w.Watcher.take() {
		if err := w.Out.Send(message); err != nil {
			return err
		}
	}
	pending := Lists(w.Watcher.pending.Swap(0))
	for _, n := range notifications {
		if pending&n.list == 0 {
			continue
		}
		if err := w.sendChange(n.method, now); err != nil {
			return err
		}
	}
	if pending != 0 && w.Lists != nil {
		w.Lists.Known = now
		if w.Lists.OnSent != nil {
			w.Lists.OnSent(now)
		}
	}
	return nil
}

// sendChange sends the notification for a list. On streams with event ids, the id encodes the lists
// that the client then knows.
func (w *Watch) sendChange(method string, now Digests) error {
	message := w.Notification(method, nil)
	if stream, ok := w.Out.(*sse.Writer); ok && w.Lists != nil && w.Lists.EventID != nil {
		return stream.Write("message", w.Lists.EventID(now), message)
	}
	return w.Out.Send(message)
}

// pollOnce compares the versions of the watched resources with the last known ones and sends a
// notification for each that changed.
func (w *Watch) pollOnce(ctx context.Context) error {
	for _, uri := range w.State.WatchedBy(w.Watcher) {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // run sees it, and why
		}
		stamp, ok := w.Stamp(ctx, uri)
		if !ok {
			continue
		}
		before, changed := w.State.Saw(uri, stamp)
		if !changed {
			continue
		}
		params := strictjson.AppendString([]byte(`"uri":`), uri)
		if err := w.Out.Send(w.Notification("notifications/resources/updated", params)); err != nil {
			w.State.Saw(uri, before) // the client's next stream reports the change
			return err
		}
	}
	return nil
}

// Notification returns a notification. params are the members of its params object.
func (w *Watch) Notification(method string, params []byte) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","method":"`), method...)
	b = append(b, `","params":{`...)
	b = append(b, params...)
	if w.Meta != nil {
		b = append(append(append(strictjson.Comma(b), `"_meta":{"io.modelcontextprotocol/subscriptionId":`...), w.Meta...), '}')
	}
	return append(b, "}}"...)
}
