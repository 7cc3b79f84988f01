package mcpadapter

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/internal/sse"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
	"github.com/fairwayhq/fairway/mcpadapter/internal/task"
)

// serveStream serves GET: it opens the stream that sends notifications and server requests to a
// client of a revision before 2026-07-28 (MCP 2025-11-25, Streamable HTTP, Listening for Messages
// from the Server).
func (h *httpExchange) serveStream(w http.ResponseWriter, r *http.Request) *protocol.Fault {
	stream := sse.NewWriter(w, h.server.writeWait)
	defer stream.Close()
	watcher, owner := session.NewWatcher(session.All), h.owner(h.site)
	leave, f := h.server.streams.Join(watcher, owner)
	if f != nil {
		return f.WithoutID()
	}
	defer leave()
	if h.session != nil {
		defer watcher.CloseAt(h.session.Expires)()
	}
	defer watcher.CloseAt(h.site.Expires)()
	watch := &session.Watch{Host: &h.server.host, Watcher: watcher, Out: stream, KeepAlive: stream.Comment}
	if h.state != nil {
		forget := h.state.Watch(watcher)
		defer forget()
		watch.State, watch.Stamp = h.state, h.server.newPolling(h.site, owner).stamp
	}
	h.status = 0 // the stream itself is the response
	if stream.Open() != nil {
		return nil
	}
	watch.Lists = h.server.newListWatch(h.site)
	if h.terms.Version.SendsPrimingEvent() {
		watch.Lists.EventID = func(d session.Digests) string { return d.EventID(rand.Text()) }
	}
	if h.session != nil && h.state != nil {
		watch.Lists.OnSent = func(d session.Digests) { h.state.SetKnownLists(h.session.Lists, d) }
	}
	if watch.Begin(h.knownLists(r.Header)) != nil {
		return nil
	}
	watch.Run(r.Context())
	return nil
}

// knownLists returns the lists that a client knew when it opened the stream: those of the event in
// Last-Event-ID, or else those of its session. Without either, it returns the current ones.
func (h *httpExchange) knownLists(header http.Header) session.Digests {
	if id, sent := protocol.HeaderValue(header, "Last-Event-Id"); sent {
		if known, ok := session.DigestsOfEvent(id); ok {
			return known
		}
	}
	switch {
	case h.session == nil:
		return h.server.catalogOf(h.tools).Digests()
	case h.state == nil:
		return h.session.Lists
	}
	return h.state.KnownLists(h.session.Lists)
}

// listen serves subscriptions/listen, which takes the place of the stream on GET and of
// resources/subscribe in 2026-07-28. The response is a stream with the selected notifications, which
// stays open until the client or the server closes it.
func listen(q *request, w *response) *protocol.Fault {
	raw := strictjson.MemberOf(q.params.raw, "notifications")
	if raw.Kind() != '{' {
		return protocol.BadParams("params.notifications must be an object with the requested notifications")
	}
	wanted, f := session.ReadFilter(raw)
	if f != nil {
		return f
	}
	wanted.Resources = slices.DeleteFunc(wanted.Resources, func(uri string) bool { return !watchable(q, uri) })
	tasks, f := listened(q, wanted.Tasks)
	if f != nil {
		return f
	}
	wanted.Tasks = nil
	for _, r := range tasks {
		wanted.Tasks = append(wanted.Tasks, r.ID)
	}
	watch, leave, f := openWatch(q, wanted.Changes)
	if f != nil {
		return f
	}
	defer leave()
	watch.Lists = q.server.newListWatch(q.site)
	if len(wanted.Resources) > 0 {
		watch.State, watch.Stamp = new(session.State), q.server.newPolling(q.site, q.owner(q.site)).stamp
		watch.State.Watch(watch.Watcher)
		for _, uri := range wanted.Resources {
			watch.State.Subscribe(uri)
		}
	}
	honored := wanted.AppendTo([]byte(`"notifications":`))
	if q.channel.Send(watch.Notification("notifications/subscriptions/acknowledged", honored)) != nil {
		return nil
	}
	defer notifyOfTasks(q, watch, tasks)()
	if watch.Run(q.ctx) == session.ClientGone {
		return nil
	}
	b := append(w.begin(), `"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":`...)
	w.end(append(append(b, watch.Meta...), '}'))
	return nil
}

// openWatch returns a watch whose notifications precede the response of the request. The caller must call leave afterwards.
func openWatch(q *request, wanted session.Lists) (watch *session.Watch, leave func(), f *protocol.Fault) {
	if q.channel == nil {
		return nil, nil, protocol.Faultf(http.StatusNotAcceptable, protocol.InvalidRequest,
			"the response is a stream: add text/event-stream to the Accept header")
	}
	watch = &session.Watch{Host: &q.server.host, Watcher: session.NewWatcher(wanted), Out: q.channel, Meta: q.id.Clone()}
	if leave, f = q.server.streams.Join(watch.Watcher, q.owner(q.site)); f != nil {
		return nil, nil, f
	}
	if q.connection != nil {
		watch.Ended = q.connection.ended
	} else if events, ok := q.channel.(*responseEvents); ok {
		watch.KeepAlive = events.Comment
		stop, left := watch.Watcher.CloseAt(q.site.Expires), leave
		leave = func() { stop(); left() }
	}
	return watch, leave, nil
}

// listened returns the tasks with these ids that the caller has.
func listened(q *request, ids []string) (records []*task.Record, f *protocol.Fault) {
	if len(ids) == 0 || q.server.tasks == nil {
		return nil, nil
	}
	if !q.capabilities.Has(protocol.CanTask) {
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
func notifyOfTasks(q *request, watch *session.Watch, records []*task.Record) (stop func()) {
	ctx, cancel := context.WithCancel(q.ctx)
	closing := context.AfterFunc(q.server.open, cancel)
	var following sync.WaitGroup
	for _, r := range records {
		following.Go(func() { notifyOf(ctx, q, watch, r) })
	}
	return func() { closing(); cancel(); following.Wait() }
}

// notifyOf sends a notification for each change of a task.
func notifyOf(ctx context.Context, q *request, watch *session.Watch, r *task.Record) {
	var sent time.Time
	_, _ = taskRequest{q}.follow(ctx, r, func(r *task.Record) bool { // an error ends the notifications
		if r.Updated.Equal(sent) {
			return true
		}
		sent = r.Updated
		return watch.Out.Send(watch.Notification("notifications/tasks", r.AppendDetails(nil))) == nil
	})
}
