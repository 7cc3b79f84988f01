package otcadapter

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/ocp"
)

// DefaultMaxBody is the size limit of a call's request body, in bytes.
const DefaultMaxBody = 4 << 20

// The endpoints below the base path.
const (
	healthEndpoint = "/health"
	toolsEndpoint  = "/tools"
	callEndpoint   = "/call"
)

// Options are the settings of a Server; the zero value has the defaults.
type Options struct {
	// Toolkit is the first part of tool ids, [A-Za-z0-9_]+; other text is put
	// into PascalCase. Default: the document's title.
	Toolkit string

	// Version is the last part of tool ids, [A-Za-z0-9_.-]+; clients of OXP want
	// x.y.z. Default: the document's version as x.y.z.
	Version string

	// MaxBody is the size limit of a request body in bytes. Default:
	// DefaultMaxBody.
	MaxBody int64

	// RetryAfter says how long clients should wait while there is no Toolset.
	// Default: one second.
	RetryAfter func() time.Duration
}

// A Server answers the endpoints of OTC 1.0. It is safe for concurrent use.
type Server struct {
	options Options

	current   atomic.Pointer[catalog] // of the Toolset that was asked for last
	compiling sync.Mutex              // held while a catalog is made, so that it is made once
}

// New returns a Server.
func New(options Options) *Server {
	if options.MaxBody <= 0 {
		options.MaxBody = DefaultMaxBody
	}
	return &Server{options: options}
}

// ServeHTTP answers a request for an endpoint: the path below the base path, such
// as "/health". Tools is nil while the document is not loaded. It always answers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request, endpoint string, tools *ocp.Toolset, caller ocp.Caller) {
	if f := s.admit(r, endpoint, tools); f != nil {
		f.write(w)
		return
	}
	switch endpoint {
	case healthEndpoint:
		writeAnswer(w, http.StatusOK, []byte(healthy))
	case toolsEndpoint:
		writeAnswer(w, http.StatusOK, s.catalog(tools).list)
	case callEndpoint:
		s.serveCall(w, r, tools, caller)
	}
}

const healthy = `{"$schema":"` + schemaURI + `","status":"healthy"}`

// admit refuses what no endpoint takes.
func (s *Server) admit(r *http.Request, endpoint string, tools *ocp.Toolset) *fault {
	switch endpoint {
	case healthEndpoint, toolsEndpoint:
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return wrongMethod(r.Method, endpoint, "GET, HEAD")
		}
	case callEndpoint:
		if r.Method != http.MethodPost {
			return wrongMethod(r.Method, endpoint, "POST")
		}
	default:
		return noEndpoint(endpoint)
	}
	if tools == nil {
		wait := time.Second
		if s.options.RetryAfter != nil {
			wait = s.options.RetryAfter()
		}
		return notLoaded(wait)
	}
	return nil
}

func (s *Server) serveCall(w http.ResponseWriter, r *http.Request, tools *ocp.Toolset, caller ocp.Caller) {
	req, f := s.readCall(r)
	if f != nil {
		f.write(w)
		return
	}
	catalog := s.catalog(tools)
	name, f := catalog.resolve(req.toolID)
	if f != nil {
		f.write(w)
		return
	}
	outcome := caller.Call(r.Context(), name, req.input)
	defer outcome.Release()
	if failure := outcome.Failure; failure != nil && failure.Kind == ocp.UnknownTool {
		unknownTool(failure).write(w)
		return
	}
	answer := buffer.Get()
	defer buffer.Put(answer)
	answer.B = appendAnswer(answer.B, req, outcome)
	writeAnswer(w, http.StatusOK, answer.B)
}

// readCall reads a POST /call.
func (s *Server) readCall(r *http.Request) (callRequest, *fault) {
	if f := checkContent(r); f != nil {
		return callRequest{}, f
	}
	body := buffer.Get()
	defer buffer.Put(body)
	if f := readBody(body, r, s.options.MaxBody); f != nil {
		return callRequest{}, f
	}
	return parseCall(body.B)
}

// checkContent wants uncompressed JSON. A browser cannot send that to another
// site without asking it first.
func checkContent(r *http.Request) *fault {
	contentType := r.Header.Get("Content-Type")
	if contentType != "application/json" {
		mediaType, parameters, err := mime.ParseMediaType(contentType)
		charset := strings.ToLower(parameters["charset"])
		if err != nil || mediaType != "application/json" || charset != "" && charset != "utf-8" {
			return wrongContent("Content-Type", contentType, "application/json")
		}
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return wrongContent("Content-Encoding", encoding, "identity")
	}
	return nil
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
