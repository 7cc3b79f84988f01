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

	"github.com/caddyserver/caddy/v2"

	_ "github.com/fairwayhq/fairway/examples/extending/chatroom"
	_ "github.com/fairwayhq/fairway/examples/extending/echo"
	_ "github.com/fairwayhq/fairway/examples/extending/memory"
	_ "github.com/fairwayhq/fairway/examples/extending/officehours"
	_ "github.com/fairwayhq/fairway/examples/extending/tokenserver"
)

// startChanged starts a site after a change of its JSON configuration.
func (s *site) startChanged(global, block string, change func(config map[string]any)) {
	s.t.Helper()
	var config map[string]any
	if err := json.Unmarshal(s.config(global, block), &config); err != nil {
		s.t.Fatal(err)
	}
	change(config)
	changed, err := json.Marshal(config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.startJSON(changed)
}

// startJSON starts a site with a JSON configuration.
func (s *site) startJSON(config []byte) {
	s.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	if err := caddy.Load(config, true); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := caddy.Stop(); err != nil {
			s.t.Error(err)
		}
	})
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
	for name, start := range map[string]func(s *site, block string){
		"Caddyfile": func(s *site, block string) {
			s.start("agents {\n\ttoolset trips TRIPS\n\tstore memory 1000\n}", block)
		},
		"JSON": func(s *site, block string) {
			s.startChanged("agents {\n\ttoolset trips TRIPS\n}", block, func(config map[string]any) {
				member(config, "apps", "agents")["store"] = map[string]any{"module": "memory", "max_records": 1000}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			t.Setenv("XDG_DATA_HOME", data)
			s := newSite(t)
			s.write("agent.yaml", agentDocument("desk", `
  create-trip: {user_identity: false, input_restriction: {require_review: boss}}
`))
			start(s, "route {\ntest_pace\ntest_user\noagent DIR/agent.yaml {\nreview_wait off\nreviews /reviews\n}\nreverse_proxy "+upstream(t, echo)+"\n}")
			id := s.askReview("Bern")
			if a := s.request("GET", "/reviews/"+id, "", "X-Test-User", "boss"); a.status != http.StatusOK {
				t.Errorf("the review has status %d, want 200", a.status)
			}
			if _, err := os.Stat(filepath.Join(data, "caddy", "fairway", "store.db")); !os.IsNotExist(err) {
				t.Errorf("the default store was opened: %v", err)
			}
		})
	}
}

// TestExtending_credential sends the token of a module of another package, and none if it has no token.
func TestExtending_credential(t *testing.T) {
	for name, start := range map[string]func(s *site, url, block string){
		"Caddyfile": func(s *site, url, block string) {
			s.start("agents {\ntoolset trips TRIPS {\ncredential query key fixed\ncredential token_server "+url+"\n}\n}", block)
		},
		"JSON": func(s *site, url, block string) {
			s.startChanged("agents {\ntoolset trips TRIPS\n}", block, func(config map[string]any) {
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
			s := newSite(t)
			start(s, tokens.URL, "mcp trips\nreverse_proxy "+upstream(t, echo))
			if n := asked.Load(); n != 0 {
				t.Errorf("%d tokens were fetched when the configuration was loaded", n)
			}
			s.fail("listTrips", "", "GET", "/trips", "header", "Authorization", "operator")
			for range 2 {
				e := s.echo(s.callRequest("listTrips", ""))
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
	for name, start := range map[string]func(s *askedSite){
		"Caddyfile": func(s *askedSite) {
			s.start(askedGlobal, s.blockWith("1m", "{\nask office_hours 0 24\ntimeout 5s\n}"))
		},
		"JSON": func(s *askedSite) {
			config := string(s.config(askedGlobal, s.blockWith("1m", "{\nask http://127.0.0.1:1/ask\ntimeout 5s\n}")))
			changed := strings.Replace(config, `{"module":"http","url":"http://127.0.0.1:1/ask"}`, `{"module":"office_hours","to":24}`, 1)
			if changed == config {
				s.t.Fatalf("the configuration has no module http: %s", config)
			}
			s.startJSON([]byte(changed))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &askedSite{site: newSite(t)}
			s.api = upstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"ok":true}`) })
			s.write("agents.yaml", askedAgents)
			s.write("checks.yaml", fmt.Sprintf(checks, "http://127.0.0.1:1"))
			start(s)
			if a := s.create("Bern"); a.status != http.StatusOK {
				t.Errorf("status %d, want 200: %s", a.status, a.body)
			}
			s.logged("an agent has decided a review", `"status":"approved"`)
		})
	}
}

// TestExtending_model runs an agent with a model of another package.
func TestExtending_model(t *testing.T) {
	s := &hostedSite{site: newSite(t)}
	s.write("agent.yaml", agentDocument("desk", "\n  get-trip: {user_identity: false}\n"))
	s.start("agents {\n\tstore memory\n}", `route {
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
	if v := s.state("ann", s.begin("ann", "desk", "Hello")); v.Status != "complete" || v.Text != "You said: Hello" {
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
	s := newSite(t)
	s.write("agent.yaml", agentDocument("desk", `
  create-trip: {user_identity: false, input_restriction: {require_review: boss}}
`))
	s.start("agents {\n\ttoolset trips TRIPS\n\tstore memory\n}", "route {\ntest_pace\ntest_user\noagent DIR/agent.yaml {\nreview_wait off\nreviews /reviews\nnotify chat_room "+
		room.URL+"/rooms/7\n}\nreverse_proxy "+upstream(t, echo)+"\n}")
	s.askReview("Bern")
	select {
	case line := <-lines:
		if !containsAll(line, []string{"boss", "create-trip", "desk"}) {
			t.Errorf("the room has the line %q", line)
		}
	case <-time.After(time.Minute):
		t.Fatal("no notice arrived")
	}
}
