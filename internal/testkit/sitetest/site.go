package sitetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// Trips is a small document with what the tests call.
const Trips = `openapi: 3.1.0
info: {title: Trips, version: 1.2.3, description: Trips by train.}
paths:
  /trips:
    get:
      operationId: listTrips
      summary: Lists trips
      parameters:
        - {name: limit, in: query, schema: {type: integer}}
        - {name: X-Trace, in: header, schema: {type: string}}
        - {name: lang, in: cookie, schema: {type: string}}
      responses: {"200": {description: ok, content: {application/json: {schema: {type: object}}}}}
    post:
      operationId: createTrip
      requestBody:
        content: {application/json: {schema: {type: object, required: [to], properties: {to: {type: string}}}}}
      responses: {"201": {description: ok}}
    head:
      operationId: probeTrips
      responses: {"200": {description: ok}}
  /trips/{id}:
    get:
      operationId: getTrip
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
      responses: {"200": {description: ok}}
    delete:
      operationId: deleteTrip
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
      responses: {"204": {description: ok}}
`

// Site is a running Caddy with one site.
type Site struct {
	T    *testing.T
	Dir  string // where the documents and logs are
	Port int
	URL  string
}

// NewSite prepares a site: a directory with trips.yaml and a free port.
func NewSite(t *testing.T) *Site {
	t.Helper()
	s := &Site{T: t, Dir: t.TempDir(), Port: testkit.FreePort(t)}
	s.URL = fmt.Sprintf("http://127.0.0.1:%d", s.Port)
	s.Write("trips.yaml", Trips)
	return s
}

// With returns the same site for a subtest.
func (s *Site) With(t *testing.T) *Site {
	sub := *s
	sub.T = t
	return &sub
}

// Write writes a file of the site and returns its path.
func (s *Site) Write(name, content string) string {
	s.T.Helper()
	path := filepath.Join(s.Dir, name)
	// Renamed into place, so that no reader sees half of it.
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		s.T.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		s.T.Fatal(err)
	}
	return path
}

// Config adapts a site block's content and the content of the global options.
// TRIPS is replaced by the path of trips.yaml, DIR by the site's directory.
func (s *Site) Config(global, block string) []byte {
	s.T.Helper()
	caddyfile := fmt.Sprintf(`{
	admin off
	persist_config off
	auto_https off
	storage file_system DIR/storage
	log {
		output file DIR/caddy.log
		level DEBUG
	}
	%s
}
http://127.0.0.1:%d {
	log
	%s
}
`, global, s.Port, block)
	caddyfile = strings.NewReplacer("TRIPS", filepath.Join(s.Dir, "trips.yaml"), "DIR", s.Dir).Replace(caddyfile)
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		s.T.Fatal(err)
	}
	return config
}

// Load makes the configuration the running one. When it returns, only that one
// listens, or the one before it if there was an error: Caddy does not wait until a
// server that it stops has closed its socket, and of two sockets on a port either
// may be given the next connection.
func (s *Site) Load(global, block string) error {
	s.T.Helper()
	http.DefaultClient.CloseIdleConnections()
	err := caddy.Load(s.Config(global, block), true)
	Eventually(s.T, "one configuration alone on the port", func() bool { return testkit.Listeners(s.Port) <= 1 })
	return err
}

// Run starts a site with the block and stops it with the test.
func Run(t *testing.T, global, block string) *Site {
	t.Helper()
	s := NewSite(t)
	s.Start(global, block)
	return s
}

func (s *Site) Start(global, block string) {
	s.T.Helper()
	if err := s.Load(global, block); err != nil {
		s.T.Fatal(err)
	}
	stopAtEnd(s.T)
}

func stopAtEnd(t *testing.T) {
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// Log returns the log so far.
func (s *Site) Log() string {
	text, _ := os.ReadFile(filepath.Join(s.Dir, "caddy.log"))
	return string(text)
}

// Logged waits for a line of the log that has all the texts.
func (s *Site) Logged(texts ...string) {
	s.T.Helper()
	Eventually(s.T, fmt.Sprintf("a log line with %q", texts), func() bool { return s.HasLogged(texts...) })
}

// HasLogged reports whether a line of the log has all the texts.
func (s *Site) HasLogged(texts ...string) bool {
	for line := range strings.Lines(s.Log()) {
		if ContainsAll(line, texts) {
			return true
		}
	}
	return false
}

// ContainsAll reports whether the text has the words of all parts.
func ContainsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !testkit.ContainsAll(text, part) {
			return false
		}
	}
	return true
}

// Eventually waits until the condition holds.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	testkit.Eventually(t, what, holds)
}

// Await waits until the channel is closed.
func Await(t *testing.T, what string, closed <-chan struct{}) {
	t.Helper()
	select {
	case <-closed:
	case <-time.After(testkit.Patience):
		t.Fatalf("never came: %s", what)
	}
}

// Response is an HTTP answer, read whole.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// Client sends requests to a site that may be reloaded, on a slow machine; see patient.
var Client = &http.Client{Transport: patient{&http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: time.Minute}}}

// patient is a transport for requests to a site of a test:
//
//   - It opens a connection for each request: one that a reload closes at the wrong moment would
//     fail a request on it.
//   - A server that a reload replaces may still accept a connection in the moment it closes, and
//     drop it unread. So a request without a response is sent again, once.
//   - It sends a large body after the server has asked for it. A server that refuses a body closes
//     the connection half a second later, and a slow client that still sends would lose the response.
type patient struct{ transport *http.Transport }

func (p patient) RoundTrip(r *http.Request) (*http.Response, error) {
	const large = 64 << 10
	if r.ContentLength > large {
		r = r.Clone(r.Context())
		r.Header.Set("Expect", "100-continue")
	}
	response, err := p.transport.RoundTrip(r)
	dropped := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	if !dropped || r.Body != nil && r.GetBody == nil {
		return response, err
	}
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = body
	}
	return p.transport.RoundTrip(r)
}

// Do sends a request and reads the answer.
func (s *Site) Do(r *http.Request) Response {
	s.T.Helper()
	response, err := Client.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	return Response{response.StatusCode, response.Header, string(body)}
}

func (s *Site) Get(path string) Response {
	s.T.Helper()
	r, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
	if err != nil {
		s.T.Fatal(err)
	}
	return s.Do(r)
}

// CallRequest is a tools/call over MCP.
func (s *Site) CallRequest(tool, arguments string) *http.Request {
	s.T.Helper()
	if arguments == "" {
		arguments = "{}"
	}
	message := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments)
	r, err := http.NewRequest(http.MethodPost, s.URL+"/mcp", strings.NewReader(message))
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", "2025-06-18")
	return r
}

// Result is the result of a tools/call.
type Result struct {
	IsError bool `json:"isError"`
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	Meta struct {
		Call string `json:"io.github.fairwayhq/call"` // id of the call
	} `json:"_meta"`
}

// Text returns the text content.
func (r Result) Text() string {
	var text strings.Builder
	for _, c := range r.Content {
		text.WriteString(c.Text)
	}
	return text.String()
}

func (s *Site) Call(tool, arguments string) Result {
	s.T.Helper()
	return s.Result(s.Do(s.CallRequest(tool, arguments)))
}

func (s *Site) Result(a Response) Result {
	s.T.Helper()
	var message struct {
		Result *Result         `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal([]byte(a.Body), &message); err != nil || message.Result == nil {
		s.T.Fatalf("no result of a tool call: status %d, %s", a.Status, a.Body)
	}
	return *message.Result
}

// Succeed calls a tool that must succeed, and returns its text.
func (s *Site) Succeed(tool, arguments string) string {
	s.T.Helper()
	r := s.Call(tool, arguments)
	if r.IsError {
		s.T.Fatalf("%s failed: %s", tool, r.Text())
	}
	return r.Text()
}

// Fail calls a tool that must fail with a message that has all the texts.
func (s *Site) Fail(tool, arguments string, texts ...string) {
	s.T.Helper()
	r := s.Call(tool, arguments)
	if !r.IsError || !ContainsAll(r.Text(), texts) {
		s.T.Fatalf("%s: error %t %q, want an error with %q", tool, r.IsError, r.Text(), texts)
	}
}

// ToolNames lists the tools of the document over MCP, nil if they are unavailable.
func (s *Site) ToolNames() []string {
	s.T.Helper()
	a := s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, map[string]string{"MCP-Protocol-Version": "2025-06-18"})
	if a.Status == http.StatusServiceUnavailable {
		return nil
	}
	var message struct {
		Result struct {
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		} `json:"result"`
	}
	if err := json.NewDecoder(bytes.NewBufferString(a.Body)).Decode(&message); err != nil {
		s.T.Fatalf("tools/list: %d %s", a.Status, a.Body)
	}
	names := []string{}
	for _, tool := range message.Result.Tools {
		if tool.Name != nextPage {
			names = append(names, tool.Name)
		}
	}
	return names
}

// nextPage is the built-in tool that endpoints list after those of the document.
const nextPage = "next_page"
