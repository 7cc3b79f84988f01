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

// latestTrips is a document in which a value of one operation's argument makes the
// path of another operation.
const latestTrips = `openapi: 3.1.0
info: {title: Trips, version: 1.2.3}
paths:
  /trips/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: string}}
    get:
      operationId: getTrip
      responses: {"200": {description: ok}}
  /trips/latest:
    get:
      operationId: latestTrip
      responses: {"200": {description: ok}}
  /trips/{id}/secret:
    parameters:
      - {name: id, in: path, required: true, schema: {type: string}}
    get:
      operationId: secretTrip
      responses: {"200": {description: ok}}
`

func latestSite(t *testing.T, agent string, handler http.HandlerFunc) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("trips.yaml", latestTrips)
	s.Write("agent.yaml", agent)
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", sitetest.GuardedBlock("", sitetest.Upstream(t, handler)))
	return s
}

var pathOverrides = []string{"X-Override-Url", "X-Script-Name", "Script-Name", "Path-Info"}

// TestOAgent_call_of_another_operation calls an allowed tool with arguments, or beside
// headers, that make the API answer an operation which is not allowed.
func TestOAgent_call_of_another_operation(t *testing.T) {
	var reached atomic.Int64
	s := latestSite(t, sitetest.AgentDocument("desk", "  get-trip: {user_identity: false}\n"), func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		for _, name := range pathOverrides {
			if r.Header.Get(name) != "" {
				t.Errorf("%s reached the API", name)
			}
		}
		_, _ = io.WriteString(w, "fine")
	})
	for _, id := range []string{"latest", "LATEST", "latest.json", "%6catest", "1/secret", `1\\secret`} {
		t.Run(id, func(t *testing.T) {
			s := s.With(t)
			arguments := fmt.Sprintf(`{"id":"%s"}`, id)
			if r := s.Call("getTrip", arguments); !r.IsError {
				t.Errorf("mcp: %s", r.Text())
			}
			if body := s.OTC("getTrip", arguments); !strings.Contains(body, `"success":false`) {
				t.Errorf("otc: %s", body)
			}
		})
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("the API was called %d times", n)
	}
	for _, name := range pathOverrides {
		t.Run(name, func(t *testing.T) {
			s := s.With(t)
			r := s.CallRequest("getTrip", `{"id":"1"}`)
			r.Header.Set(name, "/trips/latest")
			if got := s.Result(s.Do(r)); got.Text() != "fine" { // the call is made, without the header
				t.Error(got.Text())
			}
		})
	}
	for _, id := range []string{"1", "A.b", "x;y", "x?y", "latest2"} {
		if text := s.Succeed("getTrip", fmt.Sprintf(`{"id":%q}`, id)); text != "fine" {
			t.Errorf("%s: %s", id, text)
		}
	}
}

// TestOAgent_unseen_outputs has the API answer with what an assertion cannot look
// into. That something is not in there does not hold then.
func TestOAgent_unseen_outputs(t *testing.T) {
	const secret = `{"salary":"hunter2"}`
	s := latestSite(t, sitetest.AgentDocument("desk", `
  get-trip:
    user_identity: false
    output_restriction:
      assertion: "!has(recent.get-trip.outputs.salary)"
  secret-trip:
    user_identity: false
    output_restriction:
      assertion: "recent.secret-trip.outputs._media_type == 'image/png'"
`), func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Type", "application/json")
		switch strings.TrimPrefix(r.URL.Path, "/trips/") {
		case "open":
			_, _ = io.WriteString(w, `{"public":true}`)
			return
		case "map/secret":
			header.Set("Content-Type", "image/png")
			_, _ = io.WriteString(w, "\x89PNG")
			return
		case "part":
			w.WriteHeader(http.StatusPartialContent)
		case "coded":
			header.Set("Content-Encoding", "x-unknown")
		case "bytes":
			header.Set("Content-Type", "application/octet-stream")
		case "text":
			header.Set("Content-Type", "text/plain")
		case "xml":
			header.Set("Content-Type", "application/xml")
		case "lines":
			header.Set("Content-Type", "application/x-ndjson")
			_, _ = io.WriteString(w, secret+"\n")
		case "twice":
			_, _ = io.WriteString(w, secret)
		}
		_, _ = io.WriteString(w, secret)
	})
	for _, id := range []string{"part", "coded", "bytes", "text", "xml", "lines", "twice"} {
		t.Run(id, func(t *testing.T) {
			s := s.With(t)
			if a := s.Get("/trips/" + id); strings.Contains(a.Body, "hunter2") || s.Problem(a).Kind != "output_restriction" {
				t.Errorf("http: %+v", a)
			}
			if a := s.Do(s.CallRequest("getTrip", fmt.Sprintf(`{"id":%q}`, id))); strings.Contains(a.Body, "hunter2") {
				t.Errorf("mcp: %s", a.Body)
			}
			if body := s.OTC("getTrip", fmt.Sprintf(`{"id":%q}`, id)); strings.Contains(body, "hunter2") {
				t.Errorf("otc: %s", body)
			}
		})
	}
	if a := s.Get("/trips/open"); a.Status != 200 {
		t.Errorf("%+v", a)
	}
	if a := s.Get("/trips/map/secret"); a.Status != 200 || a.Body != "\x89PNG" {
		t.Errorf("an assertion about the media type: %+v", a)
	}
}

// TestOAgent_static_identity_alone has a caller show credentials in each place that
// there is for them: a static identity's are the only ones that the API sees.
func TestOAgent_static_identity_alone(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("trips.yaml", `components:
  securitySchemes:
    token: {type: http, scheme: bearer}
    header: {type: apiKey, in: header, name: X-Api-Key}
    query: {type: apiKey, in: query, name: api_key}
    cookie: {type: apiKey, in: cookie, name: sid}
`+latestTrips)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "  get-trip: {user_identity: false, static_identity: OPS}\n"))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", sitetest.GuardedBlock(
		"undeclared allow\nidentity OPS {\ncredential header X-Api-Key ops\ncredential query key ops\n}", sitetest.Upstream(t, sitetest.Echo)))
	a := s.Request("GET", "/trips/1?api_key=evil&API_KEY=evil&%61pi_key=evil&key=evil&access_token=evil&page=2", "",
		"Authorization", "Bearer evil", "Proxy-Authorization", "Basic evil", "X-Api-Key", "evil", "X_Api_Key", "evil", "Cookie", "sid=evil; theme=evil")
	if a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	e := sitetest.DecodeEcho(t, a.Body)
	if key := e.Header.Get("X-Api-Key"); strings.Contains(fmt.Sprint(e.URI, e.Header), "evil") || key != "ops" {
		t.Errorf("got %+v, want the key ops, and nothing of the client's credentials", e)
	}
	if !strings.Contains(e.URI, "key=ops") || !strings.Contains(e.URI, "page=2") {
		t.Errorf("got %s, want key=ops and page=2", e.URI)
	}
}

// TestOAgentReviewPending_location looks where a refusal says what has become of a
// review: its user may not see the review itself.
func TestOAgentReviewPending_location(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "  create-trip: {input_restriction: {require_review: boss}}\n"))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}\norder test_user first", "test_user\nmcp TRIPS\noagent DIR/agent.yaml {\n"+
		"review_wait off\nreviews /reviews\nengagements /engagements\n}\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	a := s.Request("POST", "/trips", `{"to":"Bern"}`, "X-Test-User", "ada")
	var refusal struct{ Location, Instance string }
	if err := json.Unmarshal([]byte(a.Body), &refusal); err != nil || refusal.Location == "" {
		t.Fatalf("%v %s", err, a.Body)
	}
	if a := s.Request("GET", refusal.Location, "", "X-Test-User", "ada"); a.Status != 200 || !strings.Contains(a.Body, "awaiting-verification") {
		t.Errorf("%+v", a)
	}
	if a := s.Request("GET", refusal.Instance, "", "X-Test-User", "boss"); a.Status != 200 || !strings.Contains(a.Body, `"pending"`) {
		t.Errorf("%+v", a)
	}
}

// TestOAgent_log_has_no_inputs refuses requests for what is in their arguments: the log
// says that, and nothing of them.
func TestOAgent_log_has_no_inputs(t *testing.T) {
	s := sitetest.Guarded(t, sitetest.AgentDocument("desk", "  list-trips: {user_identity: false}\n  get-trip: {user_identity: false}\n"), "", sitetest.Echo)
	for _, path := range []string{"/trips?limit=hunter2", "/trips/1%2Fhunter2%2F"} {
		s.Request("GET", path, "")
	}
	s.Call("getTrip", `{"id":"../hunter2"}`)
	r := s.CallRequest("listTrips", `{"limit":7}`)
	r.Header["X-Trace"] = []string{"hunter2", "hunter3"}
	s.Do(r)
	s.Logged(`"http.handlers.oagent"`, `"decision":"unreadable"`, `"reason":"The request cannot be parsed"`)
	for line := range strings.Lines(s.Log()) {
		if strings.Contains(line, `"http.handlers.oagent"`) && strings.Contains(line, `"tool"`) && strings.Contains(line, "hunter2") {
			t.Error(line)
		}
	}
}
