// Package mcpadapter is a Model Context Protocol server over an ocp.Toolset. It
// knows net/http and nothing of Caddy.
//
// One path speaks Streamable HTTP in the revisions 2025-03-26, 2025-06-18,
// 2025-11-25 and 2026-07-28, and HTTP+SSE of 2024-11-05. Each body is served from
// what it carries itself: admit looks at the HTTP request, readBody bounds and
// reads it, message.go takes the JSON-RPC envelope apart, era.go finds the
// revision and holds the request to its rules, methods.go names who serves the
// method, and the answer is appended to a pooled buffer and written at once as
// application/json. It becomes a stream (stream.go) only when something is sent
// before it: progress, log messages, a question to the client (ask.go).
//
// tools/list is encoded once for each Toolset and kept (list.go). tools/call
// hands the arguments on as they came to an ocp.Caller and puts its Outcome into
// words of the protocol (call.go, content.go).
//
// Resources, prompts and apps are those of a Library and of the document's x-mcp,
// which library.go puts on one shelf for each catalog; reading one is a file that
// is read or a tool that is called (resource.go, prompt.go, complete.go, apps.go).
//
// A session is a signed id (session.go), so that nothing is stored between
// requests. While something is going on, live.go remembers what can be canceled,
// answered or told; watch.go tells those who listen of changes. HTTP+SSE and
// standard input and output are connections (connection.go, legacy.go, stdio.go).
package mcpadapter

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/ocp"
)

// Defaults of Options.
const (
	DefaultMaxBody = 4 << 20         // bytes of a request body
	DefaultListTTL = 1 * time.Minute // how long a client may keep a list
)

// Options configures a Server. The zero value is ready to use.
type Options struct {
	// Name, Title and Version are what the server calls itself in serverInfo.
	// Where empty they are the toolset's: the name is its Title in lower case with
	// dashes, or without a title its Name, or else "fairway"; the title is its Title
	// (left out if it has none), the version its Version ("0" if it has none).
	Name, Title, Version string

	// Instructions tells models how to use the server. Where empty it is the
	// toolset's Description, cut at 2,048 bytes.
	Instructions string

	// MaxBody is the largest request body, in bytes. Default: DefaultMaxBody.
	MaxBody int64

	// AllowedOrigins are the web origins, "https://app.example.com", that may
	// call beside the server's own host, and read the answers (CORS); "*" stands
	// for all. Requests without an Origin header, which no browser sends, are
	// always let through.
	AllowedOrigins []string

	// AllowedHosts are the Host names, without port, whose pages may call over a
	// loopback connection, beside localhost and loopback addresses; "*" stands
	// for all. Name the public host here if a proxy on the same machine passes
	// pages' requests on: a foreign name that reaches a loopback address is
	// otherwise taken for DNS rebinding. Requests without Origin are not asked.
	AllowedHosts []string

	// PageSize is how many tools a page of tools/list has at most. Default 0: as
	// many as fit into 4 MiB, because many clients never ask for a second page.
	// A page never takes more than 4 MiB, unless a single tool does.
	PageSize int

	// ListTTL is how long, counted from its receipt, a client may take a list
	// for fresh (ttlMs, 2026-07-28). Negative means it must not. Default:
	// DefaultListTTL.
	ListTTL time.Duration

	// Versions are the revisions that are spoken, "2025-11-25". Default: all.
	Versions []string

	// Secret signs the ids of sessions and seals what clients keep for the
	// server. Servers that share the work must have the same. Default: a random
	// one, with which sessions end when the Server does.
	Secret []byte

	// LoadSecret returns the secret where Secret is empty. It is asked once, when
	// the secret is first needed.
	LoadSecret func() []byte

	// Memory is what the Server shares with the one that it takes the place of.
	// Default: its own.
	Memory *Memory

	// Instance tells apart Servers that share a Memory and are in use together: one
	// takes the place of another of the same number.
	Instance int

	// Current returns the tools of the moment, nil if they are not known yet. The
	// clients of the Server that this one takes the place of are told how its lists
	// differ. Nil: they are not.
	Current func() *ocp.Toolset

	// SessionTTL is how long a session lasts. Default: DefaultSessionTTL.
	SessionTTL time.Duration

	// MaxStreams is how many streams may be open at once, and MaxClientStreams
	// how many of one user or, without users, of one address. Defaults:
	// DefaultMaxStreams, DefaultMaxClientStreams.
	MaxStreams, MaxClientStreams int

	// KeepAlive is how often a quiet stream shows a sign of life. Default:
	// DefaultKeepAlive.
	KeepAlive time.Duration

	// WatchInterval is how often a resource that somebody watches is polled.
	// Default: DefaultWatchInterval.
	WatchInterval time.Duration

	// WatchRate is how many requests a second watching makes to the API, of all
	// clients together. Where more would be needed, each resource is polled less
	// often. Default: DefaultWatchRate.
	WatchRate int

	// AskTimeout is how long a client may take to answer a request of the
	// server. Default: DefaultAskTimeout.
	AskTimeout time.Duration

	// PublicLists lets caches share lists between users (cacheScope "public",
	// 2026-07-28). Set it only if whoever may reach the server may know all of
	// its tools. Default: "private".
	PublicLists bool

	// OutputSchema says whether tools/list describes what tools answer, which
	// takes toolsets that are built with ocp.BuildOptions.ResponseSchemas.
	// Default: OutputOff.
	OutputSchema OutputSchema

	// OnLargeStructure is told once of each tool whose structuredContent is
	// larger than hosts of MCP Apps advise, 10 KiB; size is in bytes. It is
	// called while the tool's answer is written. Nil: nobody is told.
	OnLargeStructure func(tool *ocp.Tool, size int)
}

// A Server answers MCP requests. It is safe for concurrent use. Use one Server
// for each endpoint: it keeps the encoded list of one Toolset, the latest.
type Server struct {
	options Options
	origins map[string]bool
	hosts   map[string]bool
	spoken  []revision // newest first
	signer  func() *signer
	library atomic.Pointer[Library] // never nil
	latest  atomic.Pointer[catalog]
	lists   restricted

	memory  *Memory
	lives   *lives         // of memory
	legacy  *legacyClients // of memory
	streams streams
	polls   polls
	noted   noted
	next    atomic.Pointer[Server] // that takes the place of this one; nil for none
	open    context.Context        // until Close or Replace: then streams end
	close   context.CancelFunc
	closed  <-chan struct{}    // of open
	asking  context.Context    // until Close: then questions to clients are given up
	giveUp  context.CancelFunc // of asking

	writeWait time.Duration // maxWriteWait, but in tests
}

// New returns a Server with the given options.
func New(options Options) *Server {
	s := &Server{
		options: options,
		origins: make(map[string]bool, len(options.AllowedOrigins)),
		hosts:   make(map[string]bool, len(options.AllowedHosts)),
		spoken:  spokenOf(options.Versions),
		signer:  sync.OnceValue(options.newSigner),

		writeWait: maxWriteWait,
	}
	s.open, s.close = context.WithCancel(context.Background())
	s.closed = s.open.Done()
	s.asking, s.giveUp = context.WithCancel(context.Background())
	s.options.setDefaults()
	if s.memory = options.Memory; s.memory == nil {
		s.memory = NewMemory()
	}
	s.polls = polls{interval: s.options.WatchInterval, rate: s.options.WatchRate}
	s.lives, s.legacy = &s.memory.lives, &s.memory.legacy
	s.memory.attach(s)
	s.SetLibrary(nil)
	for _, origin := range options.AllowedOrigins {
		s.origins[normalOrigin(origin)] = true
	}
	for _, host := range options.AllowedHosts {
		s.hosts[hostname(host)] = true
	}
	return s
}

// setDefaults fills in what is not set.
func (o *Options) setDefaults() {
	orDefault(&o.MaxBody, DefaultMaxBody)
	orDefault(&o.SessionTTL, DefaultSessionTTL)
	orDefault(&o.MaxStreams, DefaultMaxStreams)
	orDefault(&o.MaxClientStreams, DefaultMaxClientStreams)
	orDefault(&o.KeepAlive, DefaultKeepAlive)
	orDefault(&o.WatchInterval, DefaultWatchInterval)
	orDefault(&o.WatchRate, DefaultWatchRate)
	orDefault(&o.AskTimeout, DefaultAskTimeout)
	if o.ListTTL == 0 {
		o.ListTTL = DefaultListTTL
	}
	o.ListTTL = max(o.ListTTL, 0)
}

func orDefault[T int | int64 | time.Duration](option *T, value T) {
	if *option <= 0 {
		*option = value
	}
}

// ServeHTTP answers one request of the MCP endpoint, or of an address below it.
// It always answers. It returns when the answer has been written, which for a
// stream is when the stream ends.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request, site Site) {
	out := buffer.Get()
	defer buffer.Put(out)

	if site.Base == "" {
		site.Base = strings.TrimSuffix(r.URL.Path, site.Rest)
	}
	x := exchange{
		server:  s,
		site:    &site,
		ctx:     r.Context(),
		header:  r.Header,
		out:     out,
		remote:  r.RemoteAddr,
		version: headerRevision(r.Header),
		status:  http.StatusOK,
	}
	if f := x.route(w, r); f != nil {
		x.refuse(f)
		x.write(w)
	}
}

// route serves the request by its address and method. A fault is yet to be
// answered; without one everything is.
func (x *exchange) route(w http.ResponseWriter, r *http.Request) *fault {
	if f := x.server.admitPage(r); f != nil {
		return f
	}
	x.server.share(w.Header(), r)
	if f := x.server.admit(r); f != nil {
		return f
	}
	switch {
	case x.site.Rest == "/sse" && r.Method == http.MethodGet:
		return x.serveLegacyStream(w, r)
	case x.site.Rest == "/message" && r.Method == http.MethodPost:
		return x.answer(w, x.takeLegacyMessage(r))
	case strings.Trim(x.site.Rest, "/") != "":
		f := faultf(http.StatusNotFound, invalidRequest, "there is nothing here for %s: the endpoint is %s", r.Method, x.site.Base)
		f.anonymous = true
		return f
	}
	if f := x.resume(); f != nil {
		return f
	}
	live, leave := x.server.lives.enter(x.session)
	defer leave()
	x.live = live
	switch {
	case r.Method == http.MethodPost:
		return x.servePost(w, r)
	case r.Method == http.MethodGet && wantsLegacyStream(r):
		return x.serveLegacyStream(w, r)
	}
	if f := x.agreeWithoutBody(r.Method); f != nil {
		return f
	}
	if r.Method == http.MethodDelete {
		return x.answer(w, x.endSession())
	}
	x.tools = x.site.Tools()
	return x.serveStream(w, r)
}

// answer sends what stands in the exchange unless there is a fault.
func (x *exchange) answer(w http.ResponseWriter, f *fault) *fault {
	if f == nil {
		x.write(w)
	}
	return f
}

// servePost serves one body. The answer is a stream from the first message on
// that is sent before it, if the client takes streams.
func (x *exchange) servePost(w http.ResponseWriter, r *http.Request) *fault {
	body := buffer.Get()
	defer buffer.Put(body)
	if f := x.server.readBody(body, r); f != nil {
		return f
	}
	x.tools = x.site.Tools()
	x.caller = x.site.Caller(x.tools)
	if !acceptsStream(r.Header["Accept"]) {
		x.serve(body.B)
		x.write(w)
		return nil
	}
	stream := eventStream{w: w, wait: x.server.writeWait}
	x.channel = &stream
	defer stream.close()
	x.serve(body.B)
	switch {
	case x.canceled && !x.batched:
		_ = stream.open() // and no answer on it: clients bear nothing else in place of one
	case !stream.isOpen():
		x.write(w)
	case len(x.out.B)+len(x.kept) > 0:
		_ = stream.send(append(x.out.B, x.kept...)) // whoever is gone is not told
	}
	return nil
}

// An exchange is one body and the answer that grows for it.
type exchange struct {
	server *Server
	site   *Site
	tools  *ocp.Toolset
	caller ocp.Caller
	ctx    context.Context
	header http.Header // nil if the body came over a connection

	channel    channel     // carries messages besides the answer; nil if nothing can
	connection *connection // that the body came over; nil if it is an HTTP request of its own
	session    *session    // nil without one
	live       *live       // of the session or the connection; nil without one
	remote     string      // the client's address; "" over a connection

	polling pollKey // of a stream that watches resources, without their URI

	version revision
	client  capabilities
	batched bool           // the message is one of several in the body
	id      jsontext.Value // of the message being answered; nil if it has none or none can be read
	params  params
	teller  teller // of what the call of a tool says before its end

	begun  string // the id of the session that initialize has begun
	status int    // 0 if the answer has been written
	fault  *fault // the last that was made the answer

	canceled bool // by the client, which waits for no answer
	out      *buffer.Buffer
	kept     []byte // encoded before, follows out; never changed
}

// write sends the answer. The header values are not shared between answers,
// because handlers around this one may rewrite them in place.
func (x *exchange) write(w http.ResponseWriter) {
	if x.begun != "" {
		w.Header()[sessionHeader] = []string{x.begun}
	}
	if x.fault != nil {
		x.fault.setHeader(w.Header())
	}
	size := len(x.out.B) + len(x.kept)
	if size == 0 {
		w.WriteHeader(x.status)
		return
	}
	values := []string{"application/json", strconv.Itoa(size)}
	header := w.Header()
	header["Content-Type"] = values[:1:1]
	header["Content-Length"] = values[1:2:2]
	w.WriteHeader(x.status)

	// An error here means that the client is gone: there is nobody to tell.
	if _, err := w.Write(x.out.B); err != nil || len(x.kept) == 0 {
		return
	}
	_, _ = w.Write(x.kept)
}
