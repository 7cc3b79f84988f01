// Package modelserver is a model API for tests. It serves the wire formats of OpenAI (POST
// …/chat/completions and …/responses) and Anthropic (POST …/messages), each as one JSON document or as a stream
// of events, and it fails in every way in which such an API can fail.
//
// A test decides the response to each request: [Server.Respond] gets the [Request] in a form
// that is common to both formats, and returns a [Step]. [Sequence] returns steps one after the
// other. [Server.Requests] returns what was received.
package modelserver

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// maxRequest limits the body of a request, in bytes.
const maxRequest = 64 << 20

// Step is the response to one request. The zero Step is an empty text.
type Step struct {
	Text  string
	Calls []Call

	// Thinking is sent as a thinking block with a signature. Anthropic only.
	Thinking string

	// Stop is the reason to stop in the wire format; "" means the usual one.
	Stop string

	// InputTokens and OutputTokens are the usage. If both are 0, 10 and 5 are reported.
	InputTokens, OutputTokens int
	NoUsage                   bool

	// Status is the status of an error response; 0 is a success. Error is its message, and
	// ErrorCode its type (Anthropic) or code (OpenAI).
	Status           int
	Error, ErrorCode string
	Header           http.Header // of the response

	// Body replaces the body of the response, with the Content-Type of Header or JSON.
	Body string

	// Pieces is in how many pieces a stream sends each text and argument; 0 means 3.
	Pieces int

	// CutAfter closes the connection after this many bytes of the body; 0 is never. A cut stream
	// has sent complete events before.
	CutAfter int

	// FailMidStream sends an error event with Error and ErrorCode in the middle of a stream.
	FailMidStream bool

	// Padding is the length of a text that the server makes up and sends after Text, in bytes.
	Padding int

	// Wait delays the response until it is closed or the client has gone.
	Wait <-chan struct{}

	// WaitMidStream delays the second half of a stream in the same way.
	WaitMidStream <-chan struct{}
}

// Call is a tool call of the model. Arguments is sent as it is, so it may be anything; over
// Anthropic's format without streaming it must be JSON.
type Call = model.ToolCall

// Request is a request that the server received.
type Request struct {
	Path      string
	Query     url.Values
	Header    http.Header
	Body      jsontext.Value
	Anthropic bool // the format is that of Anthropic

	Model     string
	Stream    bool
	MaxTokens int
	System    string

	Temperature *float64
	Effort      string
	Completion  bool     // the limit is max_completion_tokens; OpenAI only
	Marks       []string // blocks with cache_control, as role and type; Anthropic only

	Messages []Message
	Tools    []Tool
}

// Message is a message of the request: a text, calls, or the result of one call.
type Message struct {
	Role    string // user, assistant or tool
	Text    string
	Calls   []Call
	CallID  string // of the result
	IsError bool   // Anthropic only
}

// Tool is a tool that the request describes.
type Tool = model.Tool

// Server is the API. Set Respond before the first request.
type Server struct {
	// Respond returns the response. It may be called concurrently.
	Respond func(r *Request) Step

	// Key is the API key that requests must have; "" accepts all.
	Key string

	// Forget makes Requests return nothing, for a server of many requests.
	Forget bool

	mu       sync.Mutex
	requests []*Request
}

// Sequence returns a function for Server.Respond that returns the steps in order, and then an
// error with status 500.
func Sequence(steps ...Step) func(*Request) Step {
	var mu sync.Mutex
	return func(*Request) Step {
		mu.Lock()
		defer mu.Unlock()
		if len(steps) == 0 {
			return Step{Status: http.StatusInternalServerError, Error: "the sequence of steps has ended"}
		}
		step := steps[0]
		steps = steps[1:]
		return step
	}
}

// Requests returns the requests so far.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Request(nil), s.requests...)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		http.Error(w, "the request is incomplete or too large", http.StatusBadRequest)
		return
	}
	request := &Request{Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header.Clone(), Body: body}
	var format format
	switch {
	case r.Method != http.MethodPost:
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		format = completions{}
	case strings.HasSuffix(r.URL.Path, "/responses"):
		format = responses{}
	case strings.HasSuffix(r.URL.Path, "/messages"):
		format, request.Anthropic = messages{}, true
	}
	if format == nil {
		http.NotFound(w, r)
		return
	}
	if s.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.Key && r.Header.Get("X-Api-Key") != s.Key {
		respond(r.Context(), w, format, request, Step{Status: http.StatusUnauthorized, ErrorCode: "authentication_error", Error: "invalid API key"})
		return
	}
	if err := format.read(request); err != nil {
		respond(r.Context(), w, format, request, Step{Status: http.StatusBadRequest, ErrorCode: "invalid_request_error", Error: err.Error()})
		return
	}
	if !s.Forget {
		s.mu.Lock()
		s.requests = append(s.requests, request)
		s.mu.Unlock()
	}
	respond(r.Context(), w, format, request, s.Respond(request))
}

// format is a wire format.
type format interface {
	read(r *Request) error
	writeError(w io.Writer, step *Step)
	writeDocument(w io.Writer, r *Request, step *Step)
	writeStream(w *eventWriter, r *Request, step *Step)
}

// respond sends the response of a step.
func respond(ctx context.Context, w http.ResponseWriter, f format, r *Request, step Step) {
	if !wait(ctx, step.Wait) {
		return
	}
	if step.InputTokens == 0 && step.OutputTokens == 0 {
		step.InputTokens, step.OutputTokens = 10, 5
	}
	if step.Pieces == 0 {
		step.Pieces = 3
	}
	w.Header().Set("Content-Type", "application/json")
	stream := r.Stream && step.Status == 0 && step.Body == ""
	if stream {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	maps.Copy(w.Header(), step.Header)
	out := &cutter{w: w, left: step.CutAfter}
	if step.CutAfter > 0 && !stream {
		w.Header().Set("Content-Length", strconv.Itoa(step.CutAfter+1))
	}
	if step.Status != 0 {
		w.WriteHeader(step.Status)
	}
	switch {
	case step.Body != "":
		_, _ = io.WriteString(out, step.Body)
	case step.Status != 0:
		f.writeError(out, &step)
	case stream:
		f.writeStream(&eventWriter{w: out, flusher: http.NewResponseController(w), ctx: ctx}, r, &step)
	default:
		f.writeDocument(out, r, &step)
	}
	if out.cut {
		panic(http.ErrAbortHandler)
	}
}

// wait waits until the channel is closed. It returns false if the client has gone. A nil channel
// is closed.
func wait(ctx context.Context, closed <-chan struct{}) bool {
	if closed == nil {
		return true
	}
	select {
	case <-closed:
		return true
	case <-ctx.Done():
		return false
	}
}

// cutter stops writing after a number of bytes, if it is not 0.
type cutter struct {
	w    io.Writer
	left int
	cut  bool
}

func (c *cutter) Write(p []byte) (int, error) {
	if c.cut {
		return len(p), nil
	}
	if c.left > 0 {
		if c.left <= len(p) {
			c.cut = true
			_, err := c.w.Write(p[:c.left])
			return len(p), err
		}
		c.left -= len(p)
	}
	return c.w.Write(p)
}

// pieces cuts a text into n pieces, fewer if it is short. No character is cut in two.
func pieces(text string, n int) []string {
	size := max((len(text)+n-1)/n, 1)
	var cut []string
	for len(text) > size {
		end := size
		for end < len(text) && !utf8.RuneStart(text[end]) {
			end++
		}
		cut, text = append(cut, text[:end]), text[end:]
	}
	return append(cut, text)
}

// stop returns why the model stopped: what the step says, or the name that the format has for calls
// or for the end of a text.
func (s *Step) stop(calls, end string) string {
	switch {
	case s.Stop != "":
		return s.Stop
	case len(s.Calls) > 0:
		return calls
	}
	return end
}
