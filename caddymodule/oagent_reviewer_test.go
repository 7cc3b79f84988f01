package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/freeport"
	"github.com/fairwayhq/fairway/internal/keyword"
)

const askedAgents = `kind: openagentspec:v1/agent
name: desk
description: Works at the desk.
intent: You work.
owner: tests
capabilities:
  list-trips: {}
  create-trip:
    input_restriction: {require_review: supervisor}
  get-trip:
    output_restriction: {require_review: oagent://supervisor}
---
kind: openagentspec:v1/agent
name: supervisor
description: Supervises.
intent: You supervise.
owner: tests
capabilities:
  list-trips: {}
lifespan: {short_circuit: 2}
`

// program is the program of a reviewing agent.
type program struct {
	*httptest.Server
	mu        sync.Mutex
	answer    http.HandlerFunc
	questions []programQuestion
}

// programQuestion is what a program is asked.
type programQuestion struct {
	ID, Reviewer, Status, Side, Rule, Agent, Key, Name, Reviewing, Intent, Location string
	Inputs, Outputs                                                                 json.RawMessage
	User                                                                            struct{ ID string }
	Engagement                                                                      struct {
		StartedAt time.Time                  `json:"started_at"`
		User      struct{ ID string }        `json:"user"`
		Recent    map[string]json.RawMessage `json:"recent"`
		History   map[string]json.RawMessage `json:"history"`
	}
	header http.Header
	query  string
}

func newProgram(t *testing.T, answer http.HandlerFunc) *program {
	t.Helper()
	p := &program{answer: answer}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := programQuestion{header: r.Header, query: r.URL.RawQuery}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Errorf("the question cannot be read: %v", err)
		}
		_, _ = io.Copy(io.Discard, r.Body) // to its end, or the server does not notice who has gone
		p.mu.Lock()
		p.questions = append(p.questions, q)
		answer := p.answer
		p.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *program) says(answer http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// asked returns the questions so far.
func (p *program) asked() []programQuestion {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clip(p.questions)
}

func saying(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const approving = `{"decision":"approve","comment":"all well"}`

// askedSite is a site whose agent supervisor is asked by a program. X-Test-User
// says who one is, and X-Agent and X-Talk which agent and Engagement it is about.
type askedSite struct {
	*site
	program *program
	api     string
	reached atomic.Int64
}

// loggedDeferral waits for the log entry of a review that its agent decides later.
func (s *askedSite) loggedDeferral(review string) {
	s.t.Helper()
	s.logged(`"level":"info"`, `"asked_by":`, `"status":"pending"`, review)
}

// loggedFailure waits for the log entry of a review that its agent could not decide.
func (s *askedSite) loggedFailure(review string, words ...string) {
	s.t.Helper()
	s.logged(append(words, `"level":"warn"`, `"again":`, review)...)
}

const askedGlobal = "agents {\n\tstore bolt DIR/store.db\n\ttoolset trips {\n\t\topenapi TRIPS\n\t}\n\ttoolset checks {\n\t\topenapi DIR/checks.yaml\n\t}\n}\norder test_user before oagent\norder test_pace before oagent"

func newAskedSite(t *testing.T, agents string, wait string, answer http.HandlerFunc) *askedSite {
	t.Helper()
	return newAskedSiteWith(t, "", agents, wait, answer)
}

// newAskedSiteWith is newAskedSite with directives before those of the site.
func newAskedSiteWith(t *testing.T, before, agents, wait string, answer http.HandlerFunc) *askedSite {
	t.Helper()
	t.Setenv("SUPERVISOR_TOKEN", "hunter2")
	s := &askedSite{site: newSite(t), program: newProgram(t, answer)}
	s.api = upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		s.reached.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ok":true}`)
	})
	s.write("agents.yaml", agents)
	s.write("checks.yaml", fmt.Sprintf(checks, "http://127.0.0.1:1"))
	s.start(askedGlobal, before+s.block(wait))
	return s
}

func (s *askedSite) block(wait string) string {
	return s.blockWith(wait, `{
		ask `+s.program.URL+`/ask
		header Authorization "Bearer {env.SUPERVISOR_TOKEN}"
		credential query key {env.SUPERVISOR_TOKEN}
		timeout 5m
	}`)
}

func (s *askedSite) blockWith(wait, reviewer string) string {
	return `test_user
test_pace
oagent DIR/agents.yaml {
	toolset trips
	guard {http.request.header.X-Agent}
	engagement {http.request.header.X-Talk}
	review_wait ` + wait + `
	engagements /engagements
	reviews /reviews
	auditors auditor
	reviewer supervisor robot ` + reviewer + `
}
reverse_proxy ` + s.api
}

func (s *askedSite) by(user, agent, talk, method, path, body string) answer {
	s.t.Helper()
	return s.request(method, path, body, "X-Test-User", user, "X-Agent", agent, "X-Talk", talk)
}

func (s *askedSite) create(to string) answer {
	s.t.Helper()
	return s.by("alice", "desk", "t1", "POST", "/trips", fmt.Sprintf(`{"to":%q}`, to))
}

// pending makes a call that has to wait, and returns its review.
func (s *askedSite) pending(to string) string {
	s.t.Helper()
	p := s.problem(s.create(to))
	if p.Kind != "review_pending" {
		s.t.Fatalf("problem %+v", p)
	}
	return p.Review
}

// passes waits until the call passes.
func (s *askedSite) passes(to string) {
	s.t.Helper()
	eventually(s.t, "the call passes", func() bool { return s.create(to).status == 200 })
}

// TestReviewerAsked asks the program of an agent for a call that waits.
func TestReviewerAsked(t *testing.T) {
	s := newAskedSite(t, askedAgents, "30s", saying(200, approving))
	if a := s.create("Bern"); a.status != 200 || s.reached.Load() != 1 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	q := s.program.asked()[0]
	if q.ID == "" || q.Reviewer != "supervisor" || q.Status != "pending" || q.Side != "input" || q.Rule != "capabilities.create-trip.input_restriction.require_review" ||
		q.Agent != "desk" || q.Name != "create-trip" || q.User.ID != "alice" || string(q.Inputs) != `{"to":"Bern"}` || q.Intent != "You supervise." ||
		q.Reviewing != "review-"+q.Key || q.Location != "/reviews/"+q.ID {
		t.Errorf("%+v", q)
	}
	if e := q.Engagement; e.User.ID != "alice" || e.StartedAt.IsZero() || string(e.Recent["create-trip"]) != `{"inputs":{"to":"Bern"},"outputs":null}` || string(e.History["_total"]) != "0" {
		t.Errorf("%+v", e)
	}
	if q.header.Get("Authorization") != "Bearer hunter2" || q.query != "key=hunter2" || q.header.Get("Content-Type") != "application/json" {
		t.Errorf("%v %s", q.header, q.query)
	}
	if a := s.by("alice", "desk", "t1", "GET", "/trips/7", ""); a.status != 200 || a.body != `{"ok":true}` {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if q = s.program.asked()[1]; q.Side != "output" || string(q.Outputs) != `{"ok":true}` || string(q.Engagement.History["_total"]) != "2" {
		t.Errorf("%+v", q)
	}

	t.Run("denies", func(t *testing.T) {
		s := &askedSite{site: s.with(t), program: s.program}
		s.program.says(saying(200, `{"comment":"not to Basel","decision":"deny"}`))
		if p := s.problem(s.create("Basel")); p.Kind != "review_denied" || !strings.Contains(p.Detail, "not to Basel") {
			t.Errorf("%+v", p)
		}
	})
	t.Run("the record", func(t *testing.T) {
		s := s.with(t)
		type page struct {
			Entries []struct{ What, Agent, Engagement, Name, Review, Verdict, Comment, Side string }
		}
		path := "/engagements/" + q.Reviewing
		read := decode[page](t, s.request("GET", path+"/audit", "", "X-Test-User", "robot"))
		whats := ""
		for _, e := range read.Entries {
			whats += e.What + ":" + e.Side + e.Verdict + e.Comment + " "
			if e.Agent != "desk" || e.Engagement != q.Key || e.Review == "" {
				t.Errorf("%+v", e)
			}
		}
		if wanted := "question:input decision:inputapprovedall well question:output decision:outputapprovedall well question:input decision:inputdeniednot to Basel "; whats != wanted {
			t.Errorf("got %s\nwant %s", whats, wanted)
		}
		state := decode[struct {
			Key, OAgent, Reviewed string
			User                  struct{ ID string }
		}](t, s.request("GET", path, "", "X-Test-User", "robot"))
		if state.OAgent != "supervisor" || state.Reviewed != q.Key || state.User.ID != "alice" {
			t.Errorf("%+v", state)
		}
		for user, wanted := range map[string]int{"alice": 404, "bob": 404, "supervisor": 404, "auditor": 200, "robot": 200} {
			for _, agent := range []string{"", "desk", "supervisor"} {
				for _, p := range []string{"/engagements/" + state.Key, "/engagements/" + state.Key + "/audit"} {
					if a := s.request("GET", p, "", "X-Test-User", user, "X-Agent", agent); a.status != wanted {
						t.Errorf("%s as %s reads %s: %d", user, agent, p, a.status)
					}
				}
			}
			if wanted == 404 {
				if a := s.request("GET", path, "", "X-Test-User", user, "X-Agent", "supervisor"); a.status != 404 {
					t.Errorf("%s: %d %s", user, a.status, a.body)
				}
			}
		}
	})
	s.logged(`"level":"info"`, `"asked_by":"desk"`, `"status":"approved"`)
	if strings.Contains(s.log(), "hunter2") {
		t.Error("a credential is in the log")
	}
}

// TestReviewerDecidesLater has a program answer that it will decide by itself.
func TestReviewerDecidesLater(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{"202": saying(202, "ignored"), "pending": saying(200, `{"decision":"pending"}`)} {
		t.Run(name, func(t *testing.T) {
			s := newAskedSite(t, askedAgents, "off", answer)
			id := s.pending("Bern")
			s.loggedDeferral(id)
			path := "/reviews/" + id
			shown := decode[programQuestion](t, s.by("robot", "supervisor", "", "GET", path, ""))
			if shown.ID != id || shown.Intent != "You supervise." || shown.Reviewing != "review-"+shown.Key || string(shown.Engagement.History["_total"]) != "0" {
				t.Errorf("%+v", shown)
			}
			for _, who := range [][2]string{{"alice", "supervisor"}, {"supervisor", "supervisor"}, {"supervisor", ""}, {"robot", "desk"}, {"robot", ""}, {"auditor", "supervisor"}, {"oagent://supervisor", "supervisor"}} {
				for _, talk := range []string{"", shown.Reviewing} {
					if a := s.by(who[0], who[1], talk, "POST", path, `{"decision":"approve"}`); a.status != 404 {
						t.Errorf("%v %s: %d %s", who, talk, a.status, a.body)
					}
				}
			}
			s.pending("Bern")
			if a := s.by("robot", "supervisor", shown.Reviewing, "POST", path, approving); a.status != 200 {
				t.Fatalf("%d %s", a.status, a.body)
			}
			s.passes("Bern")
			if n := len(s.program.asked()); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// TestReviewerSlow has a program think for longer than a call waits.
func TestReviewerSlow(t *testing.T) {
	thought := make(chan struct{})
	s := newAskedSite(t, askedAgents, "off", func(w http.ResponseWriter, _ *http.Request) {
		<-thought
		_, _ = io.WriteString(w, approving)
	})
	id := s.pending("Bern")
	eventually(t, "it is asked", func() bool { return len(s.program.asked()) == 1 })
	if again := s.pending("Bern"); again != id {
		t.Errorf("an identical call is review %s", again)
	}
	close(thought)
	s.passes("Bern")
	if n := len(s.program.asked()); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// TestReviewerUnclear has a program answer what decides nothing. It is asked again,
// and the review stays.
func TestReviewerUnclear(t *testing.T) {
	redirected := newProgram(t, saying(200, approving))
	gone := make(chan struct{})
	leave := sync.OnceFunc(func() { close(gone) })
	for name, answer := range map[string]http.HandlerFunc{
		"no JSON":    saying(200, "approve"),
		"too large":  saying(200, approving+strings.Repeat(" ", 64<<10)),
		"an error":   saying(500, approving),
		"created":    saying(201, approving),
		"a redirect": http.RedirectHandler(redirected.URL, http.StatusTemporaryRedirect).ServeHTTP,
		"a broken answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, approving)
		},
		"no answer in time": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done(); leave() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newAskedSite(t, askedAgents, "off", answer)
			if strings.HasSuffix(name, "in time") {
				if err := s.load(askedGlobal, s.blockWith("off", "{\n\task "+s.program.URL+"?key=hunter2\n\ttimeout 300ms\n}")); err != nil {
					t.Fatal(err)
				}
			}
			id := s.pending("Bern")
			s.loggedFailure(id)
			s.pending("Bern")
			if strings.HasSuffix(name, "in time") {
				await(t, "the request is given up", gone)
			}
			s.program.says(saying(200, approving))
			if strings.HasSuffix(name, "in time") {
				if err := s.load(askedGlobal, s.block("off")); err != nil { // with time enough
					t.Fatal(err)
				}
			}
			s.passes("Bern")
			for _, q := range s.program.asked() {
				if q.ID != id {
					t.Errorf("asked about %s, want %s", q.ID, id)
				}
			}
			if strings.Contains(s.log(), "hunter2") {
				t.Error("a credential is in the log")
			}
		})
	}
	if len(redirected.asked()) != 0 {
		t.Error("a redirect was followed")
	}
}

// TestReviewerQuotesNothing wants nothing in the log of what an address or an answer
// has in it, however broken that is.
func TestReviewerQuotesNothing(t *testing.T) {
	for name, reply := range map[string]string{
		"a redirect to nowhere": "HTTP/1.1 307 Go\r\nLocation: http://[?key=hunter2\r\nContent-Length: 0\r\n\r\n",
		"no HTTP":               "hunter2\r\n\r\n",
		"a broken header":       "HTTP/1.1 200 OK\r\nhunter2\r\n\r\n",
		"a broken chunk":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhunter2\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := newAskedSite(t, askedAgents, "off", func(w http.ResponseWriter, _ *http.Request) {
				c, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				_, _ = io.WriteString(c, reply)
			})
			id := s.pending("Bern")
			s.loggedFailure(id)
			if strings.Contains(s.log(), "hunter2") {
				t.Errorf("the log quotes it: %s", s.log())
			}
		})
	}
}

// TestReviewerFailedStart wants a configuration that does not start to leave no goroutine
// who asks.
func TestReviewerFailedStart(t *testing.T) {
	s := newAskedSite(t, askedAgents, "off", saying(202, ""))
	eventually(t, "one asker", func() bool { return askers() == 1 })
	for range 3 {
		if err := s.load(askedGlobal, "mcp /mcp trips {\n\tagent ghost\n}\n"+s.block("off")); err == nil || !strings.Contains(err.Error(), "ghost") {
			t.Fatalf("error %v", err)
		}
	}
	s.pending("Bern")
	s.loggedDeferral("")
	if n := askers(); n != 1 {
		t.Errorf("%d ask", n)
	}
}

// TestReviewerIsGone wants no agent to be called while the document of the agent is
// gone, and no try to be spent: another site may have it.
func TestReviewerIsGone(t *testing.T) {
	agents := strings.Replace(askedAgents, "review: supervisor", "review: oagent://supervisor", 1)
	s := newAskedSite(t, agents, "off", saying(200, approving))
	s.write("agents.yaml", strings.Split(agents, "---\n")[0])
	eventually(t, "the agent is gone", func() bool {
		return strings.Contains(s.by("alice", "supervisor", "gone", "GET", "/trips", "").body, "unknown_agent")
	})
	s.pending("Bern")
	s.write("agents.yaml", agents)
	s.passes("Bern")
	if strings.Contains(s.log(), `"again":`) {
		t.Error("it was tried")
	}
}

// TestReviewerAway has no program at the configured URL, and no credential.
func TestReviewerAway(t *testing.T) {
	s := newAskedSite(t, askedAgents, "off", saying(200, approving))
	untrusted := httptest.NewUnstartedServer(saying(200, approving))
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	defer untrusted.Close()
	for what, reviewer := range map[string]string{
		"certificate":        "{\n\task " + untrusted.URL + "/?key=hunter2\n}",
		"TLS":                "{\n\task https" + strings.TrimPrefix(s.program.URL, "http") + "/?key=hunter2\n}",
		"connection refused": "{\n\task http://127.0.0.1:1/?key=hunter2\n\tcredential query token hunter2\n}",
		"env.NOWHERE":        "{\n\task " + s.program.URL + "\n\theader Authorization {env.NOWHERE}\n}",
	} {
		if err := s.load(askedGlobal, s.blockWith("off", reviewer)); err != nil {
			t.Fatal(err)
		}
		s.loggedFailure(s.pending("to "+what), what)
	}
	if strings.Contains(s.log(), "hunter2") || len(s.program.asked()) != 0 {
		t.Error("a credential is in the log, or a question was asked without one")
	}
}

// TestReviewerAskedOnce has many clients wait, on two sites that share a store.
func TestReviewerAskedOnce(t *testing.T) {
	s := newAskedSite(t, askedAgents, "off", saying(202, ""))
	other := *s.site
	other.port = freeport.Find(t)
	other.url = fmt.Sprintf("http://127.0.0.1:%d", other.port)
	block := s.block("30s")
	if err := s.load(askedGlobal, block+fmt.Sprintf("\n}\nhttp://127.0.0.1:%d {\n", other.port)+block); err != nil {
		t.Fatal(err)
	}
	const clients = 8
	var passed atomic.Int64
	var all sync.WaitGroup
	release := make(chan struct{})
	s.program.says(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = io.WriteString(w, approving)
	})
	for i := range clients {
		at := &askedSite{site: s.site}
		if i%2 == 1 {
			at.site = &other
		}
		all.Go(func() {
			if a := at.create("Bern"); a.status == 200 {
				passed.Add(1)
			}
		})
	}
	eventually(t, "the program is asked", func() bool { return len(s.program.asked()) == 1 })
	close(release)
	all.Wait()
	asked := make(map[string]bool)
	for _, q := range s.program.asked() {
		if asked[q.ID] {
			t.Errorf("%s is asked about twice", q.ID)
		}
		asked[q.ID] = true
	}
	if n := passed.Load(); n != clients || s.reached.Load() != clients || len(asked) != clients {
		t.Errorf("%d passed, %d reached the API, %d questions", n, s.reached.Load(), len(asked))
	}
}

// TestReviewerReload reloads the configuration while a question is out.
func TestReviewerReload(t *testing.T) {
	gone := make(chan struct{})
	s := newAskedSite(t, askedAgents, "off", func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(gone)
	})
	id := s.pending("Bern")
	eventually(t, "it is asked", func() bool { return len(s.program.asked()) == 1 })
	s.program.says(saying(202, ""))
	if err := s.load(askedGlobal, s.block("off")); err != nil {
		t.Fatal(err)
	}
	await(t, "the question is broken off", gone)
	s.loggedDeferral(id)
	if asked := s.program.asked(); len(asked) != 2 || asked[1].ID != id {
		t.Errorf("asked %d times", len(asked))
	}
	s.pending("Bern")
	if a := s.by("robot", "supervisor", "", "POST", "/reviews/"+id+"/approve", "{}"); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	s.passes("Bern")
	eventually(t, "one asker", func() bool { return askers() == 1 })
	if err := s.load(askedGlobal, s.blockWith("off", "")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no asker", func() bool { return askers() == 0 })
}

// askers counts goroutines that ask.
func askers() int {
	var stacks strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2)
	return strings.Count(stacks.String(), "reviewers.(*dispatcher).run(")
}

// TestReviewerEnded has the agent's own Engagement end while it has a question.
func TestReviewerEnded(t *testing.T) {
	s := newAskedSite(t, askedAgents, "off", saying(202, ""))
	id := s.pending("Bern")
	eventually(t, "it is asked", func() bool { return len(s.program.asked()) == 1 })
	own := s.program.asked()[0].Reviewing
	for i, wanted := range []int{200, 403} {
		if a := s.by("robot", "supervisor", own, "GET", "/trips", ""); a.status != wanted {
			t.Fatalf("call %d: %d %s", i, a.status, a.body)
		}
	}
	for _, talk := range []string{own, "another"} {
		for _, path := range []string{"/reviews/" + id + "/approve"} {
			if a := s.by("robot", "supervisor", talk, "POST", path, "{}"); a.status == 200 || talk == own && !strings.Contains(a.body, "lifespan.short_circuit") {
				t.Errorf("%s: %d %s", talk, a.status, a.body)
			}
		}
	}
	for _, to := range []string{"Bern", "Basel"} {
		if p := s.problem(s.create(to)); p.Kind != "review_denied" || !containsAll(p.Detail, []string{"supervisor", "Engagement", "lifespan.short_circuit"}) {
			t.Errorf("%s: %+v", to, p)
		}
	}
	if p := s.problem(s.by("alice", "desk", "t2", "POST", "/trips", `{"to":"Bern"}`)); p.Kind != "review_pending" {
		t.Errorf("another Engagement: %+v", p)
	}
}

// TestReviewerGuardrails has guardrails look at what the agent is asked and says.
func TestReviewerGuardrails(t *testing.T) {
	checker := newChecker(t)
	agents := askedAgents + "guardrails:\n  input: {tool_name: check-input, assertion: output.safe}\n  output: {tool_name: check-output, assertion: output.safe}\n"
	start := func(t *testing.T, reviewer string, answer http.HandlerFunc) *askedSite {
		s := newAskedSite(t, strings.Replace(agents, "short_circuit: 2", "short_circuit: 9", 1), "30s", answer)
		s.write("checks.yaml", fmt.Sprintf(checks, checker.URL))
		block := s.block("30s")
		if reviewer != "asked" {
			block = s.blockWith("off", "")
		}
		if err := s.load(askedGlobal, block); err != nil {
			t.Fatal(err)
		}
		checker.asked()
		checker.down.Store(false)
		return s
	}
	t.Run("all well", func(t *testing.T) {
		s := start(t, "asked", saying(200, approving))
		if a := s.create("Bern"); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		if asked := checker.asked(); !containsAll(asked, []string{`/in {`, `"to":"Bern"`, "|/out all well"}) {
			t.Error(asked)
		}
	})
	t.Run("the question", func(t *testing.T) {
		s := start(t, "asked", saying(200, approving))
		if p := s.problem(s.create("forbidden")); p.Kind != "review_denied" || !strings.Contains(p.Detail, "guardrails.input") {
			t.Errorf("%+v", p)
		}
		if len(s.program.asked()) != 0 {
			t.Error("the program was asked")
		}
	})
	t.Run("the comment", func(t *testing.T) {
		s := start(t, "asked", saying(200, `{"decision":"approve","comment":"forbidden"}`))
		if p := s.problem(s.create("Bern")); p.Kind != "review_denied" || !strings.Contains(p.Detail, "guardrails.output") {
			t.Errorf("%+v", p)
		}
		if s.reached.Load() != 0 {
			t.Error("the API was called")
		}
	})
	t.Run("the tool is away", func(t *testing.T) {
		s := start(t, "asked", saying(200, approving))
		checker.down.Store(true)
		done := make(chan answer, 1)
		go func() { done <- s.create("Bern") }()
		s.loggedFailure("")
		checker.down.Store(false)
		if a := <-done; a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("read over HTTP", func(t *testing.T) {
		s := start(t, "reading", nil)
		id := s.pending("Bern")
		checker.down.Store(true)
		if a := s.by("robot", "supervisor", "", "GET", "/reviews/"+id, ""); a.status != 503 || a.header.Get("Retry-After") == "" || strings.Contains(a.body, "Bern") {
			t.Errorf("%d %s", a.status, a.body)
		}
		checker.down.Store(false)
		if a := s.by("robot", "supervisor", "", "GET", "/reviews/"+id, ""); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
		evil := s.pending("forbidden")
		if a := s.by("robot", "supervisor", "", "GET", "/reviews/"+evil, ""); a.status != 403 || strings.Contains(a.body, "forbidden") {
			t.Errorf("%d %s", a.status, a.body)
		}
		if a := s.by("robot", "supervisor", "", "POST", "/reviews/"+id, `{"decision":"approve","comment":"well"}`); a.status != 403 {
			t.Errorf("it decides after its Engagement has ended: %d %s", a.status, a.body)
		}
		if p := s.problem(s.create("Bern")); p.Kind != "review_denied" {
			t.Errorf("%+v", p)
		}
	})
	t.Run("by other ways", func(t *testing.T) {
		s := start(t, "reading", nil)
		id := s.pending("forbidden")
		path := "/reviews/" + id
		if a := s.by("robot", "supervisor", "", "POST", path, `{"decision":"deny"}`); a.status != 200 || !strings.Contains(a.body, `"denied"`) || strings.Contains(a.body, "forbidden") {
			t.Errorf("it decides: %d %s", a.status, a.body)
		}
		key := decode[programQuestion](t, s.by("robot", "supervisor", "", "POST", path, `{"decision":"deny"}`)).Key
		record := "/engagements/review-" + key + "/audit"
		a := s.by("robot", "supervisor", "", "GET", record, "")
		if a.status != 200 || !strings.Contains(a.body, `"question"`) || strings.Contains(a.body, "forbidden") {
			t.Errorf("it reads the record: %d %s", a.status, a.body)
		}
		own := decode[struct{ Engagement string }](t, a)
		for _, path := range []string{"/engagements/" + own.Engagement + "/audit", record} {
			if a := s.by("auditor", "", "", "GET", path, ""); !strings.Contains(a.body, "forbidden") {
				t.Errorf("an auditor reads the record at %s: %d %s", path, a.status, a.body)
			}
			if a := s.by("alice", "desk", "", "GET", path, ""); a.status != 404 {
				t.Errorf("the user reads the record at %s: %d %s", path, a.status, a.body)
			}
		}
		if a := s.by("robot", "supervisor", "", "GET", path, ""); a.status != 403 || strings.Contains(a.body, "forbidden") {
			t.Errorf("it reads what it has decided: %d %s", a.status, a.body)
		}
		if a := s.by("robot", "supervisor", "", "GET", path, ""); a.status != 403 || strings.Contains(a.body, "forbidden") {
			t.Errorf("it reads it again: %d %s", a.status, a.body)
		}
	})
	t.Run("a comment over HTTP", func(t *testing.T) {
		s := start(t, "reading", nil)
		id := s.pending("Bern")
		if a := s.by("robot", "supervisor", "", "POST", "/reviews/"+id, `{"decision":"approve","comment":"forbidden"}`); a.status != 403 {
			t.Errorf("%d %s", a.status, a.body)
		}
		if p := s.problem(s.create("Bern")); p.Kind != "review_denied" || !strings.Contains(p.Detail, "guardrails.output") {
			t.Errorf("%+v", p)
		}
	})
}

// TestReviewShowsEngagement has a user review what an agent does.
func TestReviewShowsEngagement(t *testing.T) {
	s := newAskedSite(t, strings.Replace(askedAgents, "require_review: supervisor}", "require_review: boss}", 1), "off", saying(200, approving))
	if a := s.by("alice", "desk", "t1", "GET", "/trips", ""); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	id := s.pending("Bern")
	a := s.by("boss", "", "", "GET", "/reviews/"+id, "")
	shown := decode[programQuestion](t, a)
	if e := shown.Engagement; e.User.ID != "alice" || string(e.History["_list"]) != `["list-trips"]` || string(e.History["list-trips"]) != `[{"inputs":{},"outputs":{"ok":true}}]` ||
		string(e.Recent["create-trip"]) != `{"inputs":{"to":"Bern"},"outputs":null}` || string(e.Recent["_name"]) != `"list-trips"` {
		t.Errorf("%s", a.body)
	}
	if shown.Intent != "" || shown.Reviewing != "" || strings.Contains(a.body, "reviewer_agent") {
		t.Errorf("a user is taken for an agent: %s", a.body)
	}
	if len(s.program.asked()) != 0 {
		t.Error("an agent is asked")
	}
}

// TestReviewPages reads the list of reviews page by page.
func TestReviewPages(t *testing.T) {
	s := newAskedSite(t, askedAgents, "off", nil)
	if err := s.load(askedGlobal, s.blockWith("off", "")); err != nil {
		t.Fatal(err)
	}
	var asked []string
	for i := range 7 {
		asked = append(asked, s.pending(fmt.Sprint("trip ", i)))
	}
	type page struct {
		Reviews []struct {
			ID, Location, Name string
			Inputs             json.RawMessage
		}
		Next string
	}
	seen := make(map[string]bool)
	pages := 0
	for next := "/reviews?limit=3"; next != ""; pages++ {
		p := decode[page](t, s.by("robot", "supervisor", "", "GET", next, ""))
		for _, r := range p.Reviews {
			if seen[r.ID] || r.Location != "/reviews/"+r.ID || r.Name != "create-trip" || !strings.HasPrefix(string(r.Inputs), `{"to":"trip `) {
				t.Errorf("%+v", r)
			}
			seen[r.ID] = true
		}
		next = p.Next
		if pages == 0 { // the page goes on although its end is decided
			if a := s.by("robot", "supervisor", "", "POST", "/reviews/"+p.Reviews[2].ID+"/deny", "{}"); a.status != 200 {
				t.Errorf("%d %s", a.status, a.body)
			}
		}
	}
	if len(seen) != len(asked) || pages != 3 {
		t.Errorf("%d reviews in %d pages", len(seen), pages)
	}
	if p := decode[page](t, s.by("robot", "supervisor", "", "GET", "/reviews", "")); len(p.Reviews) != 6 || p.Next != "" {
		t.Errorf("%+v", p)
	}
	for _, query := range []string{"?limit=-1", "?limit=1001", "?limit=x", "?after=x", "?after=.x", "?after=1"} {
		if a := s.by("robot", "supervisor", "", "GET", "/reviews"+query, ""); a.status != 400 {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
}

func TestReviewerConfig(t *testing.T) {
	for name, test := range map[string]struct{ subdirective, want, line string }{
		"no agent":           {"reviewer", "reviewer agent", ":3"},
		"no reviewer":        {"reviewer a", "program block", ":3"},
		"twice":              {"reviewer a b\n\t\treviewer a c", "reviewer a twice", ":4"},
		"a block without it": {"reviewer a b {\n\t\t\ttimeout 3s\n\t\t}", "block ask", ":5"},
		"ask twice":          {"reviewer a {\n\t\t\task http://a\n\t\t\task http://b\n\t\t}", "ask twice", ":5"},
		"no URL":             {"reviewer a {\n\t\t\task supervisor\n\t\t}", "https://", ":4"},
		"another scheme":     {"reviewer a {\n\t\t\task ftp://b\n\t\t}", "https://", ":4"},
		"a user in the URL":  {"reviewer a {\n\t\t\task http://u:hunter2@b\n\t\t}", "credential basic", ":4"},
		"no timeout":         {"reviewer a {\n\t\t\task http://a\n\t\t\ttimeout off\n\t\t}", "duration", ":5"},
		"header":             {"reviewer a {\n\t\t\task http://a\n\t\t\theader X\n\t\t}", "header value", ":5"},
		"header twice":       {"reviewer a {\n\t\t\task http://a\n\t\t\theader X hunter2\n\t\t\tcredential header x b\n\t\t}", "twice", ":6"},
		"unknown":            {"reviewer a {\n\t\t\task http://a\n\t\t\tretries 3\n\t\t}", "unrecognized reviewer retries", ":5"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := adapt("http://a.test {\n\toagent a.yaml {\n\t\t" + test.subdirective + "\n\t}\n}")
			if err == nil || !keyword.All(err.Error(), test.want) || !strings.Contains(err.Error(), "Caddyfile"+test.line) {
				t.Errorf("got %v, want %q and line %s", err, test.want, test.line)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Error("a secret is in the error")
			}
		})
	}
	for name, test := range map[string]struct{ reviewer, want string }{
		"a timeout of an hour": {"{\n\task http://a\n\ttimeout 1h\n}", "at most 10m0s"},
		"a URL of nothing":     {"{\n\task {env.NOWHERE}\n}", "https://"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &askedSite{site: newSite(t), api: "127.0.0.1:1"}
			s.write("agents.yaml", askedAgents)
			s.write("checks.yaml", fmt.Sprintf(checks, "http://127.0.0.1:1"))
			err := s.load(askedGlobal, s.blockWith("off", test.reviewer))
			t.Cleanup(func() { _ = caddy.Stop() })
			if err == nil || !keyword.All(err.Error(), test.want) || !strings.Contains(err.Error(), "reviewer supervisor") {
				t.Errorf("error %v", err)
			}
		})
	}
}
