package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/testkit"
)

// A fake is an MCP server over HTTP whose responses the test writes.
type fake struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	respond  func(w http.ResponseWriter, q *received)
	requests []*received
}

// received is what a fake got.
type received struct {
	*http.Request
	ID     json.RawMessage `json:"id"`
	Called string          `json:"method"` // "" for a response or a request without a body
	Params struct {
		Name      string `json:"name"`
		Arguments any    `json:"arguments"`
		Cursor    string `json:"cursor"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	body   string
}

func newFake(t *testing.T, respond func(w http.ResponseWriter, q *received)) *fake {
	t.Helper()
	f := &fake{t: t, respond: respond}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Server.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := &received{Request: r}
	body, _ := io.ReadAll(r.Body)
	if q.body = string(body); len(body) > 0 {
		if err := json.Unmarshal(body, q); err != nil {
			f.t.Errorf("the gateway sent %s: %v", body, err)
		}
	}
	f.mu.Lock()
	f.requests = append(f.requests, q)
	respond := f.respond
	f.mu.Unlock()
	respond(w, q)
}

// becomes changes what the server is, as if another one was started at the address.
func (f *fake) becomes(respond func(w http.ResponseWriter, q *received)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.respond = respond
}

// got returns the methods of the messages, or of the HTTP requests without one, since the last call.
func (f *fake) got() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var methods []string
	for _, q := range f.requests {
		if q.Called != "" {
			methods = append(methods, q.Called)
		} else {
			methods = append(methods, q.Method)
		}
	}
	f.requests = nil
	return strings.Join(methods, " ")
}

// count returns how many requests had the method.
func (f *fake) count(method string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.requests {
		if q.Called == method || q.Called == "" && q.Method == method {
			n++
		}
	}
	return n
}

func (q *received) result(w http.ResponseWriter, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
}

func (q *received) fault(w http.ResponseWriter, status, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	id := string(q.ID)
	if id == "" || status != http.StatusOK {
		id = "null"
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, code, message)
}

// events begins an event stream.
func events(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		_, _ = io.WriteString(w, e+"\n\n")
	}
	_ = http.NewResponseController(w).Flush()
}

const (
	legacyHello = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`
	modernHello = `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`
	oneTool     = `{"tools":[{"name":"t","description":"d","inputSchema":{"type":"object"}}]}`
	done        = `{"content":[{"type":"text","text":"done"}]}`
)

// modern is a server of 2026-07-28.
func modern(w http.ResponseWriter, q *received) {
	switch q.Called {
	case methodDiscover:
		q.result(w, modernHello)
	case methodListTools:
		q.result(w, oneTool)
	case methodCallTool:
		q.result(w, done)
	default:
		q.fault(w, http.StatusNotFound, codeMethodNotFound, "unknown method")
	}
}

// A legacy is a server of the revisions before, with sessions.
type legacy struct {
	mu       sync.Mutex
	sessions int // opened
	ended    int // of them; these are unknown
	reject   func(w http.ResponseWriter, q *received)
	call     func(w http.ResponseWriter, q *received)
}

func (l *legacy) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = l.sessions
}

func (l *legacy) respond(w http.ResponseWriter, q *received) {
	l.mu.Lock()
	number, _ := strconv.Atoi(strings.TrimPrefix(q.Header.Get(headerSession), "session-"))
	unknown := number <= l.ended || number > l.sessions
	if q.Called == methodInitialize {
		l.sessions++
		w.Header().Set(headerSession, fmt.Sprint("session-", l.sessions))
	}
	l.mu.Unlock()
	switch {
	case q.Called == methodInitialize:
		q.result(w, legacyHello)
	case q.Method == http.MethodGet && q.Header.Get(headerLastID) == "":
		w.WriteHeader(http.StatusMethodNotAllowed)
	case q.Method == http.MethodDelete:
	case unknown && l.reject != nil:
		l.reject(w, q)
	case unknown:
		q.fault(w, http.StatusBadRequest, -32000, "Bad Request: no session")
	case q.Called == methodListTools:
		q.result(w, oneTool)
	case q.Called == methodCallTool && l.call != nil, q.Method == http.MethodGet:
		l.call(w, q)
	case q.Called == methodCallTool:
		q.result(w, done)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// serve returns a Server for an address.
func serve(t *testing.T, address string) *Server {
	t.Helper()
	s := New(Options{Name: "test", Endpoint: address, Version: "1"}, zap.NewNop())
	t.Cleanup(s.Close)
	return s
}

// callTool calls the tool t.
func callTool(t *testing.T, s *Server, owner share.Owner) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	result, err := s.Call(ctx, &Call{Owner: owner, Tool: "t", Arguments: jsontext.Value("{}")})
	return string(result), err
}

// wantDone fails the test if a call does not succeed.
func wantDone(t *testing.T, s *Server, owner share.Owner) {
	t.Helper()
	if result, err := callTool(t, s, owner); err != nil || result != done {
		t.Errorf("the call returned %s, %v", result, err)
	}
}
