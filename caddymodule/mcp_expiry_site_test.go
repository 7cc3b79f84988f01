package caddymodule_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// listenTo opens a subscriptions/listen for changes of the resource of listTrips.
func (s *site) listenTo(filter string, header ...string) *http.Response {
	s.t.Helper()
	body := `{"jsonrpc":"2.0","id":"L","method":"subscriptions/listen","params":{"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"notifications":` + filter + `}}`
	return s.openStream(http.MethodPost, body, append(header,
		"Content-Type", "application/json", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")...)
}

// openStream opens a stream of the endpoint /mcp that ends with the test. Headers
// are names and values.
func (s *site) openStream(method, body string, header ...string) *http.Response {
	s.t.Helper()
	ctx, giveUp := context.WithTimeout(s.t.Context(), time.Minute)
	s.t.Cleanup(giveUp)
	r, err := http.NewRequestWithContext(ctx, method, s.url+"/mcp", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	stream, err := send(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { stream.Body.Close() })
	if stream.StatusCode != http.StatusOK || !strings.HasPrefix(stream.Header.Get("Content-Type"), "text/event-stream") {
		text, _ := io.ReadAll(stream.Body)
		s.t.Fatalf("no stream: %d %s", stream.StatusCode, text)
	}
	return stream
}

// TestMCPStream_ends_with_its_token wants streams, and what they poll, to end when
// their access token expires, and those of an API key to go on.
func TestMCPStream_ends_with_its_token(t *testing.T) {
	i := newIssuer(t)
	var mu sync.Mutex
	polls := make(map[string]int) // by user
	api := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		polls[r.Header.Get("X-User")]++
		fmt.Fprint(w, "[]")
	})
	count := func(user string) int {
		mu.Lock()
		defer mu.Unlock()
		return polls[user]
	}
	s := run(t, "", `
		agent_auth {
			issuer `+i.URL+`
			leeway off
			api_key {
				key robot k1
			}
		}
		mcp TRIPS {
			name trips
			resources get operation listTrips
			watch_interval 20ms
		}
		request_header X-User {http.auth.user.id}
		reverse_proxy `+api)
	token := "Bearer " + i.token(t, s.url+"/", "exp", time.Now().Add(3*time.Second).Unix())
	ada := i.URL + "#ada"

	list := s.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`, map[string]string{"Authorization": token}).body
	_, uri, _ := strings.Cut(list, `"uri":"`)
	uri, _, found := strings.Cut(uri, `"`)
	if !found {
		t.Fatalf("no resource: %s", list)
	}
	filter := `{"toolsListChanged":true,"resourceSubscriptions":["` + uri + `"]}`
	s.listenTo(filter, "X-API-Key", "k1")
	begun := s.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`,
		map[string]string{"Authorization": token})
	streams := []*http.Response{
		s.listenTo(filter, "Authorization", token),
		s.openStream(http.MethodGet, "", "Authorization", token, "Mcp-Session-Id", begun.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-06-18"),
	}
	eventually(t, "polls for both users", func() bool { return count(ada) > 1 && count("robot") > 1 })
	for _, stream := range streams {
		if rest, err := io.ReadAll(bufio.NewReader(stream.Body)); err != nil {
			t.Errorf("the stream broke off after %q: %v", rest, err)
		}
	}
	last, others := count(ada), count("robot")
	eventually(t, "more polls of the API key", func() bool { return count("robot") > others+3 })
	if now := count(ada); now != last {
		t.Errorf("%d polls for a user whose token has expired", now-last)
	}
}

// loginDocument declares OAuth, and that listTrips needs none.
const loginDocument = `openapi: 3.1.0
info: {title: Trips, version: "1"}
components:
  securitySchemes:
    login: {type: oauth2, flows: {clientCredentials: {tokenUrl: "https://login.example.com/token", scopes: {write: ""}}}}
paths:
  /trips:
    get:
      operationId: listTrips
      responses: {"200": {description: ok}}
`

// TestMCPSecuritySchemes_behind_agent_auth wants no tool to be called free of
// authentication where every request needs a token, and the token's scopes to be
// named.
func TestMCPSecuritySchemes_behind_agent_auth(t *testing.T) {
	i := newIssuer(t)
	for rule, c := range map[string]struct{ options, mcp, want string }{
		"required":        {"require_scope trips:read", "", `"securitySchemes":[{"type":"oauth2","scopes":["trips:read"]}]`},
		"tool_scopes off": {"require_scope trips:read", "tool_scopes off", `"securitySchemes":[{"type":"oauth2","scopes":["trips:read"]}]`},
		"optional":        {"optional", "", `"securitySchemes":[{"type":"noauth"}]`},
	} {
		t.Run(rule, func(t *testing.T) {
			s := newSite(t)
			s.write("login.yaml", loginDocument)
			s.start("", "agent_auth {\nissuer "+i.URL+"\n"+c.options+"\n}\nmcp /mcp DIR/login.yaml {\n"+c.mcp+"\n}\nrespond ok")
			list := s.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
				map[string]string{"MCP-Protocol-Version": "2025-11-25", "Authorization": "Bearer " + i.token(t, s.url+"/")}).body
			if !strings.Contains(list, c.want) {
				t.Errorf("listed %s, want %s", list, c.want)
			}
		})
	}
}
