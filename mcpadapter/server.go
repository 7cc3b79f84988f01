// Package mcpadapter is a Model Context Protocol (MCP) server for the tools of a tools.Toolset. It
// depends on net/http, not on Caddy, and speaks Streamable HTTP in the revisions 2025-03-26 to
// 2026-07-28, HTTP+SSE of 2024-11-05, and stdio.
//
// A request passes through these steps:
//
//  1. Server.ServeHTTP (server.go) checks the method and the headers (internal/protocol), resumes
//     the session of its signed id (session.go, internal/session), and reads the body up to a limit.
//  2. message.go reads the JSON-RPC message into an envelope. Package internal/negotiation determines the
//     revision and checks the rules of that revision.
//  3. message.go makes the request, and calls the function of its method, such as callTool for tools/call,
//     with the request and its response.
//  4. call.go serves tools/call: it finds the tool (internal/catalog), makes a toolCall, passes the
//     arguments to a tools.Caller and encodes the tools.Outcome (internal/content). Package elicit makes the
//     calls that may need something from the client. lists.go serves tools/list from bytes that
//     are encoded once per toolset (internal/catalog). Package library has the resources, prompts and
//     apps; resources.go and prompts.go serve them.
//  5. The response is written as application/json. It becomes an event stream (internal/protocol) only if
//     something must be sent before it: progress, log messages, or a request to the client such
//     as an elicitation (client_request.go).
//
// Streams of notifications are in listen.go and internal/session. HTTP+SSE and stdio carry
// messages in both directions over a connection (connection.go, http_sse.go, stdio.go).
package mcpadapter

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/sse"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
	"github.com/fairwayhq/fairway/mcpadapter/internal/task"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools"
)

// A Server serves MCP requests. It is safe for concurrent use. Use one Server per endpoint, because
// it caches the encoded lists of only one Toolset, the latest.
type Server struct {
	options  Options
	pages    protocol.PageRules
	enabled  protocol.Revisions
	library  atomic.Pointer[library.Library] // never nil
	catalogs *catalog.Cache

	lastSigner atomic.Pointer[session.Signer] // see signer

	tasks    *task.Tasks // nil if calls do not become tasks
	attempts attempts    // that are running

	memory        *Memory
	streams       session.Streams
	host          session.Host
	polls         library.Polls
	reportedTools sync.Map               // names of the tools whose large results were reported
	next          atomic.Pointer[Server] // the Server that replaces this one; nil for none
	open          context.Context        // ends on Close or Replace, which ends all streams
	close         context.CancelFunc
	asking        context.Context    // ends on Close, which gives up requests to clients
	cancelAsking  context.CancelFunc // cancels asking

	keepAlives sync.Pool     // of *keepAliveTimer
	writeWait  time.Duration // MaxWriteWait, except in tests
}

// New returns a Server with the given options.
func New(options Options) *Server {
	s := &Server{
		options: options,
		pages:   protocol.NewPageRules(options.AllowedOrigins, options.AllowedHosts),
		enabled: protocol.EnabledRevisions(options.Versions),

		writeWait: sse.MaxWriteWait,
	}
	s.open, s.close = context.WithCancel(context.Background())
	s.asking, s.cancelAsking = context.WithCancel(context.Background())
	s.attempts.calling, s.attempts.interrupt = context.WithCancel(context.Background())
	s.options.setDefaults()
	s.host = session.Host{Open: s.open, KeepAlive: s.options.KeepAlive, PollInterval: s.options.WatchInterval, Successor: s.successor}
	if s.memory = options.Memory; s.memory == nil {
		s.memory = NewMemory(options.Warn)
	}
	s.polls = library.Polls{Interval: s.options.WatchInterval, Rate: s.options.WatchRate}
	s.streams.Bound = share.NewBound(share.Options{Name: "mcp streams", Limit: int64(s.options.MaxStreams), Warn: s.options.Warn})
	s.memory.attach(s)
	s.openTasks()
	s.catalogs = catalog.NewCache(s.options.catalogOptions())
	s.SetLibrary(nil)
	return s
}

// Versions returns the names of all supported revisions, newest first.
func Versions() []string { return protocol.EnabledRevisions(nil).Names() }

// catalogOf returns the unrestricted catalog of a Toolset.
func (s *Server) catalogOf(toolset *tools.Toolset) *catalog.Catalog {
	return s.catalogs.Shared(toolset, s.library.Load())
}

// catalogFor returns the catalog of a Toolset for the caller. It is cached until the document or the
// Library changes.
func (s *Server) catalogFor(site *Site, toolset *tools.Toolset) *catalog.Catalog {
	lib, access := s.library.Load(), site.Access
	if access != nil && access.AllTools && access.SignIn == nil && len(lib.Scopes) == 0 {
		access = nil
	}
	if access != nil || site.Login != nil {
		return s.catalogs.Restricted(toolset, lib, access, site.Login)
	}
	return s.catalogs.Shared(toolset, lib)
}

// ServeHTTP serves one request to the MCP endpoint or to a path below it. It always writes a
// response. It returns when the response is written; for a stream, when the stream ends.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request, site Site) {
	out := buffer.Get()
	defer buffer.Put(out)

	if site.Base == "" {
		site.Base = strings.TrimSuffix(r.URL.Path, site.Rest)
	}
	h := &httpExchange{own: site, exchange: exchange{
		client:   client{header: r.Header, remote: r.RemoteAddr},
		server:   s,
		ctx:      r.Context(),
		terms:    protocol.Terms{Version: protocol.RevisionOfHeader(r.Header)},
		response: response{out: out},
		status:   http.StatusOK,
	}}
	h.site = &h.own
	h.response.version = h.terms.Version
	if f := h.route(w, r); f != nil {
		h.readID(f, r)
		h.refuse(f)
		h.write(w)
	}
}

// An httpExchange serves one HTTP request. It holds everything that each request needs, so that a
// request takes one allocation.
type httpExchange struct {
	exchange
	own    Site // site points to it
	events responseEvents
	values [2]string // of the headers of the response

	unresumed *protocol.Fault // why the session of the request cannot be used; nil if it can
}

// responseEvents sends messages before the response of a request. The first one turns the response into
// an event stream. Few requests need it, so the stream is made then.
type responseEvents struct {
	w    http.ResponseWriter
	wait time.Duration // how long a write may block

	alive *keepAliveTimer // nil before a call

	mu     sync.Mutex
	ended  bool
	stream *sse.Writer // nil before the first message
}

// open returns the stream. After end, all writes to the stream fail.
func (e *responseEvents) open() *sse.Writer {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stream == nil {
		e.stream = sse.NewWriter(e.w, e.wait)
		if e.ended {
			e.stream.Close()
		}
	}
	return e.stream
}

// Send implements protocol.Channel.
func (e *responseEvents) Send(message []byte) error { return e.open().Send(message) }

// Comment sends a comment, which clients ignore.
func (e *responseEvents) Comment() error { return e.open().Comment() }

// sent reports whether the response is already a stream.
func (e *responseEvents) sent() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stream != nil && e.stream.IsOpen()
}

// end makes all further messages fail, so that nothing is written after the handler has returned.
func (e *responseEvents) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	if e.stream != nil {
		e.stream.Close()
	}
}

// route serves the request according to its path and method. If it returns a fault, the caller must
// write it; otherwise the response is written.
func (h *httpExchange) route(w http.ResponseWriter, r *http.Request) *protocol.Fault {
	if r.Method == http.MethodGet && strings.Trim(h.site.Rest, "/") == "" && protocol.IsBrowser(r.Header["Accept"]) {
		return serveNotice(w)
	}
	if f := h.server.pages.Admit(w.Header(), r); f != nil {
		return f
	}
	switch {
	case h.site.Rest == "/sse" && r.Method == http.MethodGet:
		return h.serveLegacyStream(w, r)
	case h.site.Rest == "/message" && r.Method == http.MethodPost:
		return h.answer(w, h.takeLegacyMessage(r))
	case strings.Trim(h.site.Rest, "/") != "":
		return protocol.Faultf(http.StatusNotFound, protocol.InvalidRequest, "%s is not supported at this path: the endpoint is %s", r.Method, h.site.Base).WithoutID()
	}
	if h.header[sessionHeader] != nil {
		f := h.resume()
		if f != nil && r.Method != http.MethodPost {
			return f
		}
		h.unresumed = f
	}
	if h.session != nil {
		state, leave := h.server.memory.lives.Enter(h.session, h.owner(h.site))
		defer leave()
		h.state = state
	}
	switch {
	case r.Method == http.MethodPost:
		return h.servePost(w, r)
	case r.Method == http.MethodGet && r.Header[sessionHeader] == nil && r.Header[protocol.VersionHeader] == nil: // a client of HTTP+SSE sends neither
		return h.serveLegacyStream(w, r)
	}
	if f := h.terms.CheckBodiless(h.server.enabled, r); f != nil {
		return f
	}
	if r.Method == http.MethodDelete {
		return h.answer(w, h.endSession())
	}
	h.tools = h.site.Host.Tools()
	return h.serveStream(w, r)
}

// browserNotice is what a person sees who opens the endpoint in a browser.
const browserNotice = "This address is an MCP endpoint. It serves AI clients and has no page for browsers.\n" +
	"Add the address to an MCP client, such as Claude, Cursor or VS Code.\n"

// serveNotice responds to a browser.
func serveNotice(w http.ResponseWriter) *protocol.Fault {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusNotAcceptable)
	_, _ = io.WriteString(w, browserNotice) // the client may have disconnected
	return nil
}

// answer writes the response, unless f is not nil. It returns f.
func (h *httpExchange) answer(w http.ResponseWriter, f *protocol.Fault) *protocol.Fault {
	if f == nil {
		h.write(w)
	}
	return f
}

// servePost serves one body. If the client accepts event streams, the first message sent before the
// response turns the response into a stream.
func (h *httpExchange) servePost(w http.ResponseWriter, r *http.Request) *protocol.Fault {
	body := buffer.Get()
	defer buffer.Put(body)
	if f := protocol.ReadBody(body, r, h.server.options.MaxBody); f != nil {
		return f
	}
	if h.unresumed != nil && !beginsSession(body.B) {
		h.response.id = protocol.LenientID(body.B)
		return h.unresumed
	}
	h.tools = h.site.Host.Tools()
	h.caller = h.site.Host.Caller(h.tools)
	if !protocol.AcceptsStream(r.Header["Accept"]) {
		h.serve(body.B)
		h.write(w)
		return nil
	}
	h.events.w, h.events.wait = w, h.server.writeWait
	h.channel = &h.events
	defer h.events.end()
	defer h.events.endKeepAlive(&h.server.keepAlives) // also after a panic
	h.serve(body.B)
	h.events.endKeepAlive(&h.server.keepAlives)
	switch {
	case h.canceled && !h.batched:
		_ = h.events.open().Open() // an empty stream: clients accept nothing else in place of the response to a canceled request
	case !h.events.sent():
		h.write(w)
	case len(h.response.out.B)+len(h.response.trailer) > 0:
		_ = h.events.Send(append(h.response.out.B, h.response.trailer...)) // an error means that the client has disconnected
	}
	return nil
}

// beginsSession reports whether a body is initialize. Some clients send the id of an earlier session with it.
func beginsSession(body []byte) bool {
	return strictjson.Check(body) == nil && strictjson.Text(strictjson.MemberOf(body, "method")) == "initialize"
}

// write writes the response. Each response gets its own header values, because other handlers may
// modify them in place.
func (h *httpExchange) write(w http.ResponseWriter) {
	body, trailer := h.response.out.B, h.response.trailer
	if h.response.sessionID != "" {
		w.Header()[sessionHeader] = []string{h.response.sessionID}
	}
	if h.fault != nil {
		h.fault.SetHeader(w.Header())
	}
	size := len(body) + len(trailer)
	if size == 0 {
		w.WriteHeader(h.status)
		return
	}
	h.values = [...]string{"application/json", strconv.Itoa(size)}
	header := w.Header()
	header["Content-Type"] = h.values[:1:1]
	header["Content-Length"] = h.values[1:2:2]
	w.WriteHeader(h.status)

	// An error means that the client has disconnected, so it is ignored.
	if _, err := w.Write(body); err != nil || len(trailer) == 0 {
		return
	}
	_, _ = w.Write(trailer)
}

// advisedStructure is the maximum size of structuredContent that hosts of MCP Apps recommend, in
// bytes.
const advisedStructure = 10 << 10

// noteLargeStructure calls Options.OnLargeStructure once per tool whose structuredContent is larger
// than advisedStructure.
func (s *Server) noteLargeStructure(t *tools.Tool, size int) {
	if s.options.OnLargeStructure == nil || t == nil {
		return
	}
	if _, reported := s.reportedTools.LoadOrStore(t.Name, true); !reported {
		s.options.OnLargeStructure(t, size)
	}
}

// noKeepAlive is the interval of keep-alives that are off.
const noKeepAlive = 100 * 365 * 24 * time.Hour

// A keepAliveTimer sends a comment before the response of a request at each interval, so that load balancers and clients do
// not take a long call for a dead connection. The first one turns the response into an event stream: there is no other
// way to send a byte. It is reused, because most calls end before the first interval.
type keepAliveTimer struct {
	mu       sync.Mutex
	events   *responseEvents // nil if no request uses the timer
	interval time.Duration
	timer    *time.Timer
}

// keepAlive begins to send comments, until the response is written. Only calls of tools take long enough.
func (s *Server) keepAlive(channel protocol.Channel) {
	events, ok := channel.(*responseEvents) // of an HTTP request
	if interval := s.options.KeepAlive; ok && events.alive == nil && interval < noKeepAlive {
		if events.alive, _ = s.keepAlives.Get().(*keepAliveTimer); events.alive == nil {
			events.alive = new(keepAliveTimer)
		}
		events.alive.begin(events, interval)
	}
}

func (k *keepAliveTimer) begin(events *responseEvents, interval time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events, k.interval = events, interval
	if k.timer == nil {
		k.timer = time.AfterFunc(interval, k.tick)
	} else {
		k.timer.Reset(interval)
	}
}

func (k *keepAliveTimer) tick() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.events != nil && k.events.Comment() == nil {
		k.timer.Reset(k.interval)
	}
}

// endKeepAlive ends the comments. Afterwards, it is certain whether the response is a stream. The timer goes back to the pool.
func (e *responseEvents) endKeepAlive(pool *sync.Pool) {
	k := e.alive
	if k == nil {
		return
	}
	e.alive = nil
	k.mu.Lock()
	k.events = nil
	stopped := k.timer.Stop()
	k.mu.Unlock()
	if stopped { // tick will not run for the next request
		pool.Put(k)
	}
}
