package otcadapter

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairwayhq/fairway/ocp"
)

// DefaultMaxBody is the size limit of a call's request body, in bytes.
const DefaultMaxBody = 4 << 20

// The endpoints below the base path.
const (
	healthEndpoint  = "/health"
	toolsEndpoint   = "/tools"
	callEndpoint    = "/call"       // OTC's text
	oxpCallEndpoint = "/tools/call" // OXP, and OTC's own OpenAPI document
)

// Options are the settings of a Server; the zero value has the defaults.
type Options struct {
	// Toolkit is the first part of tool ids, [A-Za-z0-9_]+; other text is put
	// into PascalCase. Default: the title of each document.
	Toolkit string

	// Version is the last part of tool ids, x.y.z (CheckVersion); what is written
	// otherwise is made that. Default: the version of each document, likewise.
	Version string

	// MaxBody is the size limit of a request body in bytes. Default:
	// DefaultMaxBody.
	MaxBody int64

	// RetryAfter says how long clients should wait while a Toolset is missing.
	// Default: one second.
	RetryAfter func() time.Duration

	// DeveloperMessages adds developer_message to errors: which step failed, and
	// with which status of the API.
	DeveloperMessages bool

	// AuthorizationURLs say where a user gets what a requirement asks for, by
	// its id. Default: the authorizationUrl of the document's scheme.
	AuthorizationURLs map[string]string

	// Idempotency says how calls are kept that the client has named with a
	// call_id, so that each runs once. Nil keeps none: each request is a call.
	Idempotency *Idempotency

	// Warn is told what an operator should know of the documents. Default:
	// nobody is.
	Warn func(message string)
}

// A Toolkit is a Toolset that the server offers, as one request finds it.
type Toolkit struct {
	Tools *ocp.Toolset // nil while its document is not loaded
	Held  bool         // the gateway itself authorizes the calls to the API
}

// A Site is what stands around one request.
type Site struct {
	// Toolkits are what is offered, in the order of the configuration. Several of
	// one name are versions of one toolkit.
	Toolkits []Toolkit

	// Caller returns what runs the calls of the toolkit at that index.
	Caller func(toolkit int, asked Asked) ocp.Caller

	// User is who has been authenticated, "" for nobody. Calls with a call_id
	// belong to the user that sent them.
	User string

	// Access is what the user's token allows. Nil: everything.
	Access *Access

	// Upstream reports whether the API is well. Nil: it is not asked.
	Upstream UpstreamHealth
}

// Asked is what the client says of a call, for logs and for the handlers behind
// the server. Nothing of it has been verified.
type Asked struct {
	CallID  string // of the client, or made by the server
	TraceID string
	UserID  string // for whom the client says it calls; never an identity

	// Conceal takes the credentials that came with the call out of a text, such
	// as the API's words or a line of a log. Nil if none are sent.
	Conceal func(text string) string
}

// A Server answers the endpoints of OTC 1.0 and OXP 1.0. It is safe for concurrent
// use.
type Server struct {
	options Options
	records *records // nil if calls are not kept
	health  upstreamState

	current   atomic.Pointer[catalog] // of the Toolsets that were asked for last
	compiling sync.Mutex              // held while a catalog is made, so that it is made once
}

// New returns a Server.
func New(options Options) *Server {
	if options.MaxBody <= 0 {
		options.MaxBody = DefaultMaxBody
	}
	if options.RetryAfter == nil {
		options.RetryAfter = func() time.Duration { return time.Second }
	}
	s := &Server{options: options}
	if options.Idempotency != nil {
		s.records = newRecords(*options.Idempotency)
	}
	return s
}

// ServeHTTP answers a request for an endpoint: the path below the base path, such
// as "/health". It always answers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request, endpoint string, site Site) {
	form := otcStandard
	if endpoint == oxpCallEndpoint {
		form = oxpStandard
	}
	if f := admit(r, endpoint); f != nil {
		s.refuse(w, f, form)
		return
	}
	c := s.catalog(site.Toolkits)
	switch {
	case endpoint == healthEndpoint:
		s.serveHealth(w, r, c, site.Upstream)
	case !c.loaded():
		s.refuse(w, notLoaded(s.options.RetryAfter), form)
	case endpoint == toolsEndpoint:
		s.serveTools(w, r, c)
	default:
		s.serveCall(w, r, c, form, site)
	}
}

// admit refuses what no endpoint takes.
func admit(r *http.Request, endpoint string) *fault {
	switch endpoint {
	case healthEndpoint, toolsEndpoint:
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return wrongMethod(r.Method, endpoint, "GET, HEAD")
		}
	case callEndpoint, oxpCallEndpoint:
		if r.Method != http.MethodPost {
			return wrongMethod(r.Method, endpoint, "POST")
		}
	default:
		return noEndpoint(endpoint)
	}
	return nil
}

func (s *Server) serveTools(w http.ResponseWriter, r *http.Request, c *catalog) {
	if f := checkList(r); f != nil {
		s.refuse(w, f, otcStandard)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-cache") // caches may store it, and must revalidate it
	header.Set("Etag", c.listTag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(c.list))
}

func (s *Server) refuse(w http.ResponseWriter, f *fault, form *standard) {
	if f.header != "" && f.value != "" {
		w.Header().Set(f.header, f.value)
	}
	writeAnswer(w, f.status, f.append(nil, form, s.options.DeveloperMessages))
}

// writeAnswer writes a whole JSON answer.
func writeAnswer(w http.ResponseWriter, status int, answer []byte) {
	header := w.Header()
	header["Content-Type"] = []string{"application/json"}
	header["Content-Length"] = []string{strconv.Itoa(len(answer))}
	header["X-Content-Type-Options"] = []string{"nosniff"}
	w.WriteHeader(status)
	_, _ = w.Write(answer) // the client may be gone
}
