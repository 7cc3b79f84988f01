package sitetest

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// Streams are the streams of the endpoint /mcp of a site.
type Streams struct{ site *Site }

// StreamsOf returns the streams of a site.
func StreamsOf(s *Site) Streams { return Streams{s} }

// ListenTo opens a subscriptions/listen for changes of the resource of listTrips.
func (o Streams) ListenTo(filter string, header ...string) *http.Response {
	o.site.T.Helper()
	body := `{"jsonrpc":"2.0","id":"L","method":"subscriptions/listen","params":{"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"notifications":` + filter + `}}`
	return o.Open(http.MethodPost, body, append(header,
		"Content-Type", "application/json", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")...)
}

// Open opens a stream of the endpoint /mcp that ends with the test. Headers
// are names and values.
func (o Streams) Open(method, body string, header ...string) *http.Response {
	o.site.T.Helper()
	ctx, giveUp := context.WithTimeout(o.site.T.Context(), testkit.Patience)
	o.site.T.Cleanup(giveUp)
	r, err := http.NewRequestWithContext(ctx, method, o.site.URL+"/mcp", strings.NewReader(body))
	if err != nil {
		o.site.T.Fatal(err)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	stream, err := Client.Do(r)
	if err != nil {
		o.site.T.Fatal(err)
	}
	o.site.T.Cleanup(func() { stream.Body.Close() })
	if stream.StatusCode != http.StatusOK || !strings.HasPrefix(stream.Header.Get("Content-Type"), "text/event-stream") {
		text, _ := io.ReadAll(stream.Body)
		o.site.T.Fatalf("no stream: %d %s", stream.StatusCode, text)
	}
	return stream
}

// Rest reads a stream to its end.
func Rest(t *testing.T, stream *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(stream.Body)
	if err != nil {
		t.Errorf("the stream broke off after %q: %v", text, err)
	}
	return string(text)
}

// Message reads the data of the next event of a stream that has some.
func Message(t *testing.T, lines *bufio.Reader) string {
	t.Helper()
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ended: %v", err)
		}
		if data, found := strings.CutPrefix(line, "data: "); found && strings.TrimSpace(data) != "" {
			return strings.TrimSpace(data)
		}
	}
}

// Post sends one message to the endpoint.
func (s *Site) Post(path, message string, header map[string]string) Response {
	s.T.Helper()
	r, err := http.NewRequest(http.MethodPost, s.URL+path, strings.NewReader(message))
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	return s.Do(r)
}

// Begin begins a session and returns its id.
func (s *Site) Begin(path string) string {
	s.T.Helper()
	a := s.Post(path, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`, nil)
	id := a.Header.Get("Mcp-Session-Id")
	if id == "" {
		s.T.Fatalf("no session: %d %s", a.Status, a.Body)
	}
	return id
}

// ToolList returns the body of the response to tools/list.
func (s *Site) ToolList() string {
	return s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil).Body
}

// Sessions are the sessions of MCP endpoints of a site.
type Sessions struct{ site *Site }

// SessionsOf returns the sessions of a site.
func SessionsOf(s *Site) Sessions { return Sessions{s} }

// BeginIn begins a session of the revision and returns its headers.
func (o Sessions) BeginIn(revision, capabilities string) []string {
	o.site.T.Helper()
	a := o.site.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+revision+`","capabilities":`+capabilities+
		`,"clientInfo":{"name":"test","version":"1"}}}`, nil)
	id := a.Header.Get("Mcp-Session-Id")
	if id == "" {
		o.site.T.Fatalf("no session: %d %s", a.Status, a.Body)
	}
	return []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", revision}
}

// Ping returns the status of a request of a session.
func (o Sessions) Ping(path, session string) int {
	o.site.T.Helper()
	return o.site.Post(path, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, map[string]string{"Mcp-Session-Id": session}).Status
}
