package oagent_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// lookingBack asks what a trip was that was read before.
var lookingBack = sitetest.AgentDocument("desk", `
  get-trip: {user_identity: false}
  create-trip: {user_identity: false}
  list-trips:
    user_identity: false
    input_restriction: {assertion: recent.get-trip.outputs.id == "z"}
  delete-trip:
    user_identity: false
    input_restriction: {assertion: recent.create-trip.inputs.to.size() > 0}
`)

// sized answers GET /trips/{n} with n bytes of JSON.
func sized(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/trips/"))
	const frame = `{"id":"z","pad":""}`
	fmt.Fprintf(w, `{"id":"z","pad":%q}`, strings.Repeat("a", max(0, n-len(frame))))
}

// TestOAgent_max_recorded wants a value that is too large for the record to be reported as
// that, and the limit to be the operator's.
func TestOAgent_max_recorded(t *testing.T) {
	t.Run("the default", func(t *testing.T) {
		s := sitetest.Guarded(t, lookingBack, "", sized)
		tooLarge := func(a sitetest.Response, path string) {
			t.Helper()
			p := s.Problem(a)
			if p.Kind != "input_restriction" || !sitetest.ContainsAll(p.Detail, []string{path, "record", "64 KiB", "max_recorded"}) {
				t.Errorf("problem %+v", p)
			}
		}
		s.Get("/trips/70000")
		tooLarge(s.Get("/trips"), `recent["get-trip"].outputs`)
		s.Request("POST", "/trips", fmt.Sprintf(`{"to":%q}`, strings.Repeat("a", 70_000)))
		tooLarge(s.Request("DELETE", "/trips/1", ""), `recent["create-trip"].inputs`)
		s.Get("/trips/60000")
		if a := s.Get("/trips"); a.Status != 200 {
			t.Errorf("within the limit: %d %s", a.Status, a.Body)
		}
	})
	t.Run("raised", func(t *testing.T) {
		s := sitetest.Guarded(t, lookingBack, "max_recorded 128KiB", sized)
		s.Get("/trips/70000")
		if a := s.Get("/trips"); a.Status != 200 {
			t.Errorf("within the limit: %d %s", a.Status, a.Body)
		}
		s.Get("/trips/140000")
		if p := s.Problem(s.Get("/trips")); !strings.Contains(p.Detail, "at most 128 KiB") {
			t.Errorf("problem %+v", p)
		}
	})
	t.Run("each handler has its own, and all see the recorded values", func(t *testing.T) {
		s := sitetest.NewSite(t)
		s.Write("agent.yaml", lookingBack)
		api := sitetest.Upstream(t, sized)
		s.Start("agents {\n\tstore bolt DIR/store.db\n\ttoolset trips TRIPS\n}", "@large header X-Large *\nhandle @large {\n\toagent DIR/agent.yaml {\n\t\tmax_recorded 128KiB\n\t}\n\treverse_proxy "+api+
			"\n}\nhandle {\n\toagent DIR/agent.yaml\n\treverse_proxy "+api+"\n}")
		s.Request("GET", "/trips/70000", "", "X-Large", "1")
		if a := s.Get("/trips"); a.Status != 200 {
			t.Errorf("what the one has kept: %d %s", a.Status, a.Body)
		}
		s.Get("/trips/70000")
		if p := s.Problem(s.Request("GET", "/trips", "", "X-Large", "1")); !strings.Contains(p.Detail, "at most 64 KiB") {
			t.Errorf("what the other has not: %+v", p)
		}
	})
}

// TestOAgent_request_not_JSON wants the refusal of an answer that is no JSON to say so.
func TestOAgent_request_not_JSON(t *testing.T) {
	s := sitetest.Guarded(t, sitetest.AgentDocument("desk", "  get-trip:\n    user_identity: false\n    output_restriction: {assertion: recent.get-trip.outputs.public}\n"), "", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write([]byte("\x89PNG\xff"))
	})
	p := s.Problem(s.Get("/trips/1"))
	if p.Kind != "output_restriction" || !p.Made || !sitetest.ContainsAll(p.Detail, []string{`recent["get-trip"].outputs`, "_media_type", "_bytes"}) {
		t.Errorf("problem %+v", p)
	}
}

// TestOAgent_encoded_slash wants a request that is no operation, and would be one
// if a slash were encoded, to be reported.
func TestOAgent_encoded_slash(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("trips.yaml", sitetest.Trips+`  /repos/{owner}/{repo}/contents/{path}:
    get:
      operationId: getContents
      parameters:
        - {name: owner, in: path, required: true, schema: {type: string}}
        - {name: repo, in: path, required: true, schema: {type: string}}
        - {name: path, in: path, required: true, schema: {type: string}}
      responses: {"200": {description: ok}}
`)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "  get-contents: {user_identity: false}\n"))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", sitetest.GuardedBlock("", sitetest.Upstream(t, sitetest.Echo)))
	for path, want := range map[string]string{
		"/repos/a/r/contents/dir/file.txt":        "/repos/a/r/contents/dir%2Ffile.txt",
		"/repos/a/r/contents/dir/sub/file%20.txt": "/repos/a/r/contents/dir%2Fsub%2Ffile%20.txt",
		"/repos/a/r":      "",
		"/nothing/at/all": "",
		"/repos/a/r/contents" + strings.Repeat("/a", 40): "",
	} {
		p := s.Problem(s.Get(path))
		hint := " " + want
		if p.Kind != "unknown_operation" || strings.Contains(p.Detail, "%2F") != (want != "") || want != "" && !strings.HasSuffix(p.Detail, hint) {
			t.Errorf("%s: %+v", path, p)
		}
		if want == "" {
			continue
		}
		if a := s.Get(want); a.Status != 200 {
			t.Errorf("what the hint says: %d %s", a.Status, a.Body)
		}
	}
}

// TestChat_reports_what_was_made wants the log to say of a refusal whether the model was
// asked.
func TestChat_reports_what_was_made(t *testing.T) {
	s := sitetest.Chatting(t, sitetest.Guardrailed, "max_output 1KiB")
	shape := sitetest.Shapes["completions"]
	ask := func(talk, text string) {
		t.Helper()
		if a := s.AskIn(talk, shape.Path, fmt.Sprintf(shape.Ask, text)); a.Status < 400 {
			t.Fatalf("answer %d %s", a.Status, a.Body)
		}
	}
	logged := func(talk string, made bool) {
		t.Helper()
		sitetest.Eventually(t, "a line about "+talk, func() bool {
			for line := range strings.SplitSeq(s.Log(), "\n") {
				var l struct {
					Msg        string
					Made       *bool
					Engagement string `json:"engagement_id"`
				}
				if json.Unmarshal([]byte(line), &l) != nil || l.Msg != "decision" || !strings.HasPrefix(l.Engagement, talk+"@") {
					continue
				}
				if l.Made == nil || *l.Made != made {
					t.Errorf("%s: want made %t: %s", talk, made, line)
				}
				return true
			}
			return false
		})
	}
	ask("input", "something forbidden")
	logged("input", false)
	s.SaysText("application/json", fmt.Sprintf(shape.Say, "something forbidden"))
	ask("output", "hello")
	logged("output", true)
	s.SaysText("application/json", fmt.Sprintf(shape.Say, strings.Repeat("a", 2000)))
	ask("too-large", "hello")
	logged("too-large", true)
	s.SaysText("application/json", "<html>")
	ask("unreadable", "hello")
	logged("unreadable", true)
	s.Says(func(w http.ResponseWriter, _ *http.Request) {
		s.Down.Store(true)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, shape.Say, "fine")
	})
	ask("tool-down", "hello")
	logged("tool-down", true)
}

// TestOAgent_paths_apart wants paths of endpoints that hide each other refused.
func TestOAgent_paths_apart(t *testing.T) {
	for options, want := range map[string]string{
		"serve /agents\nengagements /agents":            "serve /agents engagements",
		"reviews /agents/\nserve /agents":               "serve reviews /agents/",
		"serve /agents\nengagements /agents/talks":      "serve /agents engagements /agents/talks",
		"engagements /talks/all\nreviews /talks":        "engagements /talks/all reviews /talks",
		"serve /agents\nengagements /agents-talks":      "",
		"serve /a/agents\nengagements /a/e\nreviews /r": "",
	} {
		_, _, err := sitetest.Adapt("http://a.test {\n\toagent a.yaml {\n" + options + "\n\t}\n}")
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !testkit.ContainsAll(err.Error(), want) || !strings.Contains(err.Error(), "Caddyfile:")):
			t.Errorf("%q: got %v, want %q", options, err, want)
		}
	}
}

// TestOAgent_limits_config wants what a JSON configuration says to be checked as well.
func TestOAgent_limits_config(t *testing.T) {
	for name, test := range map[string]struct{ options, want string }{
		"max_recorded":              {`"max_recorded": 300000`, "max_recorded 300000 256 KiB"},
		"max_recorded below zero":   {`"max_recorded": -1`, "max_recorded"},
		"paths":                     {`"serve": "/a", "reviews": "/a/r"`, "serve /a reviews /a/r"},
		"a path of the model's API": {`"serve": "/v1", "chat": {}`, "serve /v1 chat /v1/chat/completions"},
		"good":                      {`"serve": "/a", "reviews": "/r", "chat": {}, "max_recorded": 262144`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Write("agent.yaml", sitetest.AgentDocument("desk", "  list-trips: {}\n"))
			config := strings.Replace(string(s.Config("agents {\n\ttoolset trips TRIPS\n}", "oagent DIR/agent.yaml")), `"handler":"oagent"`, `"handler":"oagent",`+test.options, 1)
			var c caddy.Config
			if err := json.Unmarshal([]byte(config), &c); err != nil {
				t.Fatal(err)
			}
			err := caddy.Validate(&c)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !testkit.ContainsAll(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
