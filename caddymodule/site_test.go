package caddymodule_test

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

	_ "github.com/fairwayhq/fairway/caddymodule"
	"github.com/fairwayhq/fairway/internal/freeport"
	"github.com/fairwayhq/fairway/internal/keyword"
)

// trips is a small document with what the tests call.
const trips = `openapi: 3.1.0
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

// site is a running Caddy with one site.
type site struct {
	t    *testing.T
	dir  string // where the documents and logs are
	port int
	url  string
}

// newSite prepares a site: a directory with trips.yaml and a free port.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), port: freeport.Find(t)}
	s.url = fmt.Sprintf("http://127.0.0.1:%d", s.port)
	s.write("trips.yaml", trips)
	return s
}

// with returns the same site for a subtest.
func (s *site) with(t *testing.T) *site {
	sub := *s
	sub.t = t
	return &sub
}

// write writes a file of the site and returns its path.
func (s *site) write(name, content string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	// Renamed into place, so that no reader sees half of it.
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// config adapts a site block's content and the content of the global options.
// TRIPS is replaced by the path of trips.yaml, DIR by the site's directory.
func (s *site) config(global, block string) []byte {
	s.t.Helper()
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
`, global, s.port, block)
	caddyfile = strings.NewReplacer("TRIPS", filepath.Join(s.dir, "trips.yaml"), "DIR", s.dir).Replace(caddyfile)
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		s.t.Fatal(err)
	}
	return config
}

// load makes the configuration the running one. When it returns, only that one
// listens, or the one before it if there was an error: Caddy does not wait until a
// server that it stops has closed its socket, and of two sockets on a port either
// may be given the next connection.
func (s *site) load(global, block string) error {
	s.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	err := caddy.Load(s.config(global, block), true)
	eventually(s.t, "one configuration alone on the port", func() bool { return freeport.Listeners(s.port) <= 1 })
	return err
}

// run starts a site with the block and stops it with the test.
func run(t *testing.T, global, block string) *site {
	t.Helper()
	s := newSite(t)
	s.start(global, block)
	return s
}

func (s *site) start(global, block string) {
	s.t.Helper()
	if err := s.load(global, block); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := caddy.Stop(); err != nil {
			s.t.Error(err)
		}
	})
}

// log returns the log so far.
func (s *site) log() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, "caddy.log"))
	return string(text)
}

// logged waits for a line of the log that has all the texts.
func (s *site) logged(texts ...string) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("a log line with %q", texts), func() bool { return s.hasLogged(texts...) })
}

// hasLogged reports whether a line of the log has all the texts.
func (s *site) hasLogged(texts ...string) bool {
	for line := range strings.Lines(s.log()) {
		if containsAll(line, texts) {
			return true
		}
	}
	return false
}

// containsAll reports whether the text has the words of all parts.
func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !keyword.All(text, part) {
			return false
		}
	}
	return true
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("never came: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// await waits until the channel is closed.
func await(t *testing.T, what string, closed <-chan struct{}) {
	t.Helper()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatalf("never came: %s", what)
	}
}

// answer is an HTTP answer, read whole.
type answer struct {
	status int
	header http.Header
	body   string
}

// client opens a connection for each request: one that a reload closes at the
// wrong moment would fail a request on it.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// send sends a request. A server that a reload replaces may still accept a
// connection in the moment it closes, and drops it unread, so a request that got no
// answer is sent again, once: what breaks off twice is a fault.
func send(r *http.Request) (*http.Response, error) {
	response, err := client.Do(r)
	dropped := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	if !dropped || r.Body != nil && r.GetBody == nil {
		return response, err
	}
	if r.Body != nil {
		if r.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	return client.Do(r)
}

// do sends a request and reads the answer.
func (s *site) do(r *http.Request) answer {
	s.t.Helper()
	response, err := send(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

func (s *site) get(path string) answer {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.do(r)
}

// callRequest is a tools/call over MCP.
func (s *site) callRequest(tool, arguments string) *http.Request {
	s.t.Helper()
	if arguments == "" {
		arguments = "{}"
	}
	message := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments)
	r, err := http.NewRequest(http.MethodPost, s.url+"/mcp", strings.NewReader(message))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", "2025-06-18")
	return r
}

// result is the result of a tools/call.
type result struct {
	IsError bool `json:"isError"`
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
}

// text returns the text content.
func (r result) text() string {
	var text strings.Builder
	for _, c := range r.Content {
		text.WriteString(c.Text)
	}
	return text.String()
}

func (s *site) call(tool, arguments string) result {
	s.t.Helper()
	return s.result(s.do(s.callRequest(tool, arguments)))
}

func (s *site) result(a answer) result {
	s.t.Helper()
	var message struct {
		Result *result         `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal([]byte(a.body), &message); err != nil || message.Result == nil {
		s.t.Fatalf("no result of a tool call: status %d, %s", a.status, a.body)
	}
	return *message.Result
}

// succeed calls a tool that must succeed, and returns its text.
func (s *site) succeed(tool, arguments string) string {
	s.t.Helper()
	r := s.call(tool, arguments)
	if r.IsError {
		s.t.Fatalf("%s failed: %s", tool, r.text())
	}
	return r.text()
}

// fail calls a tool that must fail with a message that has all the texts.
func (s *site) fail(tool, arguments string, texts ...string) {
	s.t.Helper()
	r := s.call(tool, arguments)
	if !r.IsError || !containsAll(r.text(), texts) {
		s.t.Fatalf("%s: error %t %q, want an error with %q", tool, r.IsError, r.text(), texts)
	}
}

// toolNames lists the tools of the document over MCP, nil if they are unavailable.
func (s *site) toolNames() []string {
	s.t.Helper()
	a := s.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, map[string]string{"MCP-Protocol-Version": "2025-06-18"})
	if a.status == http.StatusServiceUnavailable {
		return nil
	}
	var message struct {
		Result struct {
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		} `json:"result"`
	}
	if err := json.NewDecoder(bytes.NewBufferString(a.body)).Decode(&message); err != nil {
		s.t.Fatalf("tools/list: %d %s", a.status, a.body)
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
