package mcpadapter

import (
	"crypto/rand"
	"net/http"
	"slices"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/stream"
	"github.com/fairwayhq/fairway/mcpadapter/internal/subscription"
)

// serveStream serves GET: it opens the stream that sends notifications and server requests to a
// client of a revision before 2026-07-28 (MCP 2025-11-25, Streamable HTTP, Listening for Messages
// from the Server).
func (x *exchange) serveStream(w http.ResponseWriter, r *http.Request) *jsonrpc.Fault {
	stream := stream.NewEventStream(w, x.server.writeWait)
	defer stream.Close()
	watcher := subscription.NewWatcher(subscription.All)
	leave, f := x.server.join(watcher, x.clientIdentity())
	if f != nil {
		f.Anonymous = true
		return f
	}
	defer leave()
	if x.session != nil {
		defer watcher.CloseAt(x.session.Expires)()
	}
	defer watcher.CloseAt(x.site.Expires)()
	watch := &subscription.Watch{Host: &x.server.host, Watcher: watcher, Out: stream, KeepAlive: stream.Comment}
	if x.state != nil {
		forget := x.state.Watch(watcher)
		defer forget()
		watch.Resources, watch.Stamp = func() []string { return x.state.WatchedBy(watcher) }, x.stamp
		watch.Seen = &x.state.Seen
		x.setPollIdentity()
	}
	x.status = 0 // the stream itself is the response
	if stream.Open() != nil {
		return nil
	}
	watch.Lists = x.newListWatch()
	if x.version.SendsPrimingEvent() {
		watch.Lists.EventID = func(d subscription.Digests) string { return d.EventID(rand.Text()) }
	}
	if x.session != nil && x.state != nil {
		watch.Lists.OnSent = func(d subscription.Digests) { x.state.SetKnownLists(x.session.Lists, d) }
	}
	if watch.Begin(x.knownLists(r.Header)) != nil {
		return nil
	}
	watch.Run(r.Context())
	return nil
}

// knownLists returns the lists that a client knew when it opened the stream: those of the event in
// Last-Event-ID, or else those of its session. Without either, it returns the current ones.
func (x *exchange) knownLists(header http.Header) subscription.Digests {
	if id, sent := headerValue(header, "Last-Event-Id"); sent {
		if known, ok := subscription.DigestsOfEvent(id); ok {
			return known
		}
	}
	switch {
	case x.session == nil:
		return x.wholeCatalog().digests()
	case x.state == nil:
		return x.session.Lists
	}
	return x.state.KnownLists(x.session.Lists)
}

// clientIdentity returns the identity of the client, by which its streams are counted.
func (x *exchange) clientIdentity() string {
	if x.connection != nil {
		return x.connection.client
	}
	return clientOf(x.site, x.remote)
}

// listen serves subscriptions/listen, which takes the place of the stream on GET and of
// resources/subscribe in 2026-07-28. The response is a stream with the selected notifications, which
// stays open until the client or the server closes it.
func (x *exchange) listen() *jsonrpc.Fault {
	raw := wire.MemberOf(x.params.raw, "notifications")
	if raw.Kind() != '{' {
		return jsonrpc.BadParams("params.notifications must be an object that says what to listen for")
	}
	wanted, f := subscription.ReadFilter(raw)
	if f != nil {
		return f
	}
	if x.channel == nil {
		return jsonrpc.Faultf(http.StatusNotAcceptable, jsonrpc.InvalidRequest,
			"subscriptions/listen is answered by a stream: let the Accept header list text/event-stream")
	}
	wanted.Resources = slices.DeleteFunc(wanted.Resources, func(uri string) bool { return !x.watchable(uri) })
	id := x.id.Clone()
	watcher := subscription.NewWatcher(wanted.Changes)
	leave, f := x.server.join(watcher, x.clientIdentity())
	if f != nil {
		return f
	}
	defer leave()
	watch := &subscription.Watch{Host: &x.server.host, Watcher: watcher, Out: x.channel, Meta: id, Lists: x.newListWatch()}
	if x.connection != nil {
		watch.Ended = x.connection.ended
	} else if stream, ok := x.channel.(*stream.EventStream); ok {
		watch.KeepAlive = stream.Comment
		defer watcher.CloseAt(x.site.Expires)()
	}
	if len(wanted.Resources) > 0 {
		x.setPollIdentity()
		watch.Resources, watch.Stamp = func() []string { return wanted.Resources }, x.stamp
	}
	honored := wanted.AppendTo([]byte(`"notifications":`))
	if x.channel.Send(watch.Notification("notifications/subscriptions/acknowledged", honored)) != nil {
		return nil
	}
	if watch.Run(x.ctx) == subscription.ClientGone {
		return nil
	}
	b := append(x.beginResult(), `"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":`...)
	x.out.B = append(append(b, id...), "}}}"...)
	return nil
}
