package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// TestMessages sends what no client should send. Each gets an error of the
// protocol, and the gateway goes on.
func TestMessages(t *testing.T) {
	g, _, _ := startFaults(t)
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`
	for _, c := range []struct {
		name, body string
		statuses   []int // any of them
		code       int
		want       string // in the message
	}{
		{"empty", ``, []int{400}, -32700, ""},
		{"garbage", `hello`, []int{400}, -32700, ""},
		{"truncated", call + `{"name":"fi`, []int{400}, -32700, ""},
		{"trailing", `{"jsonrpc":"2.0","id":1,"method":"ping"}}`, []int{400}, -32700, ""},
		{"invalid UTF-8", call + "{\"name\":\"\xff\"}}", []int{400}, -32700, ""},
		{"deep nesting", call + `{"name":"fine","arguments":{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}}}`, []int{400}, -32600, "64"},
		{"deep and unclosed", strings.Repeat(`[`, 1_000_000), []int{400}, -32700, ""},
		{"duplicate name", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, []int{400}, -32700, "method"},
		{"not an object", `"ping"`, []int{400}, -32600, ""},
		{"wrong version", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, []int{400}, -32600, "2.0"},
		{"method is a number", `{"jsonrpc":"2.0","id":1,"method":5}`, []int{400}, -32600, "method"},
		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"tools/cal"}`, []int{200, 404}, -32601, "tools/cal"},
		{"params are an array", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`, []int{200, 400}, -32602, "params"},
		{"no tool name", call + `{}}`, []int{200}, -32602, "name"},
		{"unknown tool", call + `{"name":"fin","arguments":{}}}`, []int{200}, -32602, "fine"},
		{"arguments are a string", call + `{"name":"fine","arguments":"x"}}`, []int{200}, -32602, "arguments"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, rpc := g.postMCP(t, c.body)
			if rpc.Error == nil {
				t.Fatalf("%d, not a JSON-RPC error: %.300s", a.status, a.body)
			}
			if rpc.Error.Code != c.code || !testkit.ContainsAll(rpc.Error.Message, c.want) {
				t.Errorf("error %d %q, want %d with %q in it", rpc.Error.Code, rpc.Error.Message, c.code, c.want)
			}
			if !slices.Contains(c.statuses, a.status) {
				t.Errorf("status %d, want one of %v", a.status, c.statuses)
			}
		})
	}
	checkResult(t, g.callMCP(t, "fine", `{}`), false, []string{"fine"})
}

// TestMessagesOTC does the same to the OTC endpoint.
func TestMessagesOTC(t *testing.T) {
	g, _, _ := startFaults(t)
	for _, c := range []struct{ name, body string }{
		{"empty", ``},
		{"garbage", `hello`},
		{"truncated", `{"request":{"call_id":"1"`},
		{"invalid UTF-8", "{\"request\":{\"call_id\":\"\xff\"}}"},
		{"deep nesting", `{"request":{"input":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}}`},
		{"not an object", `[]`},
		{"no request", `{}`},
		{"no tool id", `{"request":{"call_id":"1"}}`},
		{"unknown tool", `{"request":{"call_id":"1","tool_id":"Faults.fin@1.0.0"}}`},
		{"input is a string", `{"request":{"call_id":"1","tool_id":"Faults.fine@1.0.0","input":"x"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := g.send(t, http.MethodPost, "/otc/call", "application/json", strings.NewReader(c.body), nil)
			if a.status == http.StatusOK {
				var r struct {
					Success bool `json:"success"`
				}
				if err := json.Unmarshal(a.body, &r); err != nil || r.Success {
					t.Errorf("200 %.300s, want an error", a.body)
				}
				return
			}
			if a.status < 400 || a.status > 499 || !json.Valid(a.body) {
				t.Errorf("%d %.300s, want a 4xx that says in JSON what is wrong", a.status, a.body)
			}
		})
	}
	checkResult(t, g.callOTC(t, "fine", `{}`), false, []string{"fine"})
}

// TestLargeBody sends 10 MB to each endpoint, announced and chunked: both are
// refused with 413, and most of it is not read.
func TestLargeBody(t *testing.T) {
	g, _, _ := startFaults(t)
	const size = 10 << 20
	for _, path := range []string{"/mcp", "/otc/call"} {
		for framing, start := range map[string]string{
			"announced": fmt.Sprintf("Content-Length: %d\r\n\r\n{\"jsonrpc\":\"", size),
			"chunked":   fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n{\"jsonrpc\":\"", size),
		} {
			t.Run(path+"/"+framing, func(t *testing.T) {
				address := strings.TrimPrefix(g.url, "http://")
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(waitTimeout))
				fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
					"Accept: application/json, text/event-stream\r\n%s", path, address, start)
				// The gateway hangs up in the middle of this.
				go io.CopyN(conn, zeros{}, size)
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				if response.StatusCode != http.StatusRequestEntityTooLarge {
					t.Errorf("%s, want 413", response.Status)
				}
			})
		}
	}
	checkResult(t, g.callMCP(t, "fine", `{}`), false, []string{"fine"})
}

// TestMethods asks the endpoints in ways that they do not know.
func TestMethods(t *testing.T) {
	g, _, _ := startFaults(t)
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{http.MethodPut, "/mcp", http.StatusMethodNotAllowed},
		{http.MethodPatch, "/mcp", http.StatusMethodNotAllowed},
		{http.MethodDelete, "/otc/tools", http.StatusMethodNotAllowed},
		{http.MethodGet, "/otc/call", http.StatusMethodNotAllowed},
		{http.MethodGet, "/otc/nothing", http.StatusNotFound},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			if a := g.send(t, c.method, c.path, "", nil, nil); a.status != c.status {
				t.Errorf("%d, want %d: %.300s", a.status, c.status, a.body)
			}
		})
	}
}
