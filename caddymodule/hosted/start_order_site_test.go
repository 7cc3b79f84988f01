package hosted_test

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

	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestStart_servers_first starts the servers before the agents app, as Caddy does at random. Requests that need
// what the app starts wait for it.
func TestStart_servers_first(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent), sitetest.Play(modelserver.Step{Text: "On time."}, modelserver.Step{Text: "On time."}))
	block := exposedBlock(s, "agents_console\nmcp /mcp TRIPS {\nexpose_agents\n}", acceptOptions)
	s.Start(acceptStore, block)
	if a := put(s, "ann", "mine", sitetest.AgentDocument("mine", "  get-trip: {}\n")); a.Status != http.StatusCreated {
		t.Fatalf("PUT: %d %s", a.Status, a.Body)
	}
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	sitetest.Eventually(t, "the port is free", func() bool { return testkit.Listeners(s.Port) == 0 })

	config := new(caddy.Config)
	if err := json.Unmarshal(s.Config(acceptStore, block), config); err != nil {
		t.Fatal(err)
	}
	ctx, err := caddy.ProvisionContext(config)
	if err != nil {
		t.Fatal(err)
	}
	agents, servers := appOf[*site.App](t, ctx, "agents"), appOf[*caddyhttp.App](t, ctx, "http")
	t.Cleanup(func() {
		err := errors.Join(servers.Stop(), agents.Stop())
		for _, server := range servers.Servers {
			err = errors.Join(err, cleanUp(server.Routes))
		}
		if err := errors.Join(err, agents.Cleanup()); err != nil {
			t.Error(err)
		}
	})
	if err := servers.Start(); err != nil {
		t.Fatal(err)
	}
	for name, request := range requestsOfTheStart(s) {
		soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if response, err := sitetest.Staying.Do(request.WithContext(soon)); err == nil {
			response.Body.Close()
			t.Errorf("%s: response %d before the start of the app", name, response.StatusCode)
		}
	}
	if err := agents.Start(); err != nil {
		t.Fatal(err)
	}
	for name, request := range requestsOfTheStart(s) {
		response, err := sitetest.Staying.Do(request)
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

// cleanUp frees what the handlers of the routes hold, as Caddy does at the end of a configuration.
func cleanUp(routes caddyhttp.RouteList) (err error) {
	for _, route := range routes {
		for _, handler := range route.Handlers {
			switch handler := handler.(type) {
			case *caddyhttp.Subroute:
				err = errors.Join(err, cleanUp(handler.Routes))
			case caddy.CleanerUpper:
				err = errors.Join(err, handler.Cleanup())
			}
		}
	}
	return err
}

// requestsOfTheStart returns requests whose responses need the agents app.
func requestsOfTheStart(s *sitetest.HostedSite) map[string]*http.Request {
	s.T.Helper()
	requests := make(map[string]*http.Request)
	for name, r := range map[string]struct{ method, path, body string }{
		"document of an accepted agent": {"GET", "/agents/mine", ""},
		"list of agents":                {"GET", "/agents", ""},
		"run of an accepted agent":      {"POST", "/agents/mine", `{"input":"Go"}`},
		"run of an agent of a file":     {"POST", "/agents/desk", `{"input":"Go"}`},
		"agents as tools":               {"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`},
		"console":                       {"GET", "/console/api/agents", ""},
	} {
		request, err := http.NewRequest(r.method, s.URL+r.path, strings.NewReader(r.body))
		if err != nil {
			s.T.Fatal(err)
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
	response, err := sitetest.Client.Get(url)
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
	agents, err := ctx.App(name)
	if err != nil {
		t.Fatal(err)
	}
	return agents.(T)
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
	s := sitetest.NewSite(t)
	admin := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	config := func(agent, more string) []byte {
		s.Write(agent+".yaml", sitetest.AgentDocument(agent, "  get-trip: {}\n"))
		text := strings.NewReplacer("DIR", s.Dir, "PORT", fmt.Sprint(s.Port), "ADMIN", admin, "AGENT", agent, "MORE", more).Replace(`{
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
		config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
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
