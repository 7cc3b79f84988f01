package mcpadapter

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/negotiation"
	"github.com/fairwayhq/fairway/mcpadapter/internal/stream"
	"github.com/fairwayhq/fairway/mcpadapter/internal/subscription"
	"github.com/fairwayhq/fairway/mcpadapter/internal/task"
)

// serveStream serves GET: it opens the stream that sends notifications and server requests to a
// client of a revision before 2026-07-28 (MCP 2025-11-25, Streamable HTTP, Listening for Messages
// from the Server).
func (h *httpExchange) serveStream(w http.ResponseWriter, r *http.Request) *jsonrpc.Fault {
	stream := stream.NewEventStream(w, h.server.writeWait)
	defer stream.Close()
	q, watcher := newWatchRequest(&h.message), subscription.NewWatcher(subscription.All)
	leave, f := h.server.join(watcher, h.clientIdentity())
	if f != nil {
		f.Anonymous = true
		return f
	}
	defer leave()
	if h.session != nil {
		defer watcher.CloseAt(h.session.Expires)()
	}
	defer watcher.CloseAt(h.site.Expires)()
	watch := &subscription.Watch{Host: &h.server.host, Watcher: watcher, Out: stream, KeepAlive: stream.Comment}
	if h.state != nil {
		forget := h.state.Watch(watcher)
		defer forget()
		watch.Resources, watch.Stamp = func() []string { return h.state.WatchedBy(watcher) }, q.stamp
		watch.Seen = &h.state.Seen
	}
	h.status = 0 // the stream itself is the response
	if stream.Open() != nil {
		return nil
	}
	watch.Lists = q.newListWatch()
	if h.version.SendsPrimingEvent() {
		watch.Lists.EventID = func(d subscription.Digests) string { return d.EventID(rand.Text()) }
	}
	if h.session != nil && h.state != nil {
		watch.Lists.OnSent = func(d subscription.Digests) { h.state.SetKnownLists(h.session.Lists, d) }
	}
	if watch.Begin(h.knownLists(r.Header)) != nil {
		return nil
	}
	watch.Run(r.Context())
	return nil
}

// knownLists returns the lists that a client knew when it opened the stream: those of the event in
// Last-Event-ID, or else those of its session. Without either, it returns the current ones.
func (h *httpExchange) knownLists(header http.Header) subscription.Digests {
	if id, sent := negotiation.HeaderValue(header, "Last-Event-Id"); sent {
		if known, ok := subscription.DigestsOfEvent(id); ok {
			return known
		}
	}
	switch {
	case h.session == nil:
		return h.wholeCatalog().Digests()
	case h.state == nil:
		return h.session.Lists
	}
	return h.state.KnownLists(h.session.Lists)
}

// clientIdentity returns the identity of the client, by which its streams are counted.
func (m *message) clientIdentity() string {
	if m.connection != nil {
		return m.connection.client
	}
	return clientOf(m.site, m.remote)
}

// listen serves subscriptions/listen, which takes the place of the stream on GET and of
// resources/subscribe in 2026-07-28. The response is a stream with the selected notifications, which
// stays open until the client or the server closes it.
func (q watchRequest) listen() *jsonrpc.Fault {
	raw := wire.MemberOf(q.params.raw, "notifications")
	if raw.Kind() != '{' {
		return jsonrpc.BadParams("params.notifications must be an object with the requested notifications")
	}
	wanted, f := subscription.ReadFilter(raw)
	if f != nil {
		return f
	}
	if q.channel == nil {
		return jsonrpc.Faultf(http.StatusNotAcceptable, jsonrpc.InvalidRequest,
			"subscriptions/listen opens a stream: add text/event-stream to the Accept header")
	}
	wanted.Resources = slices.DeleteFunc(wanted.Resources, func(uri string) bool { return !q.watchable(uri) })
	tasks, f := q.listened(wanted.Tasks)
	if f != nil {
		return f
	}
	wanted.Tasks = nil
	for _, r := range tasks {
		wanted.Tasks = append(wanted.Tasks, r.ID)
	}
	id := q.id.Clone()
	watcher := subscription.NewWatcher(wanted.Changes)
	leave, f := q.server.join(watcher, q.clientIdentity())
	if f != nil {
		return f
	}
	defer leave()
	watch := &subscription.Watch{Host: &q.server.host, Watcher: watcher, Out: q.channel, Meta: id, Lists: q.newListWatch()}
	if q.connection != nil {
		watch.Ended = q.connection.ended
	} else if events, ok := q.channel.(*responseEvents); ok {
		watch.KeepAlive = events.Comment
		defer watcher.CloseAt(q.site.Expires)()
	}
	if len(wanted.Resources) > 0 {
		watch.Resources, watch.Stamp = func() []string { return wanted.Resources }, q.stamp
	}
	honored := wanted.AppendTo([]byte(`"notifications":`))
	if q.channel.Send(watch.Notification("notifications/subscriptions/acknowledged", honored)) != nil {
		return nil
	}
	defer q.notifyOfTasks(watch, tasks)()
	if watch.Run(q.ctx) == subscription.ClientGone {
		return nil
	}
	b := append(q.beginResult(), `"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":`...)
	q.out.B = append(append(b, id...), "}}}"...)
	return nil
}

// listened returns the tasks with these ids that the caller has.
func (q watchRequest) listened(ids []string) (records []*task.Record, f *jsonrpc.Fault) {
	if len(ids) == 0 || q.server.tasks == nil {
		return nil, nil
	}
	if !q.client.Has(elicit.CanTask) {
		return nil, missingTasks()
	}
	for _, id := range ids {
		if r, err := q.server.tasks.Get(q.ctx, q.site.taskOwner(), id); err == nil {
			records = append(records, r)
		}
	}
	return records, nil
}

// notifyOfTasks sends notifications about tasks until the returned function is called.
func (q watchRequest) notifyOfTasks(watch *subscription.Watch, records []*task.Record) (stop func()) {
	ctx, cancel := context.WithCancel(q.ctx)
	closing := context.AfterFunc(q.server.open, cancel)
	var following sync.WaitGroup
	for _, r := range records {
		following.Go(func() { q.notifyOf(ctx, watch, r) })
	}
	return func() { closing(); cancel(); following.Wait() }
}

// notifyOf sends a notification for each change of a task.
func (q watchRequest) notifyOf(ctx context.Context, watch *subscription.Watch, r *task.Record) {
	var sent time.Time
	m := *q.message
	m.ctx = ctx
	_, _ = taskRequest{&m}.follow(ctx, r, func(r *task.Record) bool { // an error ends the notifications
		if r.Updated.Equal(sent) {
			return true
		}
		sent = r.Updated
		return watch.Out.Send(watch.Notification("notifications/tasks", r.AppendDetails(nil))) == nil
	})
}
