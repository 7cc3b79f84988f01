// Package mcpadapter is a Model Context Protocol server over an ocp.Toolset. It
// knows net/http and nothing of Caddy.
//
// One path speaks Streamable HTTP in the revisions 2025-03-26, 2025-06-18,
// 2025-11-25 and 2026-07-28. Each POST is served from what it carries itself:
// admit looks at the HTTP request, readBody bounds and reads it, message.go
// takes the JSON-RPC envelope apart, era.go finds the revision and holds the
// request to its rules, methods.go names who serves the method, and the answer
// is appended to a pooled buffer and written at once as application/json.
//
// tools/list is encoded once for each Toolset and kept (list.go). tools/call
// hands the arguments on as they came to an ocp.Caller and puts its Outcome into
// words of the protocol (call.go, content.go). Nothing of a client is remembered
// between requests.
package mcpadapter

import (
	"context"
	"net/http"
	"strconv"
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
	// Where empty they are the toolset's: its Name ("fairway" if it has none),
	// its Title (left out if it has none), its Version ("0" if it has none).
	Name, Title, Version string

	// Instructions tells models how to use the server. Where empty it is the
	// toolset's Description, cut at 2,048 bytes.
	Instructions string

	// MaxBody is the largest request body, in bytes. Default: DefaultMaxBody.
	MaxBody int64

	// AllowedOrigins are the web origins, "https://app.example.com", that may
	// call beside the server's own host; "*" stands for all. Requests without an
	// Origin header, which no browser sends, are always let through.
	AllowedOrigins []string

	// AllowedHosts are the Host names, without port, whose pages may call over a
	// loopback connection, beside localhost and loopback addresses; "*" stands
	// for all. Name the public host here if a proxy on the same machine passes
	// pages' requests on: a foreign name that reaches a loopback address is
	// otherwise taken for DNS rebinding. Requests without Origin are not asked.
	AllowedHosts []string

	// PageSize is how many tools a page of tools/list has. Default 0: all in
	// one, because many clients never ask for a second page.
	PageSize int

	// ListTTL is how long, counted from its receipt, a client may take a list
	// for fresh (ttlMs, 2026-07-28). Negative means it must not. Default:
	// DefaultListTTL.
	ListTTL time.Duration

	// PublicLists lets caches share lists between users (cacheScope "public",
	// 2026-07-28). Set it only if whoever may reach the server may know all of
	// its tools. Default: "private".
	PublicLists bool
}

// A Server answers MCP requests. It is safe for concurrent use. Use one Server
// for each endpoint: it keeps the encoded list of one Toolset, the latest.
type Server struct {
	options Options
	origins map[string]bool
	hosts   map[string]bool
	latest  atomic.Pointer[catalog]
}

// New returns a Server with the given options.
func New(options Options) *Server {
	if options.MaxBody <= 0 {
		options.MaxBody = DefaultMaxBody
	}
	switch {
	case options.ListTTL == 0:
		options.ListTTL = DefaultListTTL
	case options.ListTTL < 0:
		options.ListTTL = 0
	}
	s := &Server{
		options: options,
		origins: make(map[string]bool, len(options.AllowedOrigins)),
		hosts:   make(map[string]bool, len(options.AllowedHosts)),
	}
	for _, origin := range options.AllowedOrigins {
		s.origins[normalOrigin(origin)] = true
	}
	for _, host := range options.AllowedHosts {
		s.hosts[hostname(host)] = true
	}
	return s
}

// ServeHTTP answers one request of the MCP endpoint with the given tools, whose
// calls run through caller. It always answers; tools and caller must not be nil.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request, tools *ocp.Toolset, caller ocp.Caller) {
	out := buffer.Get()
	defer buffer.Put(out)

	x := exchange{
		server:  s,
		tools:   tools,
		caller:  caller,
		ctx:     r.Context(),
		header:  r.Header,
		out:     out,
		version: headerRevision(r.Header),
		status:  http.StatusOK,
	}
	if f := s.admit(r); f != nil {
		if f.allow {
			w.Header()["Allow"] = []string{http.MethodPost}
		}
		x.refuse(f)
		x.write(w)
		return
	}
	body := buffer.Get()
	defer buffer.Put(body)
	if f := s.readBody(body, r); f != nil {
		x.refuse(f)
	} else {
		x.serve(body.B)
	}
	x.write(w)
}

// An exchange is one HTTP request and the answer that grows for it.
type exchange struct {
	server *Server
	tools  *ocp.Toolset
	caller ocp.Caller
	ctx    context.Context
	header http.Header

	version revision
	batched bool           // the message is one of several in the body
	id      jsontext.Value // of the message being answered; nil if it has none or none can be read
	params  params

	status int
	out    *buffer.Buffer
	kept   []byte // encoded before, follows out; never changed
}

// write sends the answer. The header values are not shared between answers,
// because handlers around this one may rewrite them in place.
func (x *exchange) write(w http.ResponseWriter) {
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
