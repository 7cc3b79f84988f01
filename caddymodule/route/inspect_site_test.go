package route_test

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// Values that inspectors find. No output of a site may have them.
var plantedValues = []string{"ada.lovelace@example.com", "AKIA" + "QYLPMN5HHHFPZAM2", "4111 1111 1111 1111"}

// plantedAPI returns the planted values: with 404 for GET /trips/lost, as a stream for /trips/stream. It records what it receives.
type plantedAPI struct {
	mu       sync.Mutex
	received string
}

func (a *plantedAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.received += r.Method + " " + r.URL.String() + " " + string(body) + "\n"
	a.mu.Unlock()
	all, _ := json.Marshal(strings.Join(plantedValues, " "))
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/trips/stream":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "event: progress\ndata: {\"message\":%s}\n\ndata: {\"id\":\"stream\",\"to\":%s}\n\n", all, all)
		return
	case "/trips/lost":
		w.Header().Set("Location", "/x?mail="+plantedValues[0])
		w.WriteHeader(http.StatusNotFound)
	}
	_, _ = fmt.Fprintf(w, `{"id":"1","to":%s,"more":{"ada.lovelace\u0040example.com":1}}`, all)
}

func (a *plantedAPI) Received() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.received
}

// TestInspect_planted_values_are_found_nowhere calls tools in each way, and then looks for the planted values in the responses,
// the log, the record and every file of the site.
func TestInspect_planted_values_are_found_nowhere(t *testing.T) {
	for name, action := range map[string]string{"masked": "mask", "rejected": "reject"} {
		t.Run(name, func(t *testing.T) {
			api := new(plantedAPI)
			s := sitetest.NewSite(t)
			s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  list-trips: {user_identity: false, collect_results: true}
  create-trip: {user_identity: false, collect_results: true}
  get-trip: {user_identity: false, collect_results: true}
`))
			phases := "{\nphases arguments result error list\n}"
			s.Start("agents {\n\tstore bolt DIR/store.db\n\tcalls {\narguments id to\nresults\n}\n\ttoolset trips {\nopenapi TRIPS\ninspect secrets "+action+" "+
				phases+"\ninspect pii "+action+" "+phases+"\n}\n}\norder test_user before oagent",
				"route {\ntest_user\nagents_console {\nauditors ada\n}\nmcp trips\notc /otc trips\noagent DIR/agent.yaml {\nengagement e1\nengagements /engagements\n}\nreverse_proxy "+sitetest.Upstream(t, api.ServeHTTP)+"\n}")
			planted, _ := json.Marshal(strings.Join(plantedValues, ", "))
			var responses strings.Builder
			for _, c := range []struct{ tool, arguments string }{
				{"getTrip", `{"id":"7"}`},
				{"getTrip", `{"id":"lost"}`},
				{"getTrip", `{"id":"stream"}`},
				{"listTrips", `{}`},
				{"createTrip", `{"to":` + string(planted) + `}`},
				{"createTrip", `{"to":"ada.lovelace\u0040example.com"}`},
			} {
				r := s.CallRequest(c.tool, c.arguments)
				r.Header.Set("X-Test-User", "ada")
				a := s.Do(r)
				otc := s.Request("POST", "/otc/call", fmt.Sprintf(`{"request":{"tool_id":"Trips.%s","input":%s}}`, c.tool, c.arguments), "X-Test-User", "ada")
				responses.WriteString(a.Body + otc.Body)
				if action == "mask" && c.tool != "getTrip" && !strings.Contains(a.Body, "[aws-access-key]") {
					t.Errorf("%s %s: %s", c.tool, c.arguments, a.Body)
				}
				if action == "reject" && (!strings.Contains(a.Body, `"isError":true`) || !strings.Contains(a.Body, "inspector")) {
					t.Errorf("%s %s was not rejected: %s", c.tool, c.arguments, a.Body)
				}
			}
			for _, path := range []string{"/trips/7", "/trips/lost", "/trips/stream", "/trips?to=ada.lovelace%40example.com"} {
				a := s.Request("GET", path, "", "X-Test-User", "ada")
				responses.WriteString(a.Body + fmt.Sprint(a.Header))
			}
			if a := s.Request("POST", "/trips", `{"to":`+string(planted)+`}`, "X-Test-User", "ada"); a.Status != http.StatusForbidden {
				t.Errorf("a plain request with planted arguments: %d %s", a.Status, a.Body)
			}
			record := s.Request("GET", "/engagements/e1/audit", "", "X-Test-User", "ada")
			if !strings.Contains(record.Body, "getTrip") && !strings.Contains(record.Body, "get-trip") {
				t.Errorf("the record: %d %s", record.Status, record.Body)
			}
			calls := s.View("ada", "/console/api/calls").Body
			if !strings.Contains(calls, "createTrip") {
				t.Errorf("the calls: %s", calls)
			}
			found(t, "the calls", calls)
			found(t, "responses", responses.String())
			found(t, "the record", record.Body)
			found(t, "the log", s.Log())
			found(t, "the API", api.Received())
			_ = filepath.WalkDir(s.Dir, func(path string, entry fs.DirEntry, err error) error {
				if err == nil && !entry.IsDir() {
					content, _ := os.ReadFile(path)
					found(t, path, string(content))
				}
				return err
			})
		})
	}
}

// found reports each planted value that a text has.
func found(t *testing.T, where, text string) {
	t.Helper()
	var kept []string
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.Contains(line, `"logger":"http.handlers.reverse_proxy"`) { // Caddy's debug log of the headers that arrive, see docs/inspect.md
			kept = append(kept, line)
		}
	}
	text = strings.Join(kept, "\n")
	for _, value := range plantedValues {
		if at := strings.Index(text, value); at >= 0 {
			t.Errorf("%s: %.200s", where, text[max(0, at-150):])
		}
	}
}

// TestInspect_headers_of_the_caller do not replace the arguments that inspectors have passed, also under another spelling.
func TestInspect_headers_of_the_caller(t *testing.T) {
	for name, action := range map[string]string{"without oagent": "reject {\nphases arguments\n}", "oagent": "reject {\nphases arguments\n}", "reviews": "review {\nreviewer ann\n}"} {
		t.Run(name, func(t *testing.T) {
			var received http.Header
			api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
				received = r.Header
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{}`)
			})
			s := sitetest.NewSite(t)
			s.Write("notes.yaml", `
openapi: 3.1.0
info: {title: Notes, version: "1"}
paths:
  /notes:
    get:
      operationId: listNotes
      parameters:
        - {name: X-Person, in: header, schema: {type: string}}
        - {name: person, in: cookie, schema: {type: string}}
      responses: {"200": {description: OK}}
`)
			s.Write("agent.yaml", sitetest.AgentDocument("desk", "\n  list-notes: {}\n"))
			oagent := "oagent DIR/agent.yaml {\nreviews /reviews\noriginals ann {\nsecret 0123456789abcdef\n}\n}\n"
			if name == "without oagent" {
				oagent = ""
			}
			s.Start("agents {\n\tstore bolt DIR/store.db\ntoolset notes {\nopenapi DIR/notes.yaml\ninspect pii "+action+"\n}\n}",
				"route {\ntest_user\nmcp notes\n"+oagent+"reverse_proxy "+api+"\n}")
			for _, arguments := range []string{`{}`, `{"X_Person":"Bern","person":"Bern"}`} {
				r := s.CallRequest("listNotes", arguments)
				r.Header.Set("X-Test-User", "ada")
				r.Header.Set("X-Person", plantedValues[0])
				r.Header.Set("X_Person", plantedValues[0])
				r.Header.Set("Cookie", "session=1; person="+plantedValues[0])
				r.Header.Set("X-Other", "kept")
				a := s.Do(r)
				if received == nil || received.Get("X-Other") != "kept" || !strings.Contains(received.Get("Cookie"), "session=1") {
					t.Fatalf("%s: the API received %v: %s", arguments, received, a.Body)
				}
				if got := fmt.Sprint(received); strings.Contains(got, plantedValues[0]) || strings.Contains(got, "Bern") != strings.Contains(arguments, "Bern") {
					t.Errorf("%s: the API received %s", arguments, got)
				}
				received = nil
			}
		})
	}
}

// TestInspect_invalid_arguments_of_a_tool_that_asks_the_user plants a value in arguments that are refused before the inspectors get them.
func TestInspect_invalid_arguments_of_a_tool_that_asks_the_user(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("notes.yaml", `
openapi: 3.1.0
info: {title: Notes, version: "1"}
paths:
  /notes:
    get:
      operationId: listNotes
      parameters:
        - {name: kind, in: query, schema: {type: string, enum: [short, long]}}
        - {name: pin, in: query, required: true, x-otc-non-inferrable: true, schema: {type: string}}
      responses: {"200": {description: OK}}
`)
	s.Start("agents {\n\tcalls {\n}\ntoolset notes {\nopenapi DIR/notes.yaml\ninspect pii mask {\nphases arguments\n}\n}\n}",
		"route {\ntest_user\nagents_console {\nauditors ada\n}\nmcp notes\nrespond 418\n}")
	arguments := `"arguments":{"kind":` + fmt.Sprintf("%q", plantedValues[0]) + `,"` + plantedValues[0] + `":1}`
	if a := stateless(s, "listNotes", arguments, "X-Test-User", "ada"); !strings.Contains(a.Body, `"isError":true`) {
		t.Errorf("the response is %s", a.Body)
	}
	calls := s.Request("GET", "/console/api/calls", "", "X-Test-User", "ada").Body
	if !strings.Contains(calls, `"outcome":"invalid"`) || strings.Contains(calls, plantedValues[0]) {
		t.Errorf("the log of calls is %s", calls)
	}
}

// TestInspect_gets_converted_arguments: JSON text cannot hide what an inspector looks for, and the log of calls has what the inspector passes.
func TestInspect_gets_converted_arguments(t *testing.T) {
	api := new(plantedAPI)
	s := sitetest.NewSite(t)
	s.Write("notes.yaml", `openapi: 3.1.0
info: {title: Notes, version: "1"}
paths:
  /notes:
    post:
      operationId: addNote
      requestBody: {required: true, content: {application/json: {schema: {type: object, properties: {meta: {type: object, properties: {n: {type: integer}}}}}}}}
      responses: {"200": {description: ok}}
`)
	s.Start("agents {\n\tstore bolt DIR/store.db\n\tcalls {\narguments meta\n}\n\ttoolset notes {\nopenapi DIR/notes.yaml\ninspect pii mask {\nphases arguments\n}\n}\n}",
		"route {\ntest_user\nagents_console {\nauditors ada\n}\nmcp notes\nreverse_proxy "+sitetest.Upstream(t, api.ServeHTTP)+"\n}")
	r := s.CallRequest("addNote", `{"meta":"{\"n\":\"5\",\"mail\":\"ada.lovelace\\u0040example.com\"}"}`)
	r.Header.Set("X-Test-User", "ada")
	s.Do(r)
	if got := api.Received(); !strings.Contains(got, `"n":5`) || strings.Contains(got, "lovelace") {
		t.Errorf("the API received %s, want a number and a masked address", got)
	}
	if calls := s.View("ada", "/console/api/calls").Body; strings.Contains(calls, "lovelace") || !strings.Contains(calls, `n\":5`) && !strings.Contains(calls, `"n":5`) {
		t.Errorf("the log of calls has %s, want the converted arguments", calls)
	}
}

// TestInspect_joins_the_events_of_a_stream: a value that an API sends in pieces does not reach callers, and what is beside it does.
func TestInspect_joins_the_events_of_a_stream(t *testing.T) {
	streams := map[string]string{
		"deltas": "data: {\"delta\":{\"text\":\"write to ada.love\"}}\n\ndata: {\"delta\":{\"text\":\"lace@exam\"}}\n\ndata: {\"delta\":{\"text\":\"ple.com, please\"}}\n\n",
		"texts":  "data: write to ada.love\n\ndata: lace@example\n\ndata: .com, please\n\n",
		"result": "event: mcp-result\ndata: {\"content\":[{\"type\":\"text\",\"text\":\"write to ada.love\"},{\"type\":\"text\",\"text\":\"lace@example.com, please\"}]}\n\n",
	}
	for _, action := range []string{"mask", "reject"} {
		s := sitetest.NewSite(t)
		api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, streams[strings.TrimPrefix(r.URL.Path, "/trips/")])
		})
		s.Start("agents {\n\ttoolset trips {\nopenapi TRIPS\ninspect pii "+action+"\n}\n}", "route {\nmcp trips\notc /otc trips\nreverse_proxy "+api+"\n}")
		for name := range streams {
			called := s.Do(s.CallRequest("getTrip", `{"id":"`+name+`"}`)).Body
			otc := s.Request("POST", "/otc/call", `{"request":{"tool_id":"Trips.getTrip","input":{"id":"`+name+`"}}}`).Body
			for _, body := range []string{called, otc} {
				if strings.Contains(body, "love") || strings.Contains(body, "lace") {
					t.Errorf("%s, %s: %s", action, name, body)
				}
			}
			if passes := strings.Contains(called, "[email]") && strings.Contains(called, ", please"); passes != (action == "mask") {
				t.Errorf("%s, %s: the result is %s", action, name, called)
			}
		}
	}
}
