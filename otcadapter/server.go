// Package otcadapter is a server of Open Tool Calling (OTC), and of OXP, its later name, for
// the Toolsets of OpenAPI documents. It uses net/http and does not depend on Caddy.
//
// The directive passes each request to Server.ServeHTTP (server.go) with a Site, which has the
// current Toolsets and the authenticated user. The endpoints are:
//
//   - GET /health reports whether the tools, and the API behind them, are available.
//   - GET /tools returns the definitions of the tools, which are encoded once (catalog.go,
//     definition.go, requirement.go).
//   - POST /call and POST /tools/call run a tool (call.go).
//
// A call passes these steps: parse the request (call_request.go); find the tool for its id
// (catalog.go, version.go); collect the credentials that the tool needs, if there are any
// (credentials.go); if the client sent a call_id, return the stored response of an earlier
// request (package once); run the tool through the Caller; encode the outcome without
// decoding the API's response (response.go, repair_hints.go).
//
// A request that is invalid in itself gets an error with a 4xx status (fault.go). A tool that
// fails gets status 200 with success false. The responses of /call and /tools/call differ in
// form (response.go). A stored response is converted if the call is repeated at the other
// endpoint.
package otcadapter

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/once"
)

// defaultMaxBody is the default limit of a call's request body, in bytes.
const defaultMaxBody = 4 << 20

// The endpoints below the base path.
const (
	HealthEndpoint  = "/health"
	toolsEndpoint   = "/tools"
	callEndpoint    = "/call"       // in the text of OTC
	oxpCallEndpoint = "/tools/call" // in OXP, and in OTC's own OpenAPI document
)

// Options configures a Server. The zero value has the defaults. A configuration file can have those with a name in JSON.
type Options struct {
	// The first part of tool ids, which have the form Toolkit.Tool@Version. Default: the
	// document's title.
	Toolkit string `json:"toolkit,omitempty"`

	// The last part of tool ids, in the form x.y.z. It is only allowed with a single toolset.
	// Default: the document's version as x.y.z.
	Version string `json:"version,omitempty"`

	// The largest request body, in bytes. Default: 4 MiB.
	MaxBody int64 `json:"max_body,omitempty"`

	// RetryAfter returns how long clients should wait while a Toolset is missing. Default: one
	// second.
	RetryAfter func() time.Duration `json:"-"`

	// Whether to add developer_message to errors: the step that failed, the operation, and the
	// API's status. It contains nothing of a request. Default: false.
	DeveloperMessages bool `json:"developer_messages,omitempty"`

	// The URLs at which users get the credentials of a requirement, by the requirement's id.
	// Clients get the URL if the credentials are missing. Placeholders such as {env.URL} are
	// replaced. Default: the authorizationUrl of the document.
	AuthorizationURLs map[string]string `json:"authorization_urls,omitempty"`

	// Idempotency configures how calls with a call_id from the client are recorded, so that
	// each runs once. Default: nil, no records; each request runs.
	Idempotency *once.Options `json:"-"`

	// Warn is called with warnings about the documents for the operator. Default: warnings are
	// dropped.
	Warn func(message string) `json:"-"`
}

// A Toolkit is a Toolset that the server serves, in its state at the time of one request.
type Toolkit struct {
	Tools              *tools.Toolset // nil while the document is not loaded
	InjectsCredentials bool           // the gateway adds the credentials for the API
	Name               string         // "" unless Options.Toolkit and Options.Version, and what the document says, are not for this toolkit
}

// A Site describes the surroundings of one request.
type Site struct {
	// Toolkits are the served Toolsets, in the order of the configuration. Several with the
	// same name are versions of one toolkit.
	Toolkits []Toolkit

	Host Host

	// User is the authenticated user, "" for none. Calls with a call_id belong to the user that
	// sent them.
	User string

	// Owner is whose share of the store the records of calls with a call_id take.
	Owner store.Owner

	// Access is what the user's token allows. Nil means everything.
	Access *tools.Access

	// Upstream checks the API's health. Nil means that the API is not checked.
	Upstream UpstreamHealth
}

// A Host runs the tool calls of one request.
type Host interface {
	// Caller returns the caller that runs the calls of the toolkit at that index.
	Caller(toolkit int, info CallInfo) tools.Caller
}

// CallInfo is what the client claims about a call, for logs and for the handlers after the server.
// It is not verified.
type CallInfo struct {
	CallID  string // from the client, or generated by the server
	HasID   bool   // the CallID is from the client, which can repeat the call with it
	TraceID string
	UserID  string // the user that the client claims to call for; not an identity

	// Conceal removes the credentials that came with the call from a text, such as an error of
	// the API or a log line. Nil if the call has no credentials.
	Conceal func(text string) string
}

// A Server implements the endpoints of OTC 1.0 and OXP 1.0. It is safe for concurrent use.
type Server struct {
	options Options
	records *once.Records // nil if calls are not recorded
	health  upstreamState

	current  atomic.Pointer[catalog] // of the Toolsets of the latest request
	building sync.Mutex              // held while a catalog is built, so that it is built once
	latest   []*catalog              // of the same whole Toolsets, the newest last
}

// New returns a Server.
func New(options Options) *Server {
	options.MaxBody = cmp.Or(max(options.MaxBody, 0), defaultMaxBody)
	if options.RetryAfter == nil {
		options.RetryAfter = func() time.Duration { return time.Second }
	}
	if options.Warn == nil {
		options.Warn = func(string) {}
	}
	s := &Server{options: options}
	if options.Idempotency != nil {
		s.records = once.New(*options.Idempotency)
	}
	return s
}

// ServeHTTP responds to a request for an endpoint. Endpoint is the path below the base path,
// such as "/health".
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request, endpoint string, site Site) {
	form := otcStandard
	if endpoint == oxpCallEndpoint {
		form = oxpStandard
	}
	if f := checkEndpoint(r, endpoint); f != nil {
		s.writeFault(w, f, form)
		return
	}
	c := s.catalog(site.Toolkits)
	switch {
	case endpoint == HealthEndpoint:
		s.serveHealth(w, r, c, site.Upstream)
	case !c.loaded():
		s.writeFault(w, notLoaded(s.options.RetryAfter), form)
	case endpoint == toolsEndpoint:
		s.serveTools(w, r, c)
	default:
		s.serveCall(w, r, c, form, site)
	}
}

// checkEndpoint rejects unknown endpoints and methods.
func checkEndpoint(r *http.Request, endpoint string) *fault {
	switch endpoint {
	case HealthEndpoint, toolsEndpoint:
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return wrongMethod(r.Method, endpoint, "GET, HEAD")
		}
	case callEndpoint, oxpCallEndpoint:
		if r.Method != http.MethodPost {
			return wrongMethod(r.Method, endpoint, "POST")
		}
	default:
		return unknownEndpoint(endpoint)
	}
	return nil
}

// serveTools responds with the list of tools, or with a part of it (see listPart).
func (s *Server) serveTools(w http.ResponseWriter, r *http.Request, c *catalog) {
	if f := checkList(r); f != nil {
		s.writeFault(w, f, otcStandard)
		return
	}
	part, whole, f := readListPart(r.URL.RawQuery)
	if f != nil {
		s.writeFault(w, f, otcStandard)
		return
	}
	if !whole {
		s.serveToolsPart(w, c, part)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-cache") // caches may store it, and must revalidate it
	header.Set("Etag", c.listTag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(c.list))
}

// writeFault writes a fault as the response.
func (s *Server) writeFault(w http.ResponseWriter, f *fault, form *standard) {
	if f.header != "" && f.value != "" {
		w.Header().Set(f.header, f.value)
	}
	writeJSON(w, f.status, f.append(nil, form, s.options.DeveloperMessages))
}

// writeJSON writes a complete JSON response.
func writeJSON(w http.ResponseWriter, status int, answer []byte) {
	values := []string{"application/json", strconv.Itoa(len(answer)), "nosniff"}
	header := w.Header()
	header["Content-Type"] = values[:1:1]
	header["Content-Length"] = values[1:2:2]
	header["X-Content-Type-Options"] = values[2:3:3]
	w.WriteHeader(status)
	_, _ = w.Write(answer) // the client may have disconnected
}

const (
	// upstreamHealthTTL is how long the result of a health check is cached.
	upstreamHealthTTL = 5 * time.Second

	// upstreamHealthTimeout limits the duration of a health check.
	upstreamHealthTimeout = 5 * time.Second
)

// An UpstreamHealth checks the health of the API. An error means that the API is unhealthy.
type UpstreamHealth func(ctx context.Context) error

// upstreamState caches the result of the last health check. The endpoint is public, so there is
// only one check at a time, and none within upstreamHealthTTL after the last.
type upstreamState struct {
	mu    sync.Mutex
	until time.Time
	err   error
}

// check returns the cached result, or makes a health check.
func (u *upstreamState) check(ctx context.Context, probe UpstreamHealth) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if time.Now().Before(u.until) {
		return u.err
	}
	// If the client disconnects, the check continues: a canceled check would report an
	// unhealthy API to the next client.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), upstreamHealthTimeout)
	defer cancel()
	u.err = probe(ctx)
	u.until = time.Now().Add(upstreamHealthTTL)
	return u.err
}

// serveHealth reports whether calls are expected to work (OTC 1.0, Server Health Check). All
// documents must be loaded. If a health check is configured, the API must be healthy.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request, c *catalog, upstream UpstreamHealth) {
	if c.partial || !c.loaded() {
		s.writeFault(w, notLoaded(s.options.RetryAfter), otcStandard)
		return
	}
	if upstream != nil {
		if err := s.health.check(r.Context(), upstream); err != nil {
			f := unavailable("the API behind the tools is unhealthy", upstreamHealthTTL)
			f.developer = err.Error()
			s.writeFault(w, f, otcStandard)
			return
		}
	}
	writeJSON(w, http.StatusOK, []byte(`{"$schema":"`+otcStandard.schema+`","status":"healthy"}`))
}
