package inspectors_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// said is a value that the user writes. The model must not get it.
const said = "alan.turing@example.com"

// modelSite is a site with the agent desk, whose model has inspectors.
func modelSite(t *testing.T, inspectors string, steps ...modelserver.Step) *sitetest.HostedSite {
	t.Helper()
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", "\n  create-trip: {user_identity: false, collect_results: true}\n"), sitetest.Play(steps...))
	s.API.Respond = func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"received":%s,"by":%q}`, body, said)
	}
	block := strings.Replace(s.Block(""), "retries 0", "retries 0\n"+inspectors, 1)
	s.Start("agents {\n\tstore bolt DIR/store.db\ntoolset trips {\nopenapi TRIPS\n}\n}", strings.ReplaceAll(block, "toolset TRIPS", "toolset trips"))
	return s
}

// TestInspect_models plants values in what a model generates, and in what its user and its tool write.
func TestInspect_models(t *testing.T) {
	release := make(chan struct{})
	s := modelSite(t, "inspect secrets\ninspect pii", sitetest.Calls("create-trip", `{"to":`+quoted(all)+`}`),
		modelserver.Step{Text: "Created for " + all + ".", Pieces: 9, Wait: release})
	location := s.Begin("ann", "desk", "Create it for "+said)
	r, err := http.NewRequest(http.MethodGet, s.URL+location, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("X-Test-User", "ann")
	stream, err := sitetest.Client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	close(release)
	var events, text strings.Builder
	for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
		events.WriteString(lines.Text() + "\n")
		var piece struct{ Text string }
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(data), &piece) == nil {
			text.WriteString(piece.Text)
		}
	}
	without(t, "the events", events.String()+text.String())
	if !strings.Contains(events.String(), masked) {
		t.Errorf("the events are %s", events.String())
	}
	if v := s.State("ann", location); v.Status != "complete" || v.Text != "Created for "+masked+"." {
		t.Errorf("state %+v", v)
	}
	requests := s.Models.Requests()
	if len(requests) != 2 {
		t.Fatalf("%d requests", len(requests))
	}
	for _, request := range requests {
		without(t, "the model", string(request.Body))
		if strings.Contains(string(request.Body), said) {
			t.Errorf("the model got %s", request.Body)
		}
	}
	call := requests[1].Messages[1].Calls
	if len(call) != 1 || call[0].Name != "create_trip" && call[0].Name != "create-trip" || call[0].Arguments != `{"to":"`+masked+`"}` {
		t.Errorf("the call of the model is %+v", call)
	}
	if got := requests[1].Messages[2].Text; !strings.Contains(got, `"by":"masked@email.invalid"`) {
		t.Errorf("the model got the result %s", got)
	}
	without(t, "the run", s.As("ann", "GET", location, "").Body)
	without(t, "the trace", s.As("ann", "GET", location+"/trace", "").Body)
	filesWithout(t, s.Site)
	if strings.Contains(s.Log(), said) {
		t.Error("the log has what the user wrote")
	}
}

// TestInspect_models_fail_closed wants runs to end if an inspector rejects a request or a response, returns another form of it, or is not
// available.
func TestInspect_models_fail_closed(t *testing.T) {
	decisions := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			Agent, Protocol string
			User            struct{ ID string }
		}
		if json.NewDecoder(r.Body).Decode(&m) != nil || m.Agent != "desk" || m.User.ID != "ann" || m.Protocol != "oagent" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		switch r.URL.Path {
		case "/breaks":
			_, _ = io.WriteString(w, `{"decision":"mask","content":{"role":"assistant","calls":[{"name":"create-trip","arguments":"{\"to\":"}]}}`)
		case "/removes":
			_, _ = io.WriteString(w, `{"decision":"mask","content":{"system":"","messages":[]}}`)
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(decisions.Close)
	webhook := func(path, phase string) string {
		return "inspect webhook " + decisions.URL + path + " {\nsecret 0123456789abcdef0123456789abcdef\nphases " + phase + "\n}"
	}
	for name, c := range map[string]struct {
		inspectors string
		requests   int
	}{
		"rejected request":   {"inspect pii reject {\nphases request\n}", 0},
		"rejected response":  {"inspect pii reject {\nphases response\n}", 1},
		"no webhook":         {webhook("/down", "request"), 0},
		"no webhook after":   {webhook("/down", "response"), 1},
		"broken arguments":   {webhook("/breaks", "response"), 1},
		"removed messages":   {webhook("/removes", "request"), 0},
		"unreadable request": {webhook("/breaks", "request"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := modelSite(t, c.inspectors, sitetest.Calls("create-trip", `{"to":`+quoted(all)+`}`), modelserver.Step{Text: "Created."})
			location := s.Begin("ann", "desk", "Create it for "+said)
			v := s.State("ann", location)
			if v.Status != "error" || v.Error == nil {
				t.Fatalf("got %+v, want an error", v)
			}
			if e := v.Error; e.Kind != "model" || e.Rule != "inspected" {
				t.Errorf("got the error %+v, want model, inspected", e)
			}
			if n := len(s.Models.Requests()); n != c.requests || len(s.API.Received()) != 0 {
				t.Errorf("%d requests to the model, %d to the API", n, len(s.API.Received()))
			}
			without(t, "the run", s.As("ann", "GET", location, "").Body)
			without(t, "the trace", s.As("ann", "GET", location+"/trace", "").Body)
			filesWithout(t, s.Site)
		})
	}
}
