package mcpadapter

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/stream"
	"github.com/fairwayhq/fairway/mcpadapter/library"
)

// Default values of Options for streams.
const (
	DefaultMaxStreams       = 10_000           // open streams
	DefaultMaxClientStreams = 64               // open streams per client
	DefaultKeepAlive        = 25 * time.Second // between comments on an idle stream
	DefaultWatchInterval    = 10 * time.Second // between polls of a watched resource
)

// A Change is a set of changed lists, about which clients with an open stream are notified.
type Change uint32

// The values of Change.
const (
	ToolsChanged Change = 1 << iota
	PromptsChanged
	ResourcesChanged

	everyChange = ToolsChanged | PromptsChanged | ResourcesChanged
)

// notifications maps changes to the methods of their notifications.
var notifications = []struct {
	change Change
	method string
}{
	{ToolsChanged, "notifications/tools/list_changed"},
	{PromptsChanged, "notifications/prompts/list_changed"},
	{ResourcesChanged, "notifications/resources/list_changed"},
}

// Notify notifies listening clients about a change. It does not wait for them.
func (s *Server) Notify(c Change) {
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	for w := range s.streams.watchers {
		w.notify(c)
	}
}

// Close closes all streams cleanly and gives up requests that wait for a client's response. Other
// requests in progress are completed.
func (s *Server) Close() {
	s.Replace(0)
	s.giveUp()
}

// Replace closes all streams cleanly because another Server replaces this one. Before they close,
// clients are notified about the lists that differ in the new Server. Calls that wait for a client's
// response are given up after grace, because the new Server can still deliver the response; if there
// is no new Server with the same Memory and Instance, they are given up at once.
func (s *Server) Replace(grace time.Duration) {
	if next := s.memory.detach(s); next != nil {
		s.next.CompareAndSwap(nil, next)
	}
	s.close()
	if s.next.Load() == nil {
		s.giveUp()
		return
	}
	time.AfterFunc(grace, s.giveUp)
}

// A watcher collects the pending changes for one open stream.
type watcher struct {
	wanted  atomic.Uint32
	pending atomic.Uint32
	wake    chan struct{}
	end     chan struct{}
	once    sync.Once
}

func newWatcher(wanted Change) *watcher {
	w := &watcher{wake: make(chan struct{}, 1), end: make(chan struct{})}
	w.wanted.Store(uint32(wanted))
	return w
}

// notify adds a change to the pending ones and wakes the stream. It never blocks; several changes
// of a list become one notification.
func (w *watcher) notify(c Change) {
	if c &= Change(w.wanted.Load()); c == 0 {
		return
	}
	w.pending.Or(uint32(c))
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// handOver moves the notifications, including the pending ones, to another stream of the client.
func (w *watcher) handOver(to *watcher) {
	to.wanted.Store(uint32(everyChange))
	w.wanted.Store(0)
	to.notify(Change(w.pending.Swap(0)))
}

// closeAt closes the watcher at the given time, when its session or its credentials expire. The zero
// time means never. The caller must call stop afterwards.
func (w *watcher) closeAt(end time.Time) (stop func()) {
	if end.IsZero() {
		return func() {}
	}
	timer := time.AfterFunc(time.Until(end), w.close)
	return func() { timer.Stop() }
}

func (w *watcher) close() {
	w.once.Do(func() { close(w.end) })
}

// streams are the open streams of a server.
type streams struct {
	mu       sync.Mutex
	watchers map[*watcher]struct{}
	clients  map[string]int // number of open streams by client
}

// join registers a stream. The caller must call leave when the stream ends.
func (s *Server) join(w *watcher, client string) (leave func(), f *jsonrpc.Fault) {
	set := &s.streams
	set.mu.Lock()
	defer set.mu.Unlock()
	switch {
	case len(set.watchers) >= s.options.MaxStreams:
		return nil, tooManyStreams(http.StatusServiceUnavailable, "this server has as many open streams as it may have: try again later")
	case set.clients[client] >= s.options.MaxClientStreams:
		return nil, tooManyStreams(http.StatusTooManyRequests, "you have %d open streams, which is the most: close one first", set.clients[client])
	}
	if set.watchers == nil {
		set.watchers, set.clients = make(map[*watcher]struct{}), make(map[string]int)
	}
	set.watchers[w] = struct{}{}
	set.clients[client]++
	return func() {
		set.mu.Lock()
		defer set.mu.Unlock()
		delete(set.watchers, w)
		if set.clients[client]--; set.clients[client] == 0 {
			delete(set.clients, client)
		}
	}, nil
}

// tooManyStreams returns the fault for a stream over the limit, with a Retry-After header.
func tooManyStreams(status int, format string, args ...any) *jsonrpc.Fault {
	f := jsonrpc.Faultf(status, jsonrpc.InvalidRequest, format, args...)
	f.RetryAfter = 10 * time.Second
	return f
}

// clientOf returns the identity by which streams are counted: the user, or else the address.
func clientOf(site *Site, remote string) string {
	if site.User != "" {
		return "user " + site.User
	}
	if site.Address != "" {
		return "address " + site.Address
	}
	if host, _, err := net.SplitHostPort(remote); err == nil {
		remote = host
	}
	return "address " + remote
}

// A watch sends notifications about changes on one stream until the client or the server ends it.
type watch struct {
	server    *Server
	watcher   *watcher
	out       stream.Channel
	ended     <-chan struct{} // closed when the client sends no more messages; nil if that does not end the watch
	keepAlive func() error    // nil if the transport needs no comments
	meta      jsontext.Value  // id of the subscription; nil before 2026-07-28
	lists     *listWatch      // nil if changes come only from Notify

	// resources returns the URIs of the watched resources, and stamp returns the version of a
	// resource. Both are nil if no resources can be watched.
	resources func() []string
	stamp     func(ctx context.Context, uri string) (string, bool)

	seen *stamps // last known versions; nil at the start
}

// setPollIdentity sets the identity for polls of the stream.
func (x *exchange) setPollIdentity() {
	x.polling = library.PollKey{Client: x.clientIdentity(), Identity: rand.Text()} // unique, so no other stream shares its polls
	if x.site.Identity != nil {
		x.polling.Identity = x.site.Identity() + accessKey(x.site.Access)
	}
}

// stamps are the last known versions of resources by URI, for the streams of one client.
type stamps struct {
	mu    sync.Mutex
	byURI map[string]string
}

func (s *stamps) get() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byURI
}

func (s *stamps) set(byURI map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byURI = byURI
}

// A streamEnd is the reason why a stream ended.
type streamEnd int

const (
	clientGone    streamEnd = iota // the client has disconnected
	streamExpired                  // the session or the credentials expired
	serverClosing                  // the server closes, or the client sends no more messages
)

// A listWatch tracks which lists the client of a stream knows.
type listWatch struct {
	known   listDigests
	current func() listDigests // returns the digests of the current tools
	onSent  func(listDigests)  // stores which lists the client knows; nil if not needed
	eventID func(listDigests) string
}

// newListWatch returns the listWatch for a new stream.
func (x *exchange) newListWatch() *listWatch {
	current := func() listDigests { return x.server.digests(x.site.Tools()) }
	return &listWatch{known: current(), current: current}
}

// run sends notifications until the stream ends. If another Server replaces this one, the last
// notifications report the lists that differ there.
func (w *watch) run(ctx context.Context) streamEnd {
	end := w.notify(ctx)
	if end == serverClosing && w.lists != nil {
		_ = w.sendSuccessorChanges() // an error means that the client has disconnected
	}
	return end
}

// sendSuccessorChanges sends the last notifications before the stream closes. They compare the known lists
// with those of the Server that replaces this one.
func (w *watch) sendSuccessorChanges() error {
	lists := w.lists.known
	if next := w.server.next.Load(); next != nil {
		if current, ok := next.current(); ok {
			lists = current
		}
	}
	w.watcher.notify(w.lists.known.changes(lists))
	return w.sendPending(lists)
}

// notify sends notifications until the stream ends.
func (w *watch) notify(ctx context.Context) streamEnd {
	// Polls may be slow. Cancel them when the server closes or the stream expires.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.server.open, cancel)()

	polled, stop := w.startPolling(ctx)
	defer stop()
	alive := time.NewTicker(w.server.options.KeepAlive)
	defer alive.Stop()
	var err error
	for err == nil {
		select {
		case <-ctx.Done():
			if w.server.open.Err() != nil {
				return serverClosing
			}
			return clientGone
		case <-w.watcher.end:
			return streamExpired
		case <-w.ended:
			return serverClosing
		case <-w.server.closed:
			return serverClosing
		case <-w.watcher.wake:
			var lists listDigests
			if w.lists != nil {
				lists = w.lists.current()
			}
			err = w.sendPending(lists)
		case end := <-polled:
			if end.panicked != nil {
				panic(end.panicked)
			}
			err = end.err
		case <-alive.C:
			if w.keepAlive != nil {
				err = w.keepAlive()
			}
		}
	}
	return clientGone
}

// A pollEnd is the reason why polling ended.
type pollEnd struct {
	err      error // the client has disconnected; nil if the context ended
	panicked any   // panic value, to be raised in the goroutine of the request
}

// startPolling polls the watched resources in a separate goroutine, because the API may be slow and
// the rate low. stop ends the polling and waits for the goroutine.
func (w *watch) startPolling(ctx context.Context) (ended <-chan pollEnd, stop func()) {
	if w.resources == nil || w.stamp == nil {
		return nil, func() {}
	}
	if w.seen == nil {
		w.seen = new(stamps)
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

// poll checks the resources once per WatchInterval until the context ends.
func (w *watch) poll(ctx context.Context) error {
	tick := time.NewTicker(w.server.options.WatchInterval)
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
func (w *watch) sendPending(lists listDigests) error {
	pending := Change(w.watcher.pending.Swap(0))
	for _, n := range notifications {
		if pending&n.change == 0 {
			continue
		}
		if err := w.sendChange(n.method, lists); err != nil {
			return err
		}
	}
	if pending != 0 && w.lists != nil {
		w.lists.known = lists
		if w.lists.onSent != nil {
			w.lists.onSent(lists)
		}
	}
	return nil
}

// sendChange sends the notification for a list. On streams with event ids, the id encodes the lists
// that the client then knows.
func (w *watch) sendChange(method string, lists listDigests) error {
	message := w.notification(method, nil)
	if stream, ok := w.out.(*stream.EventStream); ok && w.lists != nil && w.lists.eventID != nil {
		return stream.Write("message", w.lists.eventID(lists), message)
	}
	return w.out.Send(message)
}

// pollOnce compares the versions of the watched resources with the last known ones and sends a
// notification for each that changed.
func (w *watch) pollOnce(ctx context.Context) error {
	uris := w.resources()
	if uris == nil { // another stream polls them
		return nil
	}
	earlier := w.seen.get()
	seen := make(map[string]string, len(uris))
	for _, uri := range uris {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // run sees it, and why
		}
		stamp, ok := w.stamp(ctx, uri)
		before, known := earlier[uri]
		if !ok {
			stamp = before
		}
		seen[uri] = stamp
		if !ok || !known || stamp == before {
			continue
		}
		params := wire.AppendString([]byte(`"uri":`), uri)
		if err := w.out.Send(w.notification("notifications/resources/updated", params)); err != nil {
			return err
		}
	}
	w.seen.set(seen)
	return nil
}

// notification returns a notification. params are the members of its params object.
func (w *watch) notification(method string, params []byte) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","method":"`), method...)
	b = append(b, `","params":{`...)
	b = append(b, params...)
	if w.meta != nil {
		if len(params) > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, `"_meta":{"io.modelcontextprotocol/subscriptionId":`...), w.meta...), '}')
	}
	return append(b, "}}"...)
}
