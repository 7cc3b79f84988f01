package caddymodule_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/internal/freeport"
	"github.com/fairwayhq/fairway/internal/modelserver"
)

// TestStart_servers_first starts the servers before the agents app, as Caddy does at random. Requests that need
// what the app starts wait for it.
func TestStart_servers_first(t *testing.T) {
	s := newHostedSite(t, agentDocument("desk", tripAgent), play(modelserver.Step{Text: "On time."}, modelserver.Step{Text: "On time."}))
	block := s.exposedBlock("agents_console\nmcp /mcp TRIPS {\nexpose_agents\n}", acceptOptions)
	s.start(acceptStore, block)
	if a := s.put("ann", "mine", agentDocument("mine", "  get-trip: {}\n")); a.status != http.StatusCreated {
		t.Fatalf("PUT: %d %s", a.status, a.body)
	}
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the port is free", func() bool { return freeport.Listeners(s.port) == 0 })

	config := new(caddy.Config)
	if err := json.Unmarshal(s.config(acceptStore, block), config); err != nil {
		t.Fatal(err)
	}
	ctx, err := caddy.ProvisionContext(config)
	if err != nil {
		t.Fatal(err)
	}
	app, servers := appOf[*agents.App](t, ctx, "agents"), appOf[*caddyhttp.App](t, ctx, "http")
	t.Cleanup(func() {
		if err := errors.Join(servers.Stop(), app.Stop(), app.Cleanup()); err != nil {
			t.Error(err)
		}
	})
	if err := servers.Start(); err != nil {
		t.Fatal(err)
	}
	for name, request := range s.requestsOfTheStart() {
		soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if response, err := staying.Do(request.WithContext(soon)); err == nil {
			response.Body.Close()
			t.Errorf("%s: response %d before the start of the app", name, response.StatusCode)
		}
	}
	if err := app.Start(); err != nil {
		t.Fatal(err)
	}
	for name, request := range s.requestsOfTheStart() {
		response, err := staying.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		begun := response.StatusCode == http.StatusSeeOther
		shown := response.StatusCode == http.StatusOK && strings.Contains(string(body), "mine")
		if err != nil || !begun && !shown {
			t.Errorf("%s: after the start, response %d %s, error %v", name, response.StatusCode, body, err)
		}
	}
}

// requestsOfTheStart returns requests whose responses need the agents app.
func (s *hostedSite) requestsOfTheStart() map[string]*http.Request {
	s.t.Helper()
	requests := make(map[string]*http.Request)
	for name, r := range map[string]struct{ method, path, body string }{
		"document of an accepted agent": {"GET", "/agents/mine", ""},
		"list of agents":                {"GET", "/agents", ""},
		"run of an accepted agent":      {"POST", "/agents/mine", `{"input":"Go"}`},
		"run of an agent of a file":     {"POST", "/agents/desk", `{"input":"Go"}`},
		"agents as tools":               {"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`},
		"console":                       {"GET", "/console/api/agents", ""},
	} {
		request, err := http.NewRequest(r.method, s.url+r.path, strings.NewReader(r.body))
		if err != nil {
			s.t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		request.Header.Set("X-Test-User", "ann")
		requests[name] = request
	}
	return requests
}

// getBody returns the body of a response.
func getBody(url string) (string, error) {
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// appOf returns an app of a configuration.
func appOf[T any](t *testing.T, ctx caddy.Context, name string) T {
	t.Helper()
	app, err := ctx.App(name)
	if err != nil {
		t.Fatal(err)
	}
	return app.(T)
}

func init() {
	caddy.RegisterModule(new(gate))
	httpcaddyfile.RegisterHandlerDirective("test_gate", func(httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		return new(gate), nil
	})
}

// gate is a handler whose Provision waits for the test. It passes all requests on.
type gate struct{}

// gateEntered receives a value when a gate is provisioned, and gateResult what comes of that.
var gateEntered, gateResult = make(chan struct{}), make(chan error)

func (gate) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_gate", New: func() caddy.Module { return new(gate) }}
}

func (gate) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

func (gate) Provision(caddy.Context) error {
	gateEntered <- struct{}{}
	return <-gateResult
}

func (gate) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(w, r)
}

// TestAdmin_while_a_configuration_is_loaded checks that the admin endpoint shows the running configuration
// while the next one is provisioned, and after that has failed.
func TestAdmin_while_a_configuration_is_loaded(t *testing.T) {
	s := newSite(t)
	admin := fmt.Sprintf("127.0.0.1:%d", freeport.Find(t))
	config := func(agent, more string) []byte {
		s.write(agent+".yaml", agentDocument(agent, "  get-trip: {}\n"))
		caddyfile := strings.NewReplacer("DIR", s.dir, "PORT", fmt.Sprint(s.port), "ADMIN", admin, "AGENT", agent, "MORE", more).Replace(`{
	admin ADMIN
	persist_config off
	auto_https off
	storage file_system DIR/storage
}
http://127.0.0.1:PORT {
	route {
		oagent DIR/AGENT.yaml {
			toolset DIR/trips.yaml
		}
		MORE
	}
}
`)
		config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
		if err != nil {
			t.Fatal(err)
		}
		return config
	}
	shows := func(when, want string) {
		t.Helper()
		for path, text := range map[string]string{"/agents/agents": `"name":"` + want + `"`, "/agents/toolsets": `"name":"getTrip"`} {
			body, err := getBody("http://" + admin + path)
			for began := time.Now(); err != nil && time.Since(began) < time.Minute; { // Caddy replaces the server of the endpoint
				body, err = getBody("http://" + admin + path)
			}
			if err != nil || strings.Count(body, text) != 1 {
				t.Errorf("%s: %s is %s, error %v, want %s once", when, path, body, err, text)
			}
		}
	}
	if err := caddy.Load(config("first", "respond OK"), true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	shows("at first", "first")
	loaded := make(chan error)
	for _, result := range []error{errors.New("no"), nil} {
		next := config("second", "test_gate")
		go func() { loaded <- caddy.Load(next, true) }()
		<-gateEntered
		shows("while the next one is provisioned", "first")
		gateResult <- result
		if err := <-loaded; (err == nil) != (result == nil) {
			t.Fatal(err)
		}
		if result != nil {
			shows("after that has failed", "first")
		}
	}
	shows("at last", "second")
}
