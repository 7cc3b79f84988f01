package oagent_test

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

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestOAgent_which_agent(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("reader", "  list-trips: {user_identity: false}\n")+"---\n"+
		sitetest.AgentDocument("writer", "  create-trip: {user_identity: false}\n"))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", sitetest.GuardedBlock("guard {http.request.header.X-Agent}", sitetest.Upstream(t, sitetest.Echo)))
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
			s := s.With(t)
			var header []string
			if test.agent != "" {
				header = []string{"X-Agent", test.agent}
			}
			a := s.Request("GET", "/trips", "", header...)
			r := s.CallRequest("listTrips", "{}")
			r.Header.Set("X-Agent", test.agent)
			called := s.Result(s.Do(r))
			if test.kind == "" {
				if a.Status != 200 || called.IsError {
					t.Errorf("%d %s; %s", a.Status, a.Body, called.Text())
				}
				return
			}
			if p := s.Problem(a); p.Kind != test.kind || !testkit.ContainsAll(p.Detail, test.says) {
				t.Errorf("%+v", p)
			}
			if !called.IsError || !testkit.ContainsAll(called.Text(), test.says) {
				t.Error(called.Text())
			}
		})
	}
}

// TestOAgentIdentity asks who the API sees.
func TestOAgentIdentity(t *testing.T) {
	t.Setenv("FAIRWAY_TEST_TOKEN", "ops")
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", `
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
	}
	reverse_proxy ` + sitetest.Upstream(t, sitetest.Echo) + `
}`
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", block)
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
			s := s.With(t)
			header := []string{"X-Test-User", test.user, "Cookie", "session=caller", "X-Remote-User", "caller"}
			if test.authorization != "" {
				header = append(header, "Authorization", test.authorization)
			}
			a := s.Request(test.method, test.path, test.body, header...)
			if a.Status != test.status {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			if test.status != 200 {
				if p := s.Problem(a); p.Kind != "identity" || !strings.Contains(p.Rule, "user_identity") {
					t.Errorf("%+v", p)
				}
				return
			}
			e := sitetest.DecodeEcho(t, a.Body)
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
		s := s.With(t)
		r := s.CallRequest("getTrip", `{"id":"1"}`)
		r.Header.Set("Authorization", callers)
		if e := s.Echo(r); e.Header.Get("Authorization") != static || e.URI != "/trips/1?key=secret" {
			t.Errorf("%+v", e)
		}
	})
}

func TestOAgentAnswers(t *testing.T) {
	release := make(chan struct{})
	var letGo sync.Once
	defer letGo.Do(func() { close(release) })
	s := sitetest.Guarded(t, sitetest.AgentDocument("desk", `
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
		s := s.With(t)
		if p := s.Problem(s.Request("POST", "/trips", `{"to":"`+strings.Repeat("x", 3000)+`"}`)); p.Status != 413 || p.Kind != "too_large" {
			t.Errorf("%+v", p)
		}
		if a := s.Request("POST", "/trips", `{"to":"Bern"}`); a.Status != 200 || a.Body != `{"to":"Bern"}` {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	})
	t.Run("unchecked answer over max_output passes", func(t *testing.T) {
		s := s.With(t)
		for _, n := range []int{1024, 1025, 100_000} {
			if a := s.Get(fmt.Sprint("/trips?limit=", n)); a.Status != 200 || len(a.Body) != n {
				t.Errorf("%d: %d %d", n, a.Status, len(a.Body))
			}
		}
	})
	t.Run("checked answer over max_output is withheld", func(t *testing.T) {
		s := s.With(t)
		a := s.Get("/trips/large")
		if p := s.Problem(a); p.Kind != "output_restriction" || !strings.Contains(p.Detail, "1.0 KiB") || strings.Contains(a.Body, "yy") {
			t.Errorf("%+v", p)
		}
		if text := s.Call("getTrip", `{"id":"large"}`).Text(); strings.Contains(text, "yy") || !strings.Contains(text, "withheld") {
			t.Error(text)
		}
	})
	t.Run("unchecked stream passes as it comes", func(t *testing.T) {
		response, err := sitetest.Client.Get(s.URL + "/trips?limit=1")
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
		s := s.With(t)
		for _, id := range []string{"stream", "endless"} {
			a := s.Get("/trips/" + id)
			if p := s.Problem(a); p.Kind != "output_restriction" || strings.Contains(a.Body, "early") {
				t.Errorf("%s: %+v", id, a)
			}
			r := s.CallRequest("getTrip", fmt.Sprintf(`{"id":%q}`, id))
			r.Header.Set("Accept", "application/json, text/event-stream")
			if a := s.Do(r); strings.Contains(a.Body, "early") || strings.Contains(a.Body, "a secret") {
				t.Errorf("%s: %s", id, a.Body)
			}
		}
		if a := s.Get("/trips/goodstream"); a.Status != 200 || a.Body != "data: good\n\n" {
			t.Errorf("%+v", a)
		}
		if text := s.Succeed("getTrip", `{"id":"goodstream"}`); text != "good" {
			t.Errorf("%q", text)
		}
	})
	t.Run("an answer that breaks off", func(t *testing.T) {
		s := s.With(t)
		if a := s.Get("/trips/broken"); a.Status != http.StatusBadGateway || a.Header.Get("Content-Type") != "application/problem+json" || strings.Contains(a.Body, "half") {
			t.Errorf("%+v", a)
		}
		s.Fail("getTrip", `{"id":"broken"}`, "closed")
	})
	t.Run("parts are requested as the whole", func(t *testing.T) {
		s := s.With(t)
		if a := s.Request("GET", "/trips/part", "", "Range", "bytes=0-1"); a.Status != 200 || a.Header.Get("X-Range") != "" || a.Body != "all of it" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("HEAD and 304", func(t *testing.T) {
		s := s.With(t)
		if a := s.Request("HEAD", "/trips", ""); a.Status != 200 {
			t.Errorf("%d", a.Status)
		}
		if a := s.Request("HEAD", "/trips/1", ""); a.Status != 200 && a.Status != 403 || a.Body != "" {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		if a := s.Request("GET", "/trips", "", "If-None-Match", `"x"`); a.Status != 304 {
			t.Errorf("%d", a.Status)
		}
	})
}

// TestOAgent_handlers_behind has handlers behind the guard fail.
func TestOAgent_handlers_behind(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  list-trips: {user_identity: false, output_restriction: {assertion: 'true'}}
  create-trip: {user_identity: false}
  get-trip: {user_identity: false}
exposes:
  total: history._total
`))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", `mcp TRIPS
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
	if a := s.Get("/trips/1"); a.Body != "error page 418" {
		t.Errorf("%+v", a)
	}
	s.Fail("getTrip", `{"id":"1"}`, "418")
	once := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // sitetest.Client would send the request again
	if response, err := once.Get(s.URL + "/trips"); err == nil {
		response.Body.Close()
		if response.StatusCode == 200 {
			t.Errorf("%d after a panic", response.StatusCode)
		}
	}
	s.Fail("listTrips", `{}`, "gateway", "failed")
	if a := s.Get("/trips/2"); a.Body != "fine" || a.Header.Get("OAgent-Exposes") != `{"total":5}` {
		t.Errorf("%+v", a)
	}
}

func TestOAgentReload(t *testing.T) {
	s := sitetest.Guarded(t, sitetest.AgentDocument("desk", "  list-trips: {user_identity: false}\n"), "", sitetest.Echo)
	if a := s.Get("/trips/1"); a.Status != 403 {
		t.Fatalf("%d", a.Status)
	}
	t.Run("a good change replaces the agents", func(t *testing.T) {
		s := s.With(t)
		s.Write("agent.yaml", sitetest.AgentDocument("desk", "  get-trip: {user_identity: false}\n"))
		sitetest.Eventually(t, "the new capability", func() bool { return s.Get("/trips/1").Status == 200 })
		if a := s.Get("/trips"); a.Status != 403 {
			t.Errorf("%d", a.Status)
		}
	})
	t.Run("a bad one is logged and leaves them", func(t *testing.T) {
		s := s.With(t)
		s.Write("agent.yaml", sitetest.AgentDocument("desk", "  get-trips: {user_identity: false}\n"))
		s.Logged(`"level":"error"`, "agent.yaml:7", "mean", "get-trip")
		if a := s.Get("/trips/1"); a.Status != 200 {
			t.Errorf("%d", a.Status)
		}
	})
	t.Run("an identity that is not configured is one", func(t *testing.T) {
		s := s.With(t)
		s.Write("agent.yaml", sitetest.AgentDocument("desk", "  get-trip: {static_identity: OPS}\n"))
		s.Logged(`"level":"error"`, "identity", "OPS")
	})
	t.Run("a changed toolset is linked again", func(t *testing.T) {
		s := s.With(t)
		s.Write("agent.yaml", sitetest.AgentDocument("desk", "  list-trips: {user_identity: false}\n"))
		sitetest.Eventually(t, "the capability", func() bool { return s.Get("/trips").Status == 200 })
		s.Write("trips.yaml", strings.ReplaceAll(sitetest.Trips, "listTrips", "allTrips"))
		// Where several toolsets have the document, each looks at it in its own time.
		sitetest.Eventually(t, "the tool to be gone", func() bool { return s.Get("/trips").Status == 403 && s.HasLogged(`"level":"error"`, "list-trips") })
		s.Write("trips.yaml", sitetest.Trips)
		sitetest.Eventually(t, "the tool", func() bool { return s.Get("/trips").Status == 200 })
	})
}

// TestOAgentConcurrent has many clients ask for more than an agent may do.
func TestOAgentConcurrent(t *testing.T) {
	var reached atomic.Int64
	s := sitetest.Guarded(t, sitetest.AgentDocument("desk", `
  list-trips:
    user_identity: false
    input_restriction: {assertion: history._total < 100}
`), "", func(w http.ResponseWriter, r *http.Request) { reached.Add(1) })
	var allowed atomic.Int64
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			for range 4 {
				response, err := http.Get(s.URL + "/trips")
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
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  list-trips:
    input_restriction: {assertion: history._total < 1}
`))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", `route {
		test_user
		oagent DIR/agent.yaml {
			toolset TRIPS
			engagement {http.request.header.X-Engagement}
		}
		reverse_proxy `+sitetest.Upstream(t, sitetest.Echo)+`
	}`)
	ask := func(user, engagement string) int {
		return s.Request("GET", "/trips", "", "X-Test-User", user, "X-Engagement", engagement).Status
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

func TestOAgent_narrowed_lists(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "  list-trips: {user_identity: false}\n  get-trip: {user_identity: false}\n"))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", "mcp TRIPS {\nagent desk\n}\notc TRIPS {\nagent desk\n}\noagent DIR/agent.yaml\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	s.WantTools("listTrips", "getTrip")
	if a := s.Do(s.CallRequest("deleteTrip", `{"id":"1"}`)); !strings.Contains(a.Body, "unknown tool") {
		t.Error(a.Body)
	}
	if a := s.Get("/otc/tools"); strings.Contains(a.Body, "deleteTrip") || !strings.Contains(a.Body, "getTrip") {
		t.Error(a.Body)
	}
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "  delete-trip: {user_identity: false}\n"))
	sitetest.Eventually(t, "the new list", func() bool { names := s.ToolNames(); return len(names) == 1 && names[0] == "deleteTrip" })
	if err := s.Load("agents {\n\tstore bolt DIR/store.db\n}", "mcp TRIPS {\nagent ghost\n}\noagent DIR/agent.yaml\nrespond ok"); err == nil ||
		!testkit.ContainsAll(err.Error(), "ghost desk") {
		t.Errorf("got %v", err)
	}
}

// TestOAgent_document_of_the_site has the document of the API come from behind the
// guard.
func TestOAgent_document_of_the_site(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "  list-trips: {user_identity: false}\n"))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", "mcp /mcp /openapi.json\noagent DIR/agent.yaml\nreverse_proxy "+sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi.json" {
			_, _ = io.WriteString(w, sitetest.Trips)
			return
		}
		sitetest.Echo(w, r)
	}))
	if a := s.Get("/trips"); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := s.Get("/openapi.json"); a.Status != 403 {
		t.Errorf("a visitor gets what no agent may have: %d", a.Status)
	}
	s.Succeed("listTrips", "{}")
	s.Fail("getTrip", `{"id":"1"}`, "capability")
}

func TestOAgent_config_errors(t *testing.T) {
	for name, test := range map[string]struct {
		agent, block string
		want         []string
	}{
		"no such file": {"", "mcp TRIPS\noagent DIR/none.yaml", []string{"none.yaml", "path"}},
		"not an agent": {"kind: other\n", "mcp TRIPS\noagent DIR/agent.yaml", []string{"agent.yaml:1"}},
		"unknown tool": {sitetest.AgentDocument("desk", "  list-trip: {}\n"), "mcp TRIPS\noagent DIR/agent.yaml", []string{"agent.yaml:7", "mean", "list-trips"}},
		"no toolset":   {sitetest.AgentDocument("desk", "  list-trips: {}\n"), "oagent DIR/agent.yaml", []string{"toolset", "toolset openapi.yaml"}},
		"no guard": {
			sitetest.AgentDocument("desk", "  list-trips: {}\n") + "---\n" + sitetest.AgentDocument("helpdesk", "  list-trips: {}\n"), "mcp TRIPS\noagent DIR/agent.yaml",
			[]string{"several agents (desk, helpdesk)", "guard {http.ocp.agent_type}"},
		},
		"a guard that is no agent": {sitetest.AgentDocument("desk", "  list-trips: {}\n"), "mcp TRIPS\noagent DIR/agent.yaml {\nguard dexk\n}", []string{"guard", `"dexk"`, "mean", "desk"}},
		"unknown identity":         {sitetest.AgentDocument("desk", "  list-trips: {static_identity: OP}\n"), "mcp TRIPS\noagent DIR/agent.yaml {\nidentity OPS {\nheader_up A b\n}\n}", []string{"agent.yaml:7", "static_identity", "identity OP;", "mean", "OPS"}},
		"the same twice":           {sitetest.AgentDocument("desk", "  list-trips: {}\n") + "---\n" + sitetest.AgentDocument("desk", "  list-trips: {}\n"), "mcp TRIPS\noagent DIR/agent.yaml", []string{"desk"}},
		"the same in files":        {sitetest.AgentDocument("desk", "  list-trips: {}\n"), "mcp TRIPS\noagent DIR/agent.yaml DIR/copy.yaml", []string{"copy.yaml:1"}},
		"unknown toolset":          {sitetest.AgentDocument("desk", "  list-trips: {}\n"), "oagent DIR/agent.yaml {\ntoolset trips\n}", []string{"toolset", "trips"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			if test.agent != "" {
				s.Write("agent.yaml", test.agent)
				s.Write("copy.yaml", test.agent)
			}
			err := s.Load("", test.block+"\nrespond ok")
			if err == nil || !sitetest.ContainsAll(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
