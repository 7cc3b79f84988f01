// Package mcpadapter is a Model Context Protocol (MCP) server for the tools of a tool.Toolset. It
// depends on net/http, not on Caddy, and speaks Streamable HTTP in the revisions 2025-03-26 to
// 2026-07-28, HTTP+SSE of 2024-11-05, and stdio.
//
// A request passes through these steps:
//
//  1. Server.ServeHTTP (server.go) checks the method and the headers (internal/admission), resumes
//     the session of its signed id (session.go, internal/session), and reads the body up to a limit.
//  2. message.go parses the JSON-RPC message. Package internal/negotiation determines the revision and
//     checks the rules of that revision.
//  3. message.go selects the type of the method, such as toolRequest for tools/call. All of them embed
//     the message that they serve.
//  4. call.go serves tools/call: it finds the tool (internal/catalog), passes the arguments to a
//     tool.Caller and encodes the tool.Outcome (internal/content). Package elicit makes the
//     calls that may need something from the client. lists.go serves tools/list from bytes that
//     are encoded once per toolset (internal/catalog). Package library has the resources, prompts and
//     apps; resources.go and prompts.go serve them.
//  5. The response is written as application/json. It becomes an event stream (internal/stream) only if
//     something must be sent before it: progress, log messages, or a request to the client such
//     as an elicitation (client_request.go).
//
// Streams of notifications are in listen.go and internal/subscription. HTTP+SSE and stdio carry
// messages in both directions over a connection (connection.go, http_sse.go, stdio.go).
package mcpadapter

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/mcpadapter/internal/admission"
	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/negotiation"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
	"github.com/fairwayhq/fairway/mcpadapter/internal/stream"
	"github.com/fairwayhq/fairway/mcpadapter/internal/subscription"
	"github.com/fairwayhq/fairway/mcpadapter/internal/task"
	"github.com/fairwayhq/fairway/mcpadapter/library"
)

// A Server serves MCP requests. It is safe for concurrent use. Use one Server per endpoint, because
// it caches the encoded lists of only one Toolset, the latest.
type Server struct {
	options  Options
	pages    admission.PageRules
	enabled  revision.Set
	signer   func() *session.Signer
	library  atomic.Pointer[library.Library] // never nil
	catalogs *catalog.Cache

	tasks    *task.Tasks  // nil if calls do not become tasks
	attempts atomic.Int64 // attempts that are running

	memory        *Memory
	states        *session.States // part of memory
	legacy        *legacyClients  // part of memory
	streams       subscription.Streams
	host          subscription.Host
	polls         library.Polls
	reportedTools reportedTools
	next          atomic.Pointer[Server] // the Server that replaces this one; nil for none
	open          context.Context        // ends on Close or Replace, which ends all streams
	close         context.CancelFunc
	asking        context.Context    // ends on Close, which gives up requests to clients
	cancelAsking  context.CancelFunc // cancels asking

	writeWait time.Duration // MaxWriteWait, except in tests
}

// New returns a Server with the given options.
func New(options Options) *Server {
	s := &Server{
		options: options,
		pages:   admission.NewPageRules(options.AllowedOrigins, options.AllowedHosts),
		enabled: revision.Enabled(options.Versions),
		signer:  sync.OnceValue(options.newSigner),

		writeWait: stream.MaxWriteWait,
	}
	s.open, s.close = context.WithCancel(context.Background())
	s.asking, s.cancelAsking = context.WithCancel(context.Background())
	s.options.setDefaults()
	s.host = subscription.Host{Open: s.open, KeepAlive: s.options.KeepAlive, PollInterval: s.options.WatchInterval, Successor: s.successor}
	if s.memory = options.Memory; s.memory == nil {
		s.memory = NewMemory()
	}
	s.polls = library.Polls{Interval: s.options.WatchInterval, Rate: s.options.WatchRate}
	s.states, s.legacy = &s.memory.lives, &s.memory.legacy
	s.memory.attach(s)
	s.openTasks()
	s.catalogs = catalog.NewCache(s.options.catalogOptions())
	s.SetLibrary(nil)
	return s
}

// Versions returns the names of all supported revisions, newest first.
func Versions() []string { return revision.Enabled(nil).Names() }

// ServeHTTP serves one request to the MCP endpoint or to a path below it. It always writes a
// response. It returns when the response is written; for a stream, when the stream ends.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request, site Site) {
	out := buffer.Get()
	defer buffer.Put(out)

	if site.Base == "" {
		site.Base = strings.TrimSuffix(r.URL.Path, site.Rest)
	}
	h := &httpExchange{request: site, exchange: exchange{status: http.StatusOK, message: message{
		server:  s,
		ctx:     r.Context(),
		header:  r.Header,
		out:     out,
		peer:    peer{remote: r.RemoteAddr},
		version: negotiation.OfHeader(r.Header),
	}}}
	h.site = &h.request
	if f := h.route(w, r); f != nil {
		h.refuse(f)
		h.write(w)
	}
}

// An httpExchange serves one HTTP request. It holds everything that each request needs, so that a
// request takes one allocation.
type httpExchange struct {
	exchange
	request Site
	events  responseEvents
	values  [2]string // of the headers of the response
}

// responseEvents sends messages before the response of a request. The first one turns the response into
// an event stream. Few requests need it, so the stream is made then.
type responseEvents struct {
	w    http.ResponseWriter
	wait time.Duration // how long a write may block

	mu     sync.Mutex
	ended  bool
	stream *stream.EventStream // nil before the first message
}

// open returns the stream. After end, all writes to the stream fail.
func (e *responseEvents) open() *stream.EventStream {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stream == nil {
		e.stream = stream.NewEventStream(e.w, e.wait)
		if e.ended {
			e.stream.Close()
		}
	}
	return e.stream
}

// Send implements stream.Channel.
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
func (h *httpExchange) route(w http.ResponseWriter, r *http.Request) *jsonrpc.Fault {
	if f := h.server.pages.Admit(w.Header(), r); f != nil {
		return f
	}
	switch {
	case h.site.Rest == "/sse" && r.Method == http.MethodGet:
		return h.serveLegacyStream(w, r)
	case h.site.Rest == "/message" && r.Method == http.MethodPost:
		return h.answer(w, h.takeLegacyMessage(r))
	case strings.Trim(h.site.Rest, "/") != "":
		f := jsonrpc.Faultf(http.StatusNotFound, jsonrpc.InvalidRequest, "%s is not supported at this path: the endpoint is %s", r.Method, h.site.Base)
		f.Anonymous = true
		return f
	}
	if h.header[sessionHeader] != nil {
		if f := h.resume(); f != nil {
			return f
		}
	}
	if h.session != nil {
		state, leave := h.server.states.Enter(h.session)
		defer leave()
		h.state = state
	}
	switch {
	case r.Method == http.MethodPost:
		return h.servePost(w, r)
	case r.Method == http.MethodGet && wantsLegacyStream(r):
		return h.serveLegacyStream(w, r)
	}
	terms := negotiation.Terms{Version: h.version}
	if f := terms.CheckBodiless(h.server.enabled, r); f != nil {
		return f
	}
	if r.Method == http.MethodDelete {
		return h.answer(w, h.endSession())
	}
	h.tools = h.site.Host.Tools()
	return h.serveStream(w, r)
}

// answer writes the response, unless f is not nil. It returns f.
func (h *httpExchange) answer(w http.ResponseWriter, f *jsonrpc.Fault) *jsonrpc.Fault {
	if f == nil {
		h.write(w)
	}
	return f
}

// servePost serves one body. If the client accepts event streams, the first message sent before the
// response turns the response into a stream.
func (h *httpExchange) servePost(w http.ResponseWriter, r *http.Request) *jsonrpc.Fault {
	body := buffer.Get()
	defer buffer.Put(body)
	if f := admission.ReadBody(body, r, h.server.options.MaxBody); f != nil {
		return f
	}
	h.tools = h.site.Host.Tools()
	h.caller = h.site.Host.Caller(h.tools)
	if !admission.AcceptsStream(r.Header["Accept"]) {
		h.serve(body.B)
		h.write(w)
		return nil
	}
	h.events.w, h.events.wait = w, h.server.writeWait
	h.channel = &h.events
	defer h.events.end()
	h.serve(body.B)
	switch {
	case h.canceled && !h.batched:
		_ = h.events.open().Open() // an empty stream: clients accept nothing else in place of the response to a canceled request
	case !h.events.sent():
		h.write(w)
	case len(h.out.B)+len(h.trailer) > 0:
		_ = h.events.Send(append(h.out.B, h.trailer...)) // an error means that the client has disconnected
	}
	return nil
}

// write writes the response. Each response gets its own header values, because other handlers may
// modify them in place.
func (h *httpExchange) write(w http.ResponseWriter) {
	if h.newSessionID != "" {
		w.Header()[sessionHeader] = []string{h.newSessionID}
	}
	if h.fault != nil {
		h.fault.SetHeader(w.Header())
	}
	size := len(h.out.B) + len(h.trailer)
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
	if _, err := w.Write(h.out.B); err != nil || len(h.trailer) == 0 {
		return
	}
	_, _ = w.Write(h.trailer)
}
