package mcpadapter

import (
	"crypto/rand"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/stream"
)

// maxWatched is the maximum number of resources that one client may watch.
const maxWatched = 64

// serveStream serves GET: it opens the stream that sends notifications and server requests to a
// client of a revision before 2026-07-28 (MCP 2025-11-25, Streamable HTTP, Listening for Messages
// from the Server).
func (x *exchange) serveStream(w http.ResponseWriter, r *http.Request) *jsonrpc.Fault {
	stream := stream.NewEventStream(w, x.server.writeWait)
	defer stream.Close()
	watcher := newWatcher(everyChange)
	leave, f := x.server.join(watcher, x.clientIdentity())
	if f != nil {
		f.Anonymous = true
		return f
	}
	defer leave()
	if x.session != nil {
		defer watcher.closeAt(x.session.expires)()
	}
	defer watcher.closeAt(x.site.Expires)()
	watch := &watch{server: x.server, watcher: watcher, out: stream, keepAlive: stream.Comment}
	if x.state != nil {
		forget := x.state.watch(watcher)
		defer forget()
		watch.resources, watch.stamp = func() []string { return x.state.watchedBy(watcher) }, x.stamp
		watch.seen = &x.state.seen
		x.setPollIdentity()
	}
	x.status = 0 // the stream itself is the response
	if stream.Open() != nil {
		return nil
	}
	watch.lists = x.newListWatch()
	if x.version.SendsPrimingEvent() {
		watch.lists.eventID = func(d listDigests) string { return d.eventID(rand.Text()) }
	}
	if x.session != nil && x.state != nil {
		watch.lists.onSent = func(d listDigests) { x.state.setKnownLists(x.session.lists, d) }
	}
	if watch.begin(x.knownLists(r.Header)) != nil {
		return nil
	}
	watch.run(r.Context())
	return nil
}

// knownLists returns the lists that a client knew when it opened the stream: those of the event in
// Last-Event-ID, or else those of its session. Without either, it returns the current ones.
func (x *exchange) knownLists(header http.Header) listDigests {
	if id, sent := headerValue(header, "Last-Event-Id"); sent {
		if known, ok := digestsOfEvent(id); ok {
			return known
		}
	}
	switch {
	case x.session == nil:
		return x.wholeCatalog().digests()
	case x.state == nil:
		return x.session.lists
	}
	return x.state.knownLists(x.session.lists)
}

// beginResult starts a stream: it sends notifications for the lists that have changed since the client
// last saw them. If there are none and the stream has event ids, it sends an empty event, from whose
// id the client can resume the stream.
func (w *watch) begin(known listDigests) error {
	if changed := known.changes(w.lists.known); changed != 0 {
		w.watcher.notify(changed)
		return nil
	}
	if stream, ok := w.out.(*stream.EventStream); ok && w.lists.eventID != nil {
		return stream.Write("", w.lists.eventID(w.lists.known), nil)
	}
	return nil
}

// watch registers a stream of the client. Notifications go to the latest stream only: a message must
// not be sent on two streams (MCP 2025-11-25, Streamable HTTP, Multiple Connections), and the older
// ones may be broken.
func (l *clientState) watch(w *watcher) (forget func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.watchers) > 0 {
		l.watchers[len(l.watchers)-1].handOver(w)
	}
	l.watchers = append(l.watchers, w)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		at := slices.Index(l.watchers, w)
		if at < 0 {
			return
		}
		last := at == len(l.watchers)-1
		if l.watchers = slices.Delete(l.watchers, at, at+1); last && at > 0 {
			w.handOver(l.watchers[at-1])
		}
	}
}

// watchedBy returns the subscribed resources if w is the stream that sends notifications, otherwise
// nil.
func (l *clientState) watchedBy(w *watcher) []string {
	l.mu.Lock()
	sends := len(l.watchers) > 0 && l.watchers[len(l.watchers)-1] == w
	l.mu.Unlock()
	if !sends {
		return nil
	}
	return l.watched()
}

// watched returns the URIs of the resources that the client has subscribed to.
func (l *clientState) watched() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	uris := make([]string, 0, len(l.watching))
	for uri := range l.watching {
		uris = append(uris, uri)
	}
	slices.Sort(uris)
	return uris
}

// A filter selects the notifications that a client listens for (MCP 2026-07-28, SubscriptionFilter).
type filter struct {
	changes   Change
	resources []string
}

// readFilter reads params.notifications of subscriptions/listen. It ignores unknown members.
func readFilter(raw jsontext.Value) (f filter, bad *jsonrpc.Fault) {
	for walk := wire.Into(raw); walk.Next(); {
		var change Change
		switch {
		case walk.Is("toolsListChanged"):
			change = ToolsChanged
		case walk.Is("promptsListChanged"):
			change = PromptsChanged
		case walk.Is("resourcesListChanged"):
			change = ResourcesChanged
		case walk.Is("resourceSubscriptions"):
			if f.resources, bad = readURIs(walk.Value); bad != nil {
				return f, bad
			}
		}
		if walk.Value.Kind() == 't' {
			f.changes |= change
		}
	}
	return f, nil
}

func readURIs(raw jsontext.Value) (uris []string, bad *jsonrpc.Fault) {
	if raw.Kind() != '[' {
		return nil, jsonrpc.BadParams("params.notifications.resourceSubscriptions must be an array of URIs")
	}
	for walk := wire.Into(raw); walk.Next(); {
		uri := wire.Text(walk.Value)
		switch {
		case uri == "":
			return nil, jsonrpc.BadParams("params.notifications.resourceSubscriptions must be an array of URIs")
		case len(uris) == maxWatched:
			return nil, jsonrpc.BadParams("at most %d resources can be watched at once", maxWatched)
		}
		uris = append(uris, uri)
	}
	return uris, nil
}

// appendTo appends the accepted filter as JSON.
func (f *filter) appendTo(dst []byte) []byte {
	dst = append(dst, '{')
	for _, n := range []struct {
		change Change
		name   string
	}{{ToolsChanged, "toolsListChanged"}, {PromptsChanged, "promptsListChanged"}, {ResourcesChanged, "resourcesListChanged"}} {
		if f.changes&n.change != 0 {
			dst = append(append(append(dst, '"'), n.name...), `":true,`...)
		}
	}
	if len(f.resources) > 0 {
		dst = append(dst, `"resourceSubscriptions":[`...)
		for _, uri := range f.resources {
			dst = append(wire.AppendString(dst, uri), ',')
		}
		dst = append(dst[:len(dst)-1], "],"...)
	}
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	return append(dst, '}')
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
	wanted, f := readFilter(raw)
	if f != nil {
		return f
	}
	if x.channel == nil {
		return jsonrpc.Faultf(http.StatusNotAcceptable, jsonrpc.InvalidRequest,
			"subscriptions/listen is answered by a stream: let the Accept header list text/event-stream")
	}
	wanted.resources = slices.DeleteFunc(wanted.resources, func(uri string) bool { return !x.watchable(uri) })
	id := x.id.Clone()
	watcher := newWatcher(wanted.changes)
	leave, f := x.server.join(watcher, x.clientIdentity())
	if f != nil {
		return f
	}
	defer leave()
	watch := &watch{server: x.server, watcher: watcher, out: x.channel, meta: id, lists: x.newListWatch()}
	if x.connection != nil {
		watch.ended = x.connection.ended
	} else if stream, ok := x.channel.(*stream.EventStream); ok {
		watch.keepAlive = stream.Comment
		defer watcher.closeAt(x.site.Expires)()
	}
	if len(wanted.resources) > 0 {
		x.setPollIdentity()
		watch.resources, watch.stamp = func() []string { return wanted.resources }, x.stamp
	}
	honored := wanted.appendTo([]byte(`"notifications":`))
	if x.channel.Send(watch.notification("notifications/subscriptions/acknowledged", honored)) != nil {
		return nil
	}
	if watch.run(x.ctx) == clientGone {
		return nil
	}
	b := append(x.beginResult(), `"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":`...)
	x.out.B = append(append(b, id...), "}}}"...)
	return nil
}
