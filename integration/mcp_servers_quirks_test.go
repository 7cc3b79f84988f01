package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A quirk is what a stand-in for an MCP server does otherwise than the specification says, or than most servers do.
type quirk struct {
	// respond responds to a message, or returns false to leave it to the plain server.
	respond func(w http.ResponseWriter, m *quirkMessage) bool

	// What a client must get from the call of the tool "echo" behind the gateway, and what the log of the gateway has.
	result, log string
}

// A quirkMessage is a message of the gateway to a stand-in.
type quirkMessage struct {
	Request *http.Request `json:"-"`
	ID      json.RawMessage
	Method  string
	Params  json.RawMessage
}

func (m *quirkMessage) result(w http.ResponseWriter, result string) bool {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	return true
}

// quirkyServer is a server of 2025-11-25 without sessions and with one quirk.
func quirkyServer(t *testing.T, q quirk) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := &quirkMessage{Request: r}
		body, _ := io.ReadAll(r.Body)
		_ = json.NewDecoder(bytes.NewReader(body)).Decode(m) // a GET has no message
		switch {
		case q.respond(w, m):
		case m.Method == "initialize":
			m.result(w, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"quirk","version":"1"}}`)
		case m.Method == "tools/list":
			m.result(w, `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`)
		case m.Method == "tools/call":
			m.result(w, `{"content":[{"type":"text","text":"called"}]}`)
		case m.ID == nil && r.Method == http.MethodPost:
			w.WriteHeader(http.StatusAccepted)
		case r.Method == http.MethodPost:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}`, m.ID)
		default:
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/mcp"
}

// on returns a response to one method.
func on(method string, respond func(w http.ResponseWriter, m *quirkMessage) bool) func(http.ResponseWriter, *quirkMessage) bool {
	return func(w http.ResponseWriter, m *quirkMessage) bool { return m.Method == method && respond(w, m) }
}

func withResult(method, result string) func(http.ResponseWriter, *quirkMessage) bool {
	return on(method, func(w http.ResponseWriter, m *quirkMessage) bool { return m.result(w, result) })
}

func withStatus(method string, status int, header ...string) func(http.ResponseWriter, *quirkMessage) bool {
	return on(method, func(w http.ResponseWriter, _ *quirkMessage) bool {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		return true
	})
}

func tool(schema string) string {
	return `{"tools":[{"name":"echo","inputSchema":` + schema + `}]}`
}

// mcpServerQuirks are the quirks of MCP servers that a toolset can be made of, with what must come.
var mcpServerQuirks = map[string]quirk{
	"discover-401":    {withStatus("server/discover", http.StatusUnauthorized), "called", ""},
	"discover-403":    {withStatus("server/discover", http.StatusForbidden), "called", ""},
	"discover-503":    {withStatus("server/discover", http.StatusServiceUnavailable), "called", ""},
	"discover-closed": {on("server/discover", func(http.ResponseWriter, *quirkMessage) bool { panic(http.ErrAbortHandler) }), "called", ""},
	"discover-silent": {on("server/discover", func(_ http.ResponseWriter, m *quirkMessage) bool { <-m.Request.Context().Done(); return true }), "called", ""},
	"discover-open": {on("server/discover", func(w http.ResponseWriter, m *quirkMessage) bool {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-m.Request.Context().Done()
		return true
	}), "called", ""},
	"initialized-400": {withStatus("notifications/initialized", http.StatusBadRequest), "called", ""},
	"redirect": {func(w http.ResponseWriter, m *quirkMessage) bool {
		if m.Request.URL.Path == "/mcp" {
			http.Redirect(w, m.Request, "/mcp/", http.StatusTemporaryRedirect)
			return true
		}
		return false
	}, "called", ""},
	"same-cursor":     {withResult("tools/list", `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}],"nextCursor":"x"}`), "called", "nextCursor"},
	"number-cursor":   {withResult("tools/list", `{"tools":[{"name":"echo","inputSchema":{"type":"object"}}],"nextCursor":7}`), "called", "nextCursor"},
	"equal-names":     {withResult("tools/list", `{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"echo","inputSchema":{"type":"object"}},{}]}`), "called", "has no name"},
	"lookahead":       {withResult("tools/list", tool(`{"type":"object","properties":{"a":{"type":"string","pattern":"^(?!x)"}}}`)), "called", "/properties/a/pattern"},
	"outside-ref":     {withResult("tools/list", tool(`{"type":"object","properties":{"a":{"$ref":"https://example.com/a.json"}}}`)), "called", "/properties/a/$ref"},
	"null-properties": {withResult("tools/list", tool(`{"type":"object","properties":null}`)), "called", "/properties"},
	"empty-result":    {withResult("tools/call", `{}`), `"content":[]`, ""},
	"null-result":     {withResult("tools/call", `{"content":null,"structuredContent":null,"isError":null,"_meta":null}`), `"content":[]`, ""},
	"unknown-block":   {withResult("tools/call", `{"content":[{"type":"video","data":"AAAA"}]}`), "AAAA", ""},
	"odd-uri":         {withResult("tools/call", `{"content":[{"type":"resource_link","uri":"mem://a b","name":"n"}]}`), "mem://a b", ""},
	"busy":            {withStatus("tools/call", http.StatusTooManyRequests, "Retry-After", "7"), `"retryable":true`, ""},
	"meta": {on("tools/call", func(w http.ResponseWriter, m *quirkMessage) bool {
		text, _ := json.Marshal(string(m.Params))
		return m.result(w, `{"content":[{"type":"text","text":`+string(text)+`}]}`)
	}), "com.example/tenant", ""},
}

// TestMCPServers_with_quirks calls a tool of each server in the table behind one gateway.
func TestMCPServers_with_quirks(t *testing.T) {
	t.Parallel() // it mostly waits
	dir, site := t.TempDir(), freeAddress(t)
	var toolsets, endpoints strings.Builder
	for name, q := range mcpServerQuirks {
		fmt.Fprintf(&toolsets, "\t\ttoolset %s {\n\t\t\tmcp_server %s\n\t\t}\n", name, quirkyServer(t, q))
		fmt.Fprintf(&endpoints, "\tmcp /%s %s\n", name, name)
	}
	g := startGateway(t, dir, site, fmt.Sprintf("{\n\tadmin off\n\tdefault_bind 127.0.0.1\n\tagents {\n%s\t}\n}\nhttp://%s {\n%s\tmcp_servers\n}\n", &toolsets, site, &endpoints))
	for name, q := range mcpServerQuirks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g.waitForTools(t, "/"+name, "echo")
			a := g.send(t, http.MethodPost, "/"+name, "application/json", strings.NewReader(
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":"b"},"_meta":{"com.example/tenant":"t"}}}`),
				map[string]string{"MCP-Protocol-Version": "2025-11-25", "Accept": "application/json"})
			if isError := strings.Contains(string(a.body), `"isError":true`); !strings.Contains(string(a.body), q.result) || isError != (name == "busy") {
				t.Errorf("got %s, want %s", a.body, q.result)
			}
			if log := g.log.String(); q.log != "" && !strings.Contains(log, q.log) {
				t.Errorf("the log lacks %s", q.log)
			}
		})
	}
}
