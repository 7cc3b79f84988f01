package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// agentDocument is the document of an agent with these capabilities, indented by
// two.
func agentDocument(name, capabilities string) string {
	return fmt.Sprintf(`kind: "openagentspec:v1/agent"
name: %s
description: Tests.
intent: You test.
owner: tests
capabilities:
%s`, name, strings.TrimLeft(capabilities, "\n"))
}

func init() {
	caddy.RegisterModule(new(testUser))
	httpcaddyfile.RegisterHandlerDirective("test_user", func(httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		return new(testUser), nil
	})
	httpcaddyfile.RegisterDirectiveOrder("test_user", httpcaddyfile.Before, "respond")
}

// testUser takes X-Test-User for who has been authenticated, with the address
// X-Test-Email.
type testUser struct{}

func (testUser) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_user", New: func() caddy.Module { return new(testUser) }}
}

func (testUser) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if user := r.Header.Get("X-Test-User"); user != "" {
		repl.Set("http.auth.user.id", user)
	}
	if email := r.Header.Get("X-Test-Email"); email != "" {
		repl.Set("http.auth.user.email", email)
	}
	return next.ServeHTTP(w, r)
}

func decodeEcho(t *testing.T, body string) (e echoed) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return e
}

// guarded runs a site with mcp and otc before oagent before an API. OPTIONS are
// those of oagent, and the agent is in agent.yaml.
func guarded(t *testing.T, agent, options string, handler http.HandlerFunc) *site {
	t.Helper()
	s := newSite(t)
	s.write("agent.yaml", agent)
	s.start("agents {\n\tstore bolt DIR/store.db\n}", guardedBlock(options, upstream(t, handler)))
	return s
}

func guardedBlock(options, api string) string {
	return "ocp\nmcp TRIPS\notc TRIPS\noagent DIR/agent.yaml {\n" + options + "\n}\nreverse_proxy " + api
}

// problem is the problem document of a refusal.
type problem struct {
	Type, Title, Detail, Kind, Agent, Engagement, Rule, Tool, Review string
	Status                                                           int
	RetryAfter                                                       int `json:"retry_after"`
	Made                                                             bool
}

func (s *site) problem(a answer) problem {
	s.t.Helper()
	var p problem
	if a.header.Get("Content-Type") != "application/problem+json" {
		s.t.Fatalf("no problem document: %d %s %.500s", a.status, a.header.Get("Content-Type"), a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		s.t.Fatal(err)
	}
	if p.Status != a.status || p.Title == "" || p.Detail == "" || p.Title == "Refused" || a.header.Get("Cache-Control") != "no-store" {
		s.t.Errorf("problem %+v", p)
	}
	return p
}

// request makes a plain request.
func (s *site) request(method, path, body string, header ...string) answer {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header[header[i]] = append(r.Header[header[i]], header[i+1])
	}
	return s.do(r)
}

// otc calls a tool over OTC and returns the answer's body.
func (s *site) otc(tool, input string) string {
	s.t.Helper()
	return s.otcCall(tool, input).body
}

func (s *site) otcCall(tool, input string) answer {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodPost, s.url+"/otc/call", strings.NewReader(fmt.Sprintf(
		`{"request":{"tool_id":"Trips.%s","input":%s}}`, tool, input)))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	return s.do(r)
}

func TestOAgent(t *testing.T) {
	var calls atomic.Int64
	s := guarded(t, agentDocument("desk", `
  list-trips: {user_identity: false}
  create-trip:
    user_identity: false
    input_restriction:
      assertion: recent.create-trip.inputs.to in ["Bern", "Basel"]
  get-trip:
    user_identity: false
    output_restriction:
      assertion: recent.get-trip.outputs.public == true
exposes:
  destination: recent.create-trip.inputs.to
  calls: history._total
lifespan:
  short_circuit: 20
`), "log_inputs to", func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		switch {
		case r.URL.Path == "/trips/secret":
			w.Header().Set("X-Secret", "yes")
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"public":false,"token":"hunter2"}`)
		case strings.HasPrefix(r.URL.Path, "/trips/"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"public":true}`)
		default:
			echo(w, r)
		}
	})
	for name, do := range map[string]func(s *site, to string) (refused bool, text string){
		"http": func(s *site, to string) (bool, string) {
			a := s.request("POST", "/trips", fmt.Sprintf(`{"to":%q}`, to))
			return a.status == 403, a.body
		},
		"mcp": func(s *site, to string) (bool, string) {
			r := s.call("createTrip", fmt.Sprintf(`{"to":%q}`, to))
			return r.IsError, r.text()
		},
		"otc": func(s *site, to string) (bool, string) {
			body := s.otc("createTrip", fmt.Sprintf(`{"to":%q}`, to))
			return strings.Contains(body, `"success":false`), body
		},
	} {
		t.Run("input restriction/"+name, func(t *testing.T) {
			s := s.with(t)
			before := calls.Load()
			refused, text := do(s, "Zug")
			if !refused || !containsAll(text, []string{"capabilities.create-trip.input_restriction.assertion", "change", "inputs"}) {
				t.Errorf("refused %t: %s", refused, text)
			}
			if calls.Load() != before {
				t.Error("the API was called")
			}
			if refused, text := do(s, "Bern"); refused || calls.Load() != before+1 {
				t.Errorf("%d calls: %s", calls.Load()-before, text)
			}
		})
	}
	t.Run("output restriction", func(t *testing.T) {
		s := s.with(t)
		a := s.get("/trips/secret")
		p := s.problem(a)
		if p.Kind != "output_restriction" || !p.Made || a.header.Get("X-Secret") != "" || strings.Contains(a.body, "hunter2") {
			t.Errorf("%+v", a)
		}
		if text := s.call("getTrip", `{"id":"secret"}`).text(); strings.Contains(text, "hunter2") || !strings.Contains(text, "withheld") {
			t.Error(text)
		}
		if body := s.otc("getTrip", `{"id":"secret"}`); strings.Contains(body, "hunter2") || !strings.Contains(body, "withheld") {
			t.Error(body)
		}
		if a := s.get("/trips/open"); a.status != 200 || a.body != `{"public":true}` {
			t.Errorf("%+v", a)
		}
		if text := s.succeed("getTrip", `{"id":"open"}`); !strings.Contains(text, "true") {
			t.Error(text)
		}
	})
	t.Run("no capability", func(t *testing.T) {
		s := s.with(t)
		if p := s.problem(s.request("DELETE", "/trips/1", "")); p.Kind != "not_allowed" || p.Agent != "desk" || p.Tool != "delete-trip" {
			t.Errorf("%+v", p)
		}
		s.fail("deleteTrip", `{"id":"1"}`, "delete-trip", "capability", "desk")
	})
	t.Run("exposes", func(t *testing.T) {
		s := s.with(t)
		a := s.get("/trips?limit=1")
		var exposed struct {
			Destination string
			Calls       int
		}
		if err := json.Unmarshal([]byte(a.header.Get("OAgent-Exposes")), &exposed); err != nil || exposed.Destination != "Bern" || exposed.Calls < 4 {
			t.Errorf("%v %q", err, a.header)
		}
		if a := s.do(s.callRequest("listTrips", "{}")); !strings.Contains(a.body, `"org.openagentspec/exposes":{"destination":"Bern"`) {
			t.Error(a.body)
		}
		if a := s.otcCall("listTrips", "{}"); !strings.HasPrefix(a.header.Get("OAgent-Exposes"), `{"destination":"Bern"`) || strings.Contains(a.body, "exposes") {
			t.Error(a)
		}
	})
	t.Run("log and metrics", func(t *testing.T) {
		s := s.with(t)
		s.logged(`"http.handlers.oagent"`, `"decision":"input_restriction"`, `"agent":"desk"`, `"protocol":"mcp"`, `"inputs":{"to":"\"Zug\""}`)
		if strings.Contains(s.log(), "hunter2") {
			t.Error("outputs are in the log")
		}
	})
}

// TestOAgentNoBypass requests a forbidden operation in every way there is.
func TestOAgentNoBypass(t *testing.T) {
	var reached atomic.Int64
	s := guarded(t, agentDocument("desk", "  list-trips: {user_identity: false}\n"), "", func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		echo(w, r)
	})
	if a := s.get("/trips"); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := s.request("HEAD", "/trips", ""); a.status != 403 {
		t.Errorf("HEAD is an operation of its own here: %d", a.status)
	}
	reached.Store(0)
	for _, test := range []struct {
		name, method, path string
		header             []string
	}{
		{"plain", "DELETE", "/trips/1", nil},
		{"get", "GET", "/trips/1", nil},
		{"head", "HEAD", "/trips/1", nil},
		{"upper case", "DELETE", "/TRIPS/1", nil},
		{"mixed case", "GET", "/Trips/1", nil},
		{"method in lower case", "delete", "/trips/1", nil},
		{"encoded letter", "DELETE", "/%74rips/1", nil},
		{"encoded twice", "DELETE", "/%2574rips/1", nil},
		{"encoded slash", "DELETE", "/trips%2F1", nil},
		{"trailing slash", "DELETE", "/trips/1/", nil},
		{"trailing slash of a list", "GET", "/trips/", nil},
		{"two slashes", "DELETE", "/trips//1", nil},
		{"leading slashes", "DELETE", "//trips/1", nil},
		{"dot segment", "DELETE", "/trips/./1", nil},
		{"dot dot segment", "DELETE", "/x/../trips/1", nil},
		{"encoded dots", "DELETE", "/x/%2e%2e/trips/1", nil},
		{"backslash", "DELETE", "/trips%5c1", nil},
		{"parameter of a segment", "DELETE", "/trips/1;x=y", nil},
		{"semicolon", "DELETE", "/trips;x/1", nil},
		{"extension", "GET", "/trips.json", nil},
		{"null byte", "GET", "/trips%00/1", nil},
		{"X-HTTP-Method-Override", "GET", "/trips", []string{"X-Http-Method-Override", "POST"}},
		{"X-HTTP-Method", "GET", "/trips", []string{"X-Http-Method", "POST"}},
		{"X-Method-Override", "GET", "/trips", []string{"X-Method-Override", "DELETE"}},
		{"_method", "GET", "/trips?_method=DELETE", nil},
		{"X-Original-URL", "GET", "/trips", []string{"X-Original-Url", "/trips/1"}},
		{"X-Rewrite-URL", "GET", "/trips", []string{"X-Rewrite-Url", "/trips/1"}},
		{"upgrade", "GET", "/trips", []string{"Connection", "Upgrade", "Upgrade", "websocket"}},
		{"a parameter twice", "GET", "/trips?limit=1&limit=2", nil},
		{"nothing of the API", "GET", "/admin", nil},
		{"preflight", "OPTIONS", "/trips", nil},
		{"trace", "TRACE", "/trips", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := s.with(t)
			if a := s.request(test.method, test.path, "", test.header...); a.status != 403 {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	s.fail("deleteTrip", `{"id":"1"}`, "capability")
	s.fail("getTrip", `{"id":"1"}`, "capability")
	if body := s.otc("deleteTrip", `{"id":"1"}`); !strings.Contains(body, "capability") {
		t.Error(body)
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("the API was called %d times", n)
	}
}

// TestOAgentHeaderArguments has a caller say something else in its own headers
// than in the arguments of its call.
func TestOAgentHeaderArguments(t *testing.T) {
	s := guarded(t, agentDocument("desk", `
  list-trips:
    user_identity: false
    input_restriction:
      assertion: recent.list-trips.inputs.X_Trace == "good"
`), "", echo)
	if e := s.echo(s.callRequest("listTrips", `{"X_Trace":"good"}`)); e.Header.Get("X-Trace") != "good" {
		t.Errorf("%+v", e)
	}
	r := s.callRequest("listTrips", `{"X_Trace":"good"}`)
	r.Header.Set("X-Trace", "evil")
	if got := s.result(s.do(r)); !got.IsError || !strings.Contains(got.text(), "input_restriction") {
		t.Error(got.text())
	}
}
