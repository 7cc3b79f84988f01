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
)

// Defaults of Options for streams.
const (
	DefaultMaxStreams       = 10_000           // open at once
	DefaultMaxClientStreams = 64               // of one client
	DefaultKeepAlive        = 25 * time.Second // between signs of life on a quiet stream
	DefaultWatchInterval    = 10 * time.Second // between looks at a resource that is watched
)

// A Change is something that clients with an open stream are told of.
type Change uint32

// The changes.
const (
	ToolsChanged Change = 1 << iota
	PromptsChanged
	ResourcesChanged

	everyChange = ToolsChanged | PromptsChanged | ResourcesChanged
)

// notifications are what a change is called in the protocol.
var notifications = []struct {
	change Change
	method string
}{
	{ToolsChanged, "notifications/tools/list_changed"},
	{PromptsChanged, "notifications/prompts/list_changed"},
	{ResourcesChanged, "notifications/resources/list_changed"},
}

// Notify tells the clients that listen of a change. It does not wait for them.
func (s *Server) Notify(c Change) {
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	for w := range s.streams.watchers {
		w.notify(c)
	}
}

// Close ends all streams in good order and gives up what waits for an answer of a
// client. Requests that need neither are served to their end.
func (s *Server) Close() {
	s.Replace(0)
	s.giveUp()
}

// Replace ends all streams in good order, after they have told how the lists of the
// Server that takes the place of this one differ. Calls that wait for an answer of the
// client are given up after grace, or at once if no other Server can take the answer:
// one with the same Memory and Instance.
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

// A watcher is one open stream that waits for changes.
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

// handOver leaves it to another stream of the client to tell of changes, with those
// that have not been told yet.
func (w *watcher) handOver(to *watcher) {
	to.wanted.Store(uint32(everyChange))
	w.wanted.Store(0)
	to.notify(Change(w.pending.Swap(0)))
}

// closeAt closes the watcher at that time, when its session or the credentials that
// opened its stream expire; the zero time is never. The caller must call stop
// afterwards.
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
	clients  map[string]int // open streams by client
}

// join counts a stream in; leave must be called after it.
func (s *Server) join(w *watcher, client string) (leave func(), f *fault) {
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

func tooManyStreams(status int, format string, args ...any) *fault {
	f := faultf(status, invalidRequest, format, args...)
	f.retryAfter = 10 * time.Second
	return f
}

// clientOf names who opened a stream: the user, or else the address.
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

// A watch tells one client of changes until it or the server ends the stream.
type watch struct {
	server    *Server
	watcher   *watcher
	out       channel
	ended     <-chan struct{} // closed when the client sends nothing more; nil if that ends nothing
	keepAlive func() error    // nil where the connection needs none
	meta      jsontext.Value  // the id of the subscription; nil before 2026-07-28
	lists     *listWatch      // nil where changes come by Notify alone

	// resources returns the URIs of the resources that the client wants to be
	// told of; stamp what tells one state of a resource from another. Nil where
	// none can be.
	resources func() []string
	stamp     func(ctx context.Context, uri string) (string, bool)

	seen *stamps // what is known of them; nil for nothing yet
}

// identify names who polls for a stream.
func (x *exchange) identify() {
	x.polling = pollKey{client: x.listener(), identity: rand.Text()} // which no other stream has
	if x.site.Identity != nil {
		x.polling.identity = x.site.Identity() + x.site.Access.key()
	}
}

// stamps are those of resources, by URI, for the streams of one client.
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

// A streamEnd is why a stream ended.
type streamEnd int

const (
	clientGone    streamEnd = iota // nothing more can be sent
	streamExpired                  // its session or its credentials ended
	serverClosing                  // the server closes, or the client sends nothing more
)

// A listWatch knows which lists the client of a stream has been told of.
type listWatch struct {
	known   listDigests
	current func() listDigests // of the server's tools of the moment
	told    func(listDigests)  // remembers what the client was told; nil if nobody does
	eventID func(listDigests) string
}

// newListWatch returns the listWatch of a stream that begins now.
func (x *exchange) newListWatch() *listWatch {
	current := func() listDigests { return x.server.digests(x.site.Tools()) }
	return &listWatch{known: current(), current: current}
}

// run sends notifications until the stream ends. If the server closes because another
// takes its place, the last ones say how the lists of that one differ.
func (w *watch) run(ctx context.Context) streamEnd {
	end := w.notify(ctx)
	if end == serverClosing && w.lists != nil {
		_ = w.tellNext() // an error means that the client is gone
	}
	return end
}

func (w *watch) tellNext() error {
	lists := w.lists.known
	if next := w.server.next.Load(); next != nil {
		if current, ok := next.current(); ok {
			lists = current
		}
	}
	w.watcher.notify(w.lists.known.changes(lists))
	return w.tell(lists)
}

// notify sends notifications until the stream ends.
func (w *watch) notify(ctx context.Context) streamEnd {
	// A look may take as long as the API does, which must not keep a server that
	// closes, or a stream that expired, waiting.
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
			err = w.tell(lists)
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

// A pollEnd is why polling ended.
type pollEnd struct {
	err      error // the client is gone; nil if the context ended
	panicked any   // belongs to the goroutine of the request
}

// startPolling polls the resources that are watched in a goroutine of its own: the
// API may be slow, and the rate low. Stop ends it, and returns when it has ended.
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

// poll looks at the resources every interval until the context ends.
func (w *watch) poll(ctx context.Context) error {
	tick := time.NewTicker(w.server.options.WatchInterval)
	defer tick.Stop()
	for {
		if err := w.look(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// tell sends the notifications that are pending, after which the client knows these
// lists.
func (w *watch) tell(lists listDigests) error {
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
		if w.lists.told != nil {
			w.lists.told(lists)
		}
	}
	return nil
}

// sendChange sends the notification of a list. Where events have ids, it tells which
// lists the client knows then.
func (w *watch) sendChange(method string, lists listDigests) error {
	message := w.notification(method, nil)
	if stream, ok := w.out.(*eventStream); ok && w.lists != nil && w.lists.eventID != nil {
		return stream.write("message", w.lists.eventID(lists), message)
	}
	return w.out.send(message)
}

// look compares the resources that are watched with how they were.
func (w *watch) look(ctx context.Context) error {
	uris := w.resources()
	if uris == nil { // another stream looks at them
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
		if err := w.out.send(w.notification("notifications/resources/updated", params)); err != nil {
			return err
		}
	}
	w.seen.set(seen)
	return nil
}

// notification returns a notification with these members of params.
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
