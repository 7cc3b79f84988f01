package oagent_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestOAgent(t *testing.T) {
	var calls atomic.Int64
	s := sitetest.Guarded(t, sitetest.AgentDocument("desk", `
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
			sitetest.Echo(w, r)
		}
	})
	for name, do := range map[string]func(s *sitetest.Site, to string) (refused bool, text string){
		"http": func(s *sitetest.Site, to string) (bool, string) {
			a := s.Request("POST", "/trips", fmt.Sprintf(`{"to":%q}`, to))
			return a.Status == 403, a.Body
		},
		"mcp": func(s *sitetest.Site, to string) (bool, string) {
			r := s.Call("createTrip", fmt.Sprintf(`{"to":%q}`, to))
			return r.IsError, r.Text()
		},
		"otc": func(s *sitetest.Site, to string) (bool, string) {
			body := s.OTC("createTrip", fmt.Sprintf(`{"to":%q}`, to))
			return strings.Contains(body, `"success":false`), body
		},
	} {
		t.Run("input restriction/"+name, func(t *testing.T) {
			s := s.With(t)
			before := calls.Load()
			refused, text := do(s, "Zug")
			if !refused || !sitetest.ContainsAll(text, []string{"capabilities.create-trip.input_restriction.assertion", "change", "inputs"}) {
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
		s := s.With(t)
		a := s.Get("/trips/secret")
		p := s.Problem(a)
		if p.Kind != "output_restriction" || !p.Made {
			t.Errorf("got %q, made: %t; want output_restriction, made: true", p.Kind, p.Made)
		}
		if a.Header.Get("X-Secret") != "" || strings.Contains(a.Body, "hunter2") {
			t.Errorf("got %+v, want nothing of the response", a)
		}
		if text := s.Call("getTrip", `{"id":"secret"}`).Text(); strings.Contains(text, "hunter2") || !strings.Contains(text, "withheld") {
			t.Error(text)
		}
		if body := s.OTC("getTrip", `{"id":"secret"}`); strings.Contains(body, "hunter2") || !strings.Contains(body, "withheld") {
			t.Error(body)
		}
		if a := s.Get("/trips/open"); a.Status != 200 || a.Body != `{"public":true}` {
			t.Errorf("%+v", a)
		}
		if text := s.Succeed("getTrip", `{"id":"open"}`); !strings.Contains(text, "true") {
			t.Error(text)
		}
	})
	t.Run("no capability", func(t *testing.T) {
		s := s.With(t)
		if p := s.Problem(s.Request("DELETE", "/trips/1", "")); p.Kind != "not_allowed" || p.Agent != "desk" || p.Tool != "delete-trip" {
			t.Errorf("%+v", p)
		}
		s.Fail("deleteTrip", `{"id":"1"}`, "delete-trip", "capability", "desk")
	})
	t.Run("exposes", func(t *testing.T) {
		s := s.With(t)
		a := s.Get("/trips?limit=1")
		var exposed struct {
			Destination string
			Calls       int
		}
		if err := json.Unmarshal([]byte(a.Header.Get("OAgent-Exposes")), &exposed); err != nil || exposed.Destination != "Bern" || exposed.Calls < 4 {
			t.Errorf("%v %q", err, a.Header)
		}
		if a := s.Do(s.CallRequest("listTrips", "{}")); !strings.Contains(a.Body, `"org.openagentspec/exposes":{"destination":"Bern"`) {
			t.Error(a.Body)
		}
		if a := s.OTCCall("listTrips", "{}"); !strings.HasPrefix(a.Header.Get("OAgent-Exposes"), `{"destination":"Bern"`) || strings.Contains(a.Body, "exposes") {
			t.Error(a)
		}
	})
	t.Run("log and metrics", func(t *testing.T) {
		s := s.With(t)
		s.Logged(`"http.handlers.oagent"`, `"decision":"input_restriction"`, `"agent":"desk"`, `"protocol":"mcp"`, `"inputs":{"to":"\"Zug\""}`)
		if strings.Contains(s.Log(), "hunter2") {
			t.Error("outputs are in the log")
		}
	})
}

// TestOAgent_no_bypass requests a forbidden operation in every way there is.
func TestOAgent_no_bypass(t *testing.T) {
	var reached atomic.Int64
	s := sitetest.Guarded(t, sitetest.AgentDocument("desk", "  list-trips: {user_identity: false}\n"), "", func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		sitetest.Echo(w, r)
	})
	if a := s.Get("/trips"); a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if a := s.Request("HEAD", "/trips", ""); a.Status != 403 {
		t.Errorf("HEAD is an operation of its own here: %d", a.Status)
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
			s := s.With(t)
			if a := s.Request(test.method, test.path, "", test.header...); a.Status != 403 {
				t.Errorf("%d %s", a.Status, a.Body)
			}
		})
	}
	s.Fail("deleteTrip", `{"id":"1"}`, "capability")
	s.Fail("getTrip", `{"id":"1"}`, "capability")
	if body := s.OTC("deleteTrip", `{"id":"1"}`); !strings.Contains(body, "capability") {
		t.Error(body)
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("the API was called %d times", n)
	}
}

// TestOAgent_header_arguments has a caller say something else in its own headers
// than in the arguments of its call.
func TestOAgent_header_arguments(t *testing.T) {
	s := sitetest.Guarded(t, sitetest.AgentDocument("desk", `
  list-trips:
    user_identity: false
    input_restriction:
      assertion: recent.list-trips.inputs.X_Trace == "good"
`), "", sitetest.Echo)
	if e := s.Echo(s.CallRequest("listTrips", `{"X_Trace":"good"}`)); e.Header.Get("X-Trace") != "good" {
		t.Errorf("%+v", e)
	}
	r := s.CallRequest("listTrips", `{"X_Trace":"good"}`)
	r.Header.Set("X-Trace", "evil")
	if e := s.Echo(r); e.Header.Get("X-Trace") != "good" {
		t.Errorf("the caller's header is sent in place of the argument: %+v", e)
	}
	for arguments, header := range map[string]string{`{"X_Trace":"evil"}`: "good", `{}`: "evil"} {
		r := s.CallRequest("listTrips", arguments)
		r.Header.Set("X-Trace", header)
		if got := s.Result(s.Do(r)); !got.IsError || !strings.Contains(got.Text(), "input_restriction") {
			t.Errorf("%s beside %s: %s", arguments, header, got.Text())
		}
	}
}
