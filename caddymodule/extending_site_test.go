package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/fairwayhq/fairway/examples/extending/chatroom"
	_ "github.com/fairwayhq/fairway/examples/extending/echo"
	_ "github.com/fairwayhq/fairway/examples/extending/memory"
	_ "github.com/fairwayhq/fairway/examples/extending/officehours"
	_ "github.com/fairwayhq/fairway/examples/extending/tokenserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// startChanged starts a site after a change of its JSON configuration.
func startChanged(s *sitetest.Site, global, block string, change func(config map[string]any)) {
	s.T.Helper()
	var config map[string]any
	if err := json.Unmarshal(s.Config(global, block), &config); err != nil {
		s.T.Fatal(err)
	}
	change(config)
	changed, err := json.Marshal(config)
	if err != nil {
		s.T.Fatal(err)
	}
	sitetest.StartJSON(s.T, changed)
}

// member returns the object at a path of a JSON configuration.
func member(config map[string]any, path ...string) map[string]any {
	for _, name := range path {
		config = config[name].(map[string]any)
	}
	return config
}

// TestExtending_store keeps the reviews of a site in the store of a module of another package.
func TestExtending_store(t *testing.T) {
	for name, start := range map[string]func(s *sitetest.Site, block string){
		"Caddyfile": func(s *sitetest.Site, block string) {
			s.Start("agents {\n\ttoolset trips TRIPS\n\tstore memory 1000\n}", block)
		},
		"JSON": func(s *sitetest.Site, block string) {
			startChanged(s, "agents {\n\ttoolset trips TRIPS\n}", block, func(config map[string]any) {
				member(config, "apps", "agents")["store"] = map[string]any{"module": "memory", "max_records": 1000}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			t.Setenv("XDG_DATA_HOME", data)
			s := sitetest.NewSite(t)
			s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  create-trip: {user_identity: false, input_restriction: {require_review: boss}}
`))
			start(s, "route {\ntest_pace\ntest_user\noagent DIR/agent.yaml {\nreview_wait off\nreviews /reviews\n}\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo)+"\n}")
			id := sitetest.ReviewsOf(s).Ask("Bern")
			if a := s.Request("GET", "/reviews/"+id, "", "X-Test-User", "boss"); a.Status != http.StatusOK {
				t.Errorf("the review has status %d, want 200", a.Status)
			}
			if _, err := os.Stat(filepath.Join(data, "caddy", "fairway", "store.db")); !os.IsNotExist(err) {
				t.Errorf("the default store was opened: %v", err)
			}
		})
	}
}

// TestExtending_credential sends the token of a module of another package, and none if it has no token.
func TestExtending_credential(t *testing.T) {
	for name, start := range map[string]func(s *sitetest.Site, url, block string){
		"Caddyfile": func(s *sitetest.Site, url, block string) {
			s.Start("agents {\ntoolset trips TRIPS {\ncredential query key fixed\ncredential token_server "+url+"\n}\n}", block)
		},
		"JSON": func(s *sitetest.Site, url, block string) {
			startChanged(s, "agents {\ntoolset trips TRIPS\n}", block, func(config map[string]any) {
				member(config, "apps", "agents", "toolsets", "trips")["credentials"] = []map[string]string{
					{"in": "query", "name": "key", "value": "fixed"}, {"in": "token_server", "url": url},
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if asked.Add(1) == 1 {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				fmt.Fprintln(w, "t0ken")
			}))
			t.Cleanup(tokens.Close)
			s := sitetest.NewSite(t)
			start(s, tokens.URL, "mcp trips\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
			if n := asked.Load(); n != 0 {
				t.Errorf("%d tokens were fetched when the configuration was loaded", n)
			}
			s.Fail("listTrips", "", "GET", "/trips", "header", "Authorization", "operator")
			for range 2 {
				e := s.Echo(s.CallRequest("listTrips", ""))
				if got := e.Header.Get("Authorization"); got != "Bearer t0ken" || e.URI != "/trips?key=fixed" {
					t.Errorf("the API gets %q and %s", got, e.URI)
				}
			}
			if n := asked.Load(); n != 2 {
				t.Errorf("%d requests for tokens, want 2", n)
			}
		})
	}
}

// TestExtending_reviewer asks a module of another package about reviews.
func TestExtending_reviewer(t *testing.T) {
	for name, start := range map[string]func(s *sitetest.AskedSite){
		"Caddyfile": func(s *sitetest.AskedSite) {
			s.Start(sitetest.AskedGlobal, s.BlockWith("1m", "{\nask office_hours 0 24\ntimeout 5s\n}"))
		},
		"JSON": func(s *sitetest.AskedSite) {
			config := string(s.Config(sitetest.AskedGlobal, s.BlockWith("1m", "{\nask http://127.0.0.1:1/ask\ntimeout 5s\n}")))
			changed := strings.Replace(config, `{"module":"http","url":"http://127.0.0.1:1/ask"}`, `{"module":"office_hours","to":24}`, 1)
			if changed == config {
				s.T.Fatalf("the configuration has no module http: %s", config)
			}
			sitetest.StartJSON(s.T, []byte(changed))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sitetest.AskedSite{Site: sitetest.NewSite(t)}
			s.API = sitetest.Upstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"ok":true}`) })
			s.Write("agents.yaml", sitetest.AskedAgents)
			s.Write("checks.yaml", fmt.Sprintf(sitetest.Checks, "http://127.0.0.1:1"))
			start(s)
			if a := s.Create("Bern"); a.Status != http.StatusOK {
				t.Errorf("status %d, want 200: %s", a.Status, a.Body)
			}
			s.Logged("an agent has decided a review", `"status":"approved"`)
		})
	}
}

// TestExtending_model runs an agent with a model of another package.
func TestExtending_model(t *testing.T) {
	s := &sitetest.HostedSite{Site: sitetest.NewSite(t)}
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "\n  get-trip: {user_identity: false}\n"))
	s.Start("agents {\n\tstore memory\n}", `route {
test_user
oagent DIR/agent.yaml {
	toolset TRIPS
	serve /agents
	engagements /engagements
	model echo {
		prefix "You said: "
	}
}
respond ok
}`)
	if v := s.State("ann", s.Begin("ann", "desk", "Hello")); v.Status != "complete" || v.Text != "You said: Hello" {
		t.Errorf("state %+v", v)
	}
}

// TestExtending_notifier sends notices to a room of a chat server, again after an error.
func TestExtending_notifier(t *testing.T) {
	var asked atomic.Int64
	lines := make(chan string, 10)
	room := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		lines <- string(line)
	}))
	t.Cleanup(room.Close)
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  create-trip: {user_identity: false, input_restriction: {require_review: boss}}
`))
	s.Start("agents {\n\ttoolset trips TRIPS\n\tstore memory\n}", "route {\ntest_pace\ntest_user\noagent DIR/agent.yaml {\nreview_wait off\nreviews /reviews\nnotify chat_room "+
		room.URL+"/rooms/7\n}\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo)+"\n}")
	sitetest.ReviewsOf(s).Ask("Bern")
	select {
	case line := <-lines:
		if !sitetest.ContainsAll(line, []string{"boss", "create-trip", "desk"}) {
			t.Errorf("the room has the line %q", line)
		}
	case <-time.After(time.Minute):
		t.Fatal("no notice arrived")
	}
}
