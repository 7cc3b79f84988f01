package caddymodule_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/keyword"
)

func TestOAgentWhichAgent(t *testing.T) {
	s := newSite(t)
	s.write("agent.yaml", agentDocument("reader", "  list-trips: {user_identity: false}\n")+"---\n"+
		agentDocument("writer", "  create-trip: {user_identity: false}\n"))
	s.start("agents {\n\tstore bolt DIR/store.db\n}", guardedBlock("guard {http.request.header.X-Agent}", upstream(t, echo)))
	for name, test := range map[string]struct {
		agent string
		kind  string
		says  string
	}{
		"allowed":     {"reader", "", ""},
		"another":     {"writer", "not_allowed", "the agent writer"},
		"none":        {"", "unknown_agent", "reader writer"},
		"unknown":     {"ghost", "unknown_agent", `agent "ghost"`},
		"other case":  {"Reader", "unknown_agent", `agent "Reader"`},
		"with spaces": {"reader writer", "unknown_agent", `agent "reader writer"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.with(t)
			var header []string
			if test.agent != "" {
				header = []string{"X-Agent", test.agent}
			}
			a := s.request("GET", "/trips", "", header...)
			r := s.callRequest("listTrips", "{}")
			r.Header.Set("X-Agent", test.agent)
			called := s.result(s.do(r))
			if test.kind == "" {
				if a.status != 200 || called.IsError {
					t.Errorf("%d %s; %s", a.status, a.body, called.text())
				}
				return
			}
			if p := s.problem(a); p.Kind != test.kind || !keyword.All(p.Detail, test.says) {
				t.Errorf("%+v", p)
			}
			if !called.IsError || !keyword.All(called.text(), test.says) {
				t.Error(called.text())
			}
		})
	}
}

// TestOAgentIdentity asks who the API sees.
func TestOAgentIdentity(t *testing.T) {
	t.Setenv("FAIRWAY_TEST_TOKEN", "ops")
	s := newSite(t)
	s.write("agent.yaml", agentDocument("desk", `
  list-trips: {}
  create-trip: {static_identity: OPS}
  get-trip: {user_identity: false, static_identity: OPS}
  delete-trip: {user_identity: false}
`))
	block := `route {
	test_user
	mcp TRIPS
	oagent DIR/agent.yaml {
		identity OPS {
			header_up Authorization "Bearer {env.FAIRWAY_TEST_TOKEN}"
			credential query key secret
		}
		caller_headers X-Remote-User
	}
	reverse_proxy ` + upstream(t, echo) + `
}`
	s.start("agents {\n\tstore bolt DIR/store.db\n}", block)
	const (
		callers = "Bearer caller"
		static  = "Bearer ops"
	)
	for _, test := range []struct {
		name, method, path, body string
		user                     string // whom the site has authenticated
		authorization            string // what the caller sends
		status                   int
		want                     string // what the API sees
	}{
		{"user_identity, known", "GET", "/trips", "", "ada", callers, 200, callers},
		{"user_identity, known without credentials", "GET", "/trips", "", "ada", "", 200, ""},
		{"user_identity credentials", "GET", "/trips", "", "", callers, 200, callers},
		{"user_identity, anonymous", "GET", "/trips", "", "", "", 403, ""},
		{"user_identity and static, known", "POST", "/trips", `{"to":"x"}`, "ada", callers, 200, callers},
		{"user_identity and static, anonymous", "POST", "/trips", `{"to":"x"}`, "", "", 200, static},
		{"static, known", "GET", "/trips/1", "", "ada", callers, 200, static},
		{"static, anonymous", "GET", "/trips/1", "", "", "", 200, static},
		{"neither, known", "DELETE", "/trips/1", "", "ada", callers, 200, ""},
		{"neither, anonymous", "DELETE", "/trips/1", "", "", "", 200, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := s.with(t)
			header := []string{"X-Test-User", test.user, "Cookie", "session=caller", "X-Remote-User", "caller"}
			if test.authorization != "" {
				header = append(header, "Authorization", test.authorization)
			}
			a := s.request(test.method, test.path, test.body, header...)
			if a.status != test.status {
				t.Fatalf("%d %s", a.status, a.body)
			}
			if test.status != 200 {
				if p := s.problem(a); p.Kind != "identity" || !strings.Contains(p.Rule, "user_identity") {
					t.Errorf("%+v", p)
				}
				return
			}
			e := decodeEcho(t, a.body)
			if e.Header.Get("Authorization") != test.want {
				t.Errorf("the API sees %q, want %q", e.Header.Get("Authorization"), test.want)
			}
			callersOwn := test.want == callers || test.user != "" && strings.HasPrefix(test.name, "user_identity")
			if has := e.Header.Get("Cookie") != "" && e.Header.Get("X-Remote-User") != ""; has != callersOwn {
				t.Errorf("cookies and further headers of the caller: %t, want %t", has, callersOwn)
			}
			if strings.Contains(e.URI, "key=secret") != (test.want == static) {
				t.Errorf("uri %s", e.URI)
			}
		})
	}
	t.Run("tool call", func(t *testing.T) {
		s := s.with(t)
		r := s.callRequest("getTrip", `{"id":"1"}`)
		r.Header.Set("Authorization", callers)
		if e := s.echo(r); e.Header.Get("Authorization") != static || e.URI != "/trips/1?key=secret" {
			t.Errorf("%+v", e)
		}
	})
}

func TestOAgentAnswers(t *testing.T) {
	release := make(chan struct{})
	var letGo sync.Once
	defer letGo.Do(func() { close(release) })
	s := guarded(t, agentDocument("desk", `
  list-trips: {user_identity: false}
  probe-trips: {user_identity: false}
  create-trip: {user_identity: false}
  get-trip:
    user_identity: false
    output_restriction: {assertion: '!string(recent.get-trip.outputs).contains("secret")'}
`), "max_output 1KiB\nmax_input 2KiB", func(w http.ResponseWriter, r *http.Request) {
		switch size := r.URL.Query().Get("limit"); r.URL.Path {
		case "/trips":
			switch {
			case r.Header.Get("If-None-Match") != "":
				w.WriteHeader(http.StatusNotModified)
			case size == "1":
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, "data: first\n\n")
				w.(http.Flusher).Flush()
				<-release
				fmt.Fprint(w, "data: last\n\n")
			case size != "":
				n, _ := strconv.Atoi(size)
				_, _ = io.WriteString(w, strings.Repeat("x", n))
			default:
				_, _ = io.Copy(w, r.Body)
			}
		case "/trips/stream", "/trips/endless":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: early\n\n")
			w.(http.Flusher).Flush()
			if r.URL.Path == "/trips/stream" {
				fmt.Fprint(w, "data: a secret\n\n")
				return
			}
			for r.Context().Err() == nil {
				if _, err := fmt.Fprint(w, "data: more\n\n"); err != nil {
					return
				}
			}
		case "/trips/goodstream":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: good\n\n")
		case "/trips/large":
			_, _ = io.WriteString(w, strings.Repeat("y", 2000))
		case "/trips/broken":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
		case "/trips/part":
			w.Header().Set("X-Range", r.Header.Get("Range"))
			_, _ = io.WriteString(w, "all of it")
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `"fine"`)
		}
	})
	t.Run("body over max_input", func(t *testing.T) {
		s := s.with(t)
		if p := s.problem(s.request("POST", "/trips", `{"to":"`+strings.Repeat("x", 3000)+`"}`)); p.Status != 413 || p.Kind != "too_large" {
			t.Errorf("%+v", p)
		}
		if a := s.request("POST", "/trips", `{"to":"Bern"}`); a.status != 200 || a.body != `{"to":"Bern"}` {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("unchecked answer over max_output passes", func(t *testing.T) {
		s := s.with(t)
		for _, n := range []int{1024, 1025, 100_000} {
			if a := s.get(fmt.Sprint("/trips?limit=", n)); a.status != 200 || len(a.body) != n {
				t.Errorf("%d: %d %d", n, a.status, len(a.body))
			}
		}
	})
	t.Run("checked answer over max_output is withheld", func(t *testing.T) {
		s := s.with(t)
		a := s.get("/trips/large")
		if p := s.problem(a); p.Kind != "output_restriction" || !strings.Contains(p.Detail, "1.0 KiB") || strings.Contains(a.body, "yy") {
			t.Errorf("%+v", p)
		}
		if text := s.call("getTrip", `{"id":"large"}`).text(); strings.Contains(text, "yy") || !strings.Contains(text, "withheld") {
			t.Error(text)
		}
	})
	t.Run("unchecked stream passes as it comes", func(t *testing.T) {
		response, err := client.Get(s.url + "/trips?limit=1")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		lines := bufio.NewScanner(response.Body)
		if !lines.Scan() || lines.Text() != "data: first" {
			t.Fatalf("%q", lines.Text())
		}
		letGo.Do(func() { close(release) })
		rest := ""
		for lines.Scan() {
			rest += lines.Text()
		}
		if rest != "data: last" {
			t.Errorf("%q", rest)
		}
	})
	t.Run("checked stream never leaks", func(t *testing.T) {
		s := s.with(t)
		for _, id := range []string{"stream", "endless"} {
			a := s.get("/trips/" + id)
			if p := s.problem(a); p.Kind != "output_restriction" || strings.Contains(a.body, "early") {
				t.Errorf("%s: %+v", id, a)
			}
			r := s.callRequest("getTrip", fmt.Sprintf(`{"id":%q}`, id))
			r.Header.Set("Accept", "application/json, text/event-stream")
			if a := s.do(r); strings.Contains(a.body, "early") || strings.Contains(a.body, "a secret") {
				t.Errorf("%s: %s", id, a.body)
			}
		}
		if a := s.get("/trips/goodstream"); a.status != 200 || a.body != "data: good\n\n" {
			t.Errorf("%+v", a)
		}
		if text := s.succeed("getTrip", `{"id":"goodstream"}`); text != "good" {
			t.Errorf("%q", text)
		}
	})
	t.Run("an answer that breaks off", func(t *testing.T) {
		s := s.with(t)
		if a := s.get("/trips/broken"); a.status != http.StatusBadGateway || a.header.Get("Content-Type") != "application/problem+json" || strings.Contains(a.body, "half") {
			t.Errorf("%+v", a)
		}
		s.fail("getTrip", `{"id":"broken"}`, "closed")
	})
	t.Run("parts are requested as the whole", func(t *testing.T) {
		s := s.with(t)
		if a := s.request("GET", "/trips/part", "", "Range", "bytes=0-1"); a.status != 200 || a.header.Get("X-Range") != "" || a.body != "all of it" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("HEAD and 304", func(t *testing.T) {
		s := s.with(t)
		if a := s.request("HEAD", "/trips", ""); a.status != 200 {
			t.Errorf("%d", a.status)
		}
		if a := s.request("HEAD", "/trips/1", ""); a.status != 200 && a.status != 403 || a.body != "" {
			t.Errorf("%d %s", a.status, a.body)
		}
		if a := s.request("GET", "/trips", "", "If-None-Match", `"x"`); a.status != 304 {
			t.Errorf("%d", a.status)
		}
	})
}

// TestOAgentHandlersBehind has handlers behind the guard fail.
func TestOAgentHandlersBehind(t *testing.T) {
	s := newSite(t)
	s.write("agent.yaml", agentDocument("desk", `
  list-trips: {user_identity: false, output_restriction: {assertion: 'true'}}
  create-trip: {user_identity: false}
  get-trip: {user_identity: false}
exposes:
  total: history._total
`))
	s.start("agents {\n\tstore bolt DIR/store.db\n}", `mcp TRIPS
	route {
		oagent DIR/agent.yaml
		@list path /trips
		test_panic @list
		error /trips/1 "teapot" 418
		respond "fine"
	}
	handle_errors {
		respond "error page {err.status_code}"
	}`)
	if a := s.get("/trips/1"); a.body != "error page 418" {
		t.Errorf("%+v", a)
	}
	s.fail("getTrip", `{"id":"1"}`, "418")
	if response, err := client.Get(s.url + "/trips"); err == nil {
		response.Body.Close()
		if response.StatusCode == 200 {
			t.Errorf("%d after a panic", response.StatusCode)
		}
	}
	s.fail("listTrips", `{}`, "gateway", "failed")
	if a := s.get("/trips/2"); a.body != "fine" || a.header.Get("OAgent-Exposes") != `{"total":5}` {
		t.Errorf("%+v", a)
	}
}

func TestOAgentReload(t *testing.T) {
	s := guarded(t, agentDocument("desk", "  list-trips: {user_identity: false}\n"), "", echo)
	if a := s.get("/trips/1"); a.status != 403 {
		t.Fatalf("%d", a.status)
	}
	t.Run("a good change replaces the agents", func(t *testing.T) {
		s := s.with(t)
		s.write("agent.yaml", agentDocument("desk", "  get-trip: {user_identity: false}\n"))
		eventually(t, "the new capability", func() bool { return s.get("/trips/1").status == 200 })
		if a := s.get("/trips"); a.status != 403 {
			t.Errorf("%d", a.status)
		}
	})
	t.Run("a bad one is logged and leaves them", func(t *testing.T) {
		s := s.with(t)
		s.write("agent.yaml", agentDocument("desk", "  get-trips: {user_identity: false}\n"))
		s.logged(`"level":"error"`, "agent.yaml:7", "mean", "get-trip")
		if a := s.get("/trips/1"); a.status != 200 {
			t.Errorf("%d", a.status)
		}
	})
	t.Run("an identity that is not configured is one", func(t *testing.T) {
		s := s.with(t)
		s.write("agent.yaml", agentDocument("desk", "  get-trip: {static_identity: OPS}\n"))
		s.logged(`"level":"error"`, "identity", "OPS")
	})
	t.Run("a changed toolset is linked again", func(t *testing.T) {
		s := s.with(t)
		s.write("agent.yaml", agentDocument("desk", "  list-trips: {user_identity: false}\n"))
		eventually(t, "the capability", func() bool { return s.get("/trips").status == 200 })
		s.write("trips.yaml", strings.ReplaceAll(trips, "listTrips", "allTrips"))
		// Where several toolsets have the document, each looks at it in its own time.
		eventually(t, "the tool to be gone", func() bool { return s.get("/trips").status == 403 && s.hasLogged(`"level":"error"`, "list-trips") })
		s.write("trips.yaml", trips)
		eventually(t, "the tool", func() bool { return s.get("/trips").status == 200 })
	})
}

// TestOAgentConcurrent has many clients ask for more than an agent may do.
func TestOAgentConcurrent(t *testing.T) {
	var reached atomic.Int64
	s := guarded(t, agentDocument("desk", `
  list-trips:
    user_identity: false
    input_restriction: {assertion: history._total < 100}
`), "", func(w http.ResponseWriter, r *http.Request) { reached.Add(1) })
	var allowed atomic.Int64
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			for range 4 {
				response, err := http.Get(s.url + "/trips")
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if response.StatusCode == 200 {
					allowed.Add(1)
				}
			}
		})
	}
	group.Wait()
	if reached.Load() != 100 || allowed.Load() != 100 {
		t.Errorf("%d calls reached the API, %d were allowed; want 100", reached.Load(), allowed.Load())
	}
}

// TestOAgentEngagements checks which calls count together.
func TestOAgentEngagements(t *testing.T) {
	s := newSite(t)
	s.write("agent.yaml", agentDocument("desk", `
  list-trips:
    input_restriction: {assertion: history._total < 1}
`))
	s.start("agents {\n\tstore bolt DIR/store.db\n}", `route {
		test_user
		oagent DIR/agent.yaml {
			toolset TRIPS
			engagement {http.request.header.X-Engagement}
		}
		reverse_proxy `+upstream(t, echo)+`
	}`)
	ask := func(user, engagement string) int {
		return s.request("GET", "/trips", "", "X-Test-User", user, "X-Engagement", engagement).status
	}
	for i, test := range []struct {
		user, engagement string
		status           int
	}{
		{"ada", "1", 200},
		{"ada", "1", 403},
		{"ada", "2", 200},
		{"bob", "1", 200},
		{"bob", "1", 403},
		{"ada", "", 200},
		{"ada", "", 403},
		{"ada", strings.Repeat("x", 600), 400},
	} {
		if status := ask(test.user, test.engagement); status != test.status {
			t.Errorf("%d: %s %.10s: %d, want %d", i, test.user, test.engagement, status, test.status)
		}
	}
}

func TestOAgentNarrowedLists(t *testing.T) {
	s := newSite(t)
	s.write("agent.yaml", agentDocument("desk", "  list-trips: {user_identity: false}\n  get-trip: {user_identity: false}\n"))
	s.start("agents {\n\tstore bolt DIR/store.db\n}", "mcp TRIPS {\nagent desk\n}\notc TRIPS {\nagent desk\n}\noagent DIR/agent.yaml\nreverse_proxy "+upstream(t, echo))
	s.wantTools("listTrips", "getTrip")
	if a := s.do(s.callRequest("deleteTrip", `{"id":"1"}`)); !strings.Contains(a.body, "unknown tool") {
		t.Error(a.body)
	}
	if a := s.get("/otc/tools"); strings.Contains(a.body, "deleteTrip") || !strings.Contains(a.body, "getTrip") {
		t.Error(a.body)
	}
	s.write("agent.yaml", agentDocument("desk", "  delete-trip: {user_identity: false}\n"))
	eventually(t, "the new list", func() bool { names := s.toolNames(); return len(names) == 1 && names[0] == "deleteTrip" })
	if err := s.load("agents {\n\tstore bolt DIR/store.db\n}", "mcp TRIPS {\nagent ghost\n}\noagent DIR/agent.yaml\nrespond ok"); err == nil ||
		!keyword.All(err.Error(), "ghost desk") {
		t.Errorf("got %v", err)
	}
}

// TestOAgentDocumentOfTheSite has the document of the API come from behind the
// guard.
func TestOAgentDocumentOfTheSite(t *testing.T) {
	s := newSite(t)
	s.write("agent.yaml", agentDocument("desk", "  list-trips: {user_identity: false}\n"))
	s.start("agents {\n\tstore bolt DIR/store.db\n}", "mcp /mcp /openapi.json\noagent DIR/agent.yaml\nreverse_proxy "+upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi.json" {
			_, _ = io.WriteString(w, trips)
			return
		}
		echo(w, r)
	}))
	if a := s.get("/trips"); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := s.get("/openapi.json"); a.status != 403 {
		t.Errorf("a visitor gets what no agent may have: %d", a.status)
	}
	s.succeed("listTrips", "{}")
	s.fail("getTrip", `{"id":"1"}`, "capability")
}

func TestOAgentConfigErrors(t *testing.T) {
	for name, test := range map[string]struct {
		agent, block string
		want         []string
	}{
		"no such file": {"", "mcp TRIPS\noagent DIR/none.yaml", []string{"none.yaml", "path"}},
		"not an agent": {"kind: other\n", "mcp TRIPS\noagent DIR/agent.yaml", []string{"agent.yaml:1"}},
		"unknown tool": {agentDocument("desk", "  list-trip: {}\n"), "mcp TRIPS\noagent DIR/agent.yaml", []string{"agent.yaml:7", "mean", "list-trips"}},
		"no toolset":   {agentDocument("desk", "  list-trips: {}\n"), "oagent DIR/agent.yaml", []string{"toolset", "toolset openapi.yaml"}},
		"no guard": {
			agentDocument("desk", "  list-trips: {}\n") + "---\n" + agentDocument("helpdesk", "  list-trips: {}\n"), "mcp TRIPS\noagent DIR/agent.yaml",
			[]string{"several agents (desk, helpdesk)", "guard {http.ocp.agent_type}"},
		},
		"a guard that is no agent": {agentDocument("desk", "  list-trips: {}\n"), "mcp TRIPS\noagent DIR/agent.yaml {\nguard dexk\n}", []string{"guard", `"dexk"`, "mean", "desk"}},
		"unknown identity":         {agentDocument("desk", "  list-trips: {static_identity: OP}\n"), "mcp TRIPS\noagent DIR/agent.yaml {\nidentity OPS {\nheader_up A b\n}\n}", []string{"agent.yaml:7", "static_identity", "identity OP;", "mean", "OPS"}},
		"the same twice":           {agentDocument("desk", "  list-trips: {}\n") + "---\n" + agentDocument("desk", "  list-trips: {}\n"), "mcp TRIPS\noagent DIR/agent.yaml", []string{"desk"}},
		"the same in files":        {agentDocument("desk", "  list-trips: {}\n"), "mcp TRIPS\noagent DIR/agent.yaml DIR/copy.yaml", []string{"copy.yaml:1"}},
		"unknown toolset":          {agentDocument("desk", "  list-trips: {}\n"), "oagent DIR/agent.yaml {\ntoolset trips\n}", []string{"toolset", "trips"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			if test.agent != "" {
				s.write("agent.yaml", test.agent)
				s.write("copy.yaml", test.agent)
			}
			err := s.load("", test.block+"\nrespond ok")
			if err == nil || !containsAll(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
