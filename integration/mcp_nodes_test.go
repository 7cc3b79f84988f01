package integration

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fairwayhq/fairway/store/storetest"
)

// TestTwoNodes has two gateways serve one session: whatever balances the load
// hands each request to the next of them. They know each other's sessions by a
// secret that both are given, or that both find in the storage or the store they share.
func TestTwoNodes(t *testing.T) {
	cases := []struct{ name, global, secret string }{
		{"secret", "", "secret the-same-on-both-nodes-0123456789"},
		{"storage", "storage file_system " + t.TempDir(), ""},
	}
	for name, start := range storetest.Shared() {
		cases = append(cases, struct{ name, global, secret string }{name, "agents {\n\t\tstore " + start(t).Option + "\n\t}", ""})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := startNodes(t, c.global, c.secret)
			for _, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
				t.Run(revision, func(t *testing.T) {
					ctx := sessionContext(t)
					session := connect(ctx, t, &mcp.StreamableClientTransport{Endpoint: b.url + "/mcp"}, revision, nil)
					if session.ID() == "" {
						t.Fatal("there is no session")
					}
					for range 4 {
						checkTransport(ctx, t, session)
					}
				})
			}
			for i := range b.sessions {
				if b.sessions[i].Load() == 0 {
					t.Errorf("node %d had no request of a session", i)
				}
			}
		})
	}
}

// A balancer hands each request to the next of two nodes.
type balancer struct {
	url      string
	turn     atomic.Int64
	sessions [2]atomic.Int64 // requests of sessions, by node
}

func startNodes(t *testing.T, global, secret string) *balancer {
	t.Helper()
	example := startExample(t)
	document, err := filepath.Abs("../testdata/demo.openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{}
	var nodes [2]*httputil.ReverseProxy
	for i := range nodes {
		address := freeAddress(t)
		g := startGateway(t, t.TempDir(), address, "{\n\tadmin off\n\t"+global+"\n}\n\nhttp://"+address+" {\n\tmcp /mcp "+document+
			" {\n\t\t"+secret+"\n\t}\n\treverse_proxy "+example.url+"\n}\n")
		target, err := url.Parse(g.url)
		if err != nil {
			t.Fatal(err)
		}
		nodes[i] = &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
			FlushInterval: -1,
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next := b.turn.Add(1) % int64(len(nodes))
		if r.Header.Get("Mcp-Session-Id") != "" {
			b.sessions[next].Add(1)
		}
		nodes[next].ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}
