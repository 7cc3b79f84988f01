package integration

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/store/storetest"
)

// connectionsSite is the Caddyfile of a node whose users paste their own API keys.
func connectionsSite(address, store string) string {
	return fmt.Sprintf(`{
	admin off
	agents {
		store %s
		toolset orders orders.yaml {
			credential user {
				provider acme {
					api_key
					header X-Their-Key
				}
			}
		}
	}
}
http://%s {
	bind 127.0.0.1
	route {
		respond /otc/health ok
		agent_auth {
			api_key {
				key ann 0123456789abcdef-ann
			}
		}
		agent_connections {
			origin http://%[2]s
			secret one-secret-of-all-nodes
		}
		mcp /mcp orders {
			secret one-secret-of-all-nodes
		}
		respond `+"`{}`"+`
	}
}
`, store, address)
}

// TestConnections_on_another_node_complete_the_elicitation has the stream of an MCP session on one node, and the page on the other one.
func TestConnections_on_another_node_complete_the_elicitation(t *testing.T) {
	t.Parallel()
	storetest.OnShared(t, completeElsewhere)
}

func completeElsewhere(t *testing.T, server *storetest.SharedServer) {
	t.Parallel()
	var nodes [2]*brittleNode
	for i := range nodes {
		address := freeAddress(t)
		nodes[i] = startBrittle(t, t.TempDir(), address, connectionsSite(address, server.Option))
	}
	n := nodes[0]
	accept := []string{"Accept", "application/json, text/event-stream"}
	begun, body := n.as(t, "ann", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{"elicitation":{"url":{}}},"clientInfo":{"name":"test","version":"1"}}}`, accept...)
	session := []string{"Mcp-Session-Id", begun.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25"}
	if session[1] == "" {
		t.Fatalf("no session: %d %s", begun.StatusCode, body)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", "0123456789abcdef-ann")
	r.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(session); i += 2 {
		r.Header.Set(session[i], session[i+1])
	}
	stream, err := freshTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	messages := make(chan string, 16)
	go func() {
		for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "" {
				messages <- data
			}
		}
	}()

	_, body = n.as(t, "ann", "POST", "/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"order","arguments":{"name":"a"}}}`, append(accept, session...)...)
	id := regexp.MustCompile(`"elicitationId":"([^"]+)"`).FindStringSubmatch(body)
	link := regexp.MustCompile(`/connections/connect/([A-Za-z0-9_-]+)`).FindStringSubmatch(body)
	if id == nil || link == nil {
		t.Fatalf("no elicitation: %s", body)
	}
	form := url.Values{"link": {link[1]}, "key": {"the-key-of-ann"}}.Encode()
	done, page := nodes[1].as(t, "ann", "POST", "/connections/connect", form, "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
	if done.StatusCode != http.StatusSeeOther {
		t.Fatalf("connect on the other node: %d %s", done.StatusCode, page)
	}
	select {
	case got := <-messages:
		if !strings.Contains(got, "notifications/elicitation/complete") || !strings.Contains(got, id[1]) {
			t.Errorf("got %s, want that %s is complete", got, id[1])
		}
	case <-time.After(waitTimeout):
		t.Error("the session is not notified")
	}
}
