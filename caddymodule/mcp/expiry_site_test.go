package mcp_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestMCPStream_ends_with_its_token wants streams, and what they poll, to end when
// their access token expires, and those of an API key to go on.
func TestMCPStream_ends_with_its_token(t *testing.T) {
	i := sitetest.NewIssuer(t)
	var mu sync.Mutex
	polls := make(map[string]int) // by user
	api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
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
	s := sitetest.Run(t, "", `
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
	ada := i.URL + "#ada"
	key := map[string]string{"X-API-Key": "k1"}
	list := s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`, key).Body
	_, uri, _ := strings.Cut(list, `"uri":"`)
	uri, _, found := strings.Cut(uri, `"`)
	if !found {
		t.Fatalf("no resource: %s", list)
	}
	filter := `{"toolsListChanged":true,"resourceSubscriptions":["` + uri + `"]}`
	sitetest.StreamsOf(s).ListenTo(filter, "X-API-Key", "k1")
	open := func(token string) []*http.Response {
		begun := s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`,
			map[string]string{"Authorization": token})
		return []*http.Response{
			sitetest.StreamsOf(s).ListenTo(filter, "Authorization", token),
			sitetest.StreamsOf(s).Open(http.MethodGet, "", "Authorization", token, "Mcp-Session-Id", begun.Header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-06-18"),
		}
	}
	polled := func(users ...string) {
		sitetest.Eventually(t, "polls for all users", func() bool {
			return !slices.ContainsFunc(users, func(user string) bool { return count(user) < 2 })
		})
	}
	began := time.Now()
	open("Bearer " + i.Token(t, s.URL+"/", "sub", "bob"))
	polled(i.URL+"#bob", "robot")
	life := 3*time.Second + 10*time.Since(began) // enough on a slow machine too
	streams := open("Bearer " + i.Token(t, s.URL+"/", "exp", time.Now().Add(life).Unix()))
	polled(ada)
	for _, stream := range streams {
		if rest, err := io.ReadAll(bufio.NewReader(stream.Body)); err != nil {
			t.Errorf("the stream broke off after %q: %v", rest, err)
		}
	}
	morePolls := func() {
		others := count("robot")
		sitetest.Eventually(t, "more polls of the API key", func() bool { return count("robot") > others+3 })
	}
	morePolls() // a poll may have been under way when the streams ended
	last := count(ada)
	morePolls()
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
	i := sitetest.NewIssuer(t)
	for rule, c := range map[string]struct{ options, mcp, want string }{
		"required":        {"require_scope trips:read", "", `"securitySchemes":[{"type":"oauth2","scopes":["trips:read"]}]`},
		"tool_scopes off": {"require_scope trips:read", "tool_scopes off", `"securitySchemes":[{"type":"oauth2","scopes":["trips:read"]}]`},
		"optional":        {"optional", "", `"securitySchemes":[{"type":"noauth"}]`},
	} {
		t.Run(rule, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Write("login.yaml", loginDocument)
			s.Start("", "agent_auth {\nissuer "+i.URL+"\n"+c.options+"\n}\nmcp /mcp DIR/login.yaml {\n"+c.mcp+"\n}\nrespond ok")
			list := s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
				map[string]string{"MCP-Protocol-Version": "2025-11-25", "Authorization": "Bearer " + i.Token(t, s.URL+"/")}).Body
			if !strings.Contains(list, c.want) {
				t.Errorf("listed %s, want %s", list, c.want)
			}
		})
	}
}
