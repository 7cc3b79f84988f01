package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	manyServers    = 20
	toolsPerServer = 50
)

// A hangingServer is an MCP server that, while it hangs, responds to nothing.
type hangingServer struct {
	hangs   atomic.Bool
	waiting atomic.Int64 // requests
	handler http.Handler
	end     chan struct{} // closed at the end of the test
}

func (s *hangingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.hangs.Load() {
		s.waiting.Add(1)
		defer s.waiting.Add(-1)
		<-s.end
		return
	}
	s.handler.ServeHTTP(w, r)
}

// startMany runs servers with toolsPerServer tools each, and returns a toolset of each. Half of them speak 2026-07-28.
func startMany(t *testing.T) (toolsets, names string, last *hangingServer) {
	t.Helper()
	var b strings.Builder
	for i := range manyServers {
		implementation := mcp.NewServer(&mcp.Implementation{Name: fmt.Sprint("server", i), Version: "1.0.0"}, nil)
		for j := range toolsPerServer {
			name := fmt.Sprintf("read_item_%d_%d", i, j)
			mcp.AddTool(implementation, &mcp.Tool{Name: name, Description: "Reads one item of the list. It returns the name and the price."},
				func(_ context.Context, _ *mcp.CallToolRequest, in itemInput) (*mcp.CallToolResult, any, error) {
					return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name + " " + in.ID}}}, nil, nil
				})
		}
		server := &hangingServer{handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return implementation }, &mcp.StreamableHTTPOptions{Stateless: i%2 == 0}), end: make(chan struct{})}
		upstream := httptest.NewServer(server)
		t.Cleanup(upstream.Close)
		t.Cleanup(func() { close(server.end) })
		fmt.Fprintf(&b, "toolset many%d {\nmcp_server %s\nrefresh 1s\n}\n", i, upstream.URL)
		names += fmt.Sprint(" many", i)
		last = server
	}
	return b.String(), names, last
}

type itemInput struct {
	ID       string `json:"id" jsonschema:"the item"`
	Currency string `json:"currency,omitempty"`
	Limit    int    `json:"limit,omitempty"`
}

// manyOperations is an OpenAPI document with as many tools as all the servers.
func manyOperations(t *testing.T) string {
	t.Helper()
	paths := make(map[string]any)
	for i := range manyServers * toolsPerServer {
		parameter := func(name, kind string) any {
			return map[string]any{"name": name, "in": "query", "schema": map[string]any{"type": kind}}
		}
		paths[fmt.Sprint("/items/", i)] = map[string]any{"get": map[string]any{
			"operationId": fmt.Sprint("read_item_", i), "description": "Reads one item of the list. It returns the name and the price.",
			"parameters": []any{parameter("id", "string"), parameter("currency", "string"), parameter("limit", "integer")},
			"responses":  map[string]any{"200": map[string]any{"description": "The item."}},
		}}
	}
	document, err := json.Marshal(map[string]any{"openapi": "3.1.0", "info": map[string]any{"title": "Many", "version": "1"}, "paths": paths})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "many.json")
	writeFile(t, file, string(document))
	return file
}

// TestMCPServers_many lists the tools of 20 servers about as fast as those of one API with as many tools, and goes on
// doing so while one of the servers hangs.
func TestMCPServers_many(t *testing.T) {
	toolsets, names, last := startMany(t)
	site := freeAddress(t)
	g := startGateway(t, t.TempDir(), site, fmt.Sprintf(`{
	admin off
	default_bind 127.0.0.1
	agents {
		%s
		toolset rest %s
	}
}
http://%s {
	mcp /mcp %s {
		search off
		max_tokens off
	}
	mcp /rest rest {
		search off
		max_tokens off
	}
	mcp_servers
}
`, toolsets, manyOperations(t), site, names))
	var want []string
	for i := range manyServers {
		want = append(want, fmt.Sprintf("read_item_%d_%d", i, toolsPerServer-1))
	}
	g.waitForTools(t, "/mcp", want...)
	servers, rest := g.listTime(t, "/mcp"), g.listTime(t, "/rest")
	t.Logf("tools/list of %d tools: %v of %d MCP servers, %v of one API", manyServers*toolsPerServer, servers, manyServers, rest)
	if servers > 5*rest+20*time.Millisecond { // a busy machine is slower at both
		t.Errorf("listing the tools of the servers takes %v, those of one API %v", servers, rest)
	}

	// One server hangs: a call of it and the gateway's own listing wait, and nothing else does.
	last.hangs.Store(true)
	stuck, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		session := connect(stuck, t, &mcp.StreamableClientTransport{Endpoint: g.url + "/mcp"}, "2025-11-25", nil)
		_, _ = session.CallTool(stuck, &mcp.CallToolParams{Name: want[manyServers-1], Arguments: itemInput{ID: "stuck"}})
	}()
	defer func() {
		cancel()
		<-ended
	}()
	waitFor(t, waitTimeout, "the call and the listing to reach the server that hangs", func() bool { return last.waiting.Load() >= 2 })
	ctx := sessionContext(t)
	session := connect(ctx, t, &mcp.StreamableClientTransport{Endpoint: g.url + "/mcp"}, "2025-11-25", nil)
	list, err := session.ListTools(ctx, nil)
	if err != nil || len(list.Tools) < manyServers*toolsPerServer {
		t.Errorf("tools/list while one server hangs: %d tools, %v", len(list.Tools), err)
	}
	for i := range manyServers - 1 {
		checkTools(ctx, t, session, []toolCall{{want[i], map[string]any{"id": "it"}, false, want[i] + " it"}})
	}
	select {
	case <-ended:
		t.Error("the call of the server that hangs has ended before the others")
	default:
	}
	if last.waiting.Load() < 2 {
		t.Error("the server does not hang any more")
	}
}

// listTime returns the median time of tools/list. The list must be whole.
func (g *gateway) listTime(t *testing.T, path string) time.Duration {
	t.Helper()
	var times []time.Duration
	for range 15 {
		began := time.Now()
		a := g.send(t, http.MethodPost, path, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), map[string]string{"MCP-Protocol-Version": "2025-06-18"})
		times = append(times, time.Since(began))
		if n := strings.Count(string(a.body), `"inputSchema"`); a.status != http.StatusOK || n < manyServers*toolsPerServer {
			t.Fatalf("%s: %d with %d tools", path, a.status, n)
		}
	}
	slices.Sort(times)
	return times[len(times)/2]
}
