package reviewers_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// loggedDeferral waits for the log entry of a review that its agent decides later.
func loggedDeferral(s *sitetest.AskedSite, review string) {
	s.T.Helper()
	s.Logged(`"level":"info"`, `"asked_by":`, `"status":"pending"`, review)
}

// loggedFailure waits for the log entry of a review that its agent could not decide.
func loggedFailure(s *sitetest.AskedSite, review string, words ...string) {
	s.T.Helper()
	s.Logged(append(words, `"level":"warn"`, `"again":`, review)...)
}

// pending makes a call that has to wait, and returns its review.
func pending(s *sitetest.AskedSite, to string) string {
	s.T.Helper()
	p := s.Problem(s.Create(to))
	if p.Kind != "review_pending" {
		s.T.Fatalf("problem %+v", p)
	}
	return p.Review
}

// passes waits until the call passes.
func passes(s *sitetest.AskedSite, to string) {
	s.T.Helper()
	sitetest.Eventually(s.T, "the call passes", func() bool { return s.Create(to).Status == 200 })
}

// TestReviewerAsked asks the program of an agent for a call that waits.
func TestReviewerAsked(t *testing.T) {
	s := sitetest.NewAskedSite(t, sitetest.AskedAgents, "30s", sitetest.Saying(200, sitetest.Approving))
	if a := s.Create("Bern"); a.Status != 200 || s.Reached.Load() != 1 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	q := s.Program.Asked()[0]
	got := [...]string{q.Reviewer, q.Status, q.Side, q.Rule, q.Agent, q.Name, q.User.ID, string(q.Inputs), q.Intent, q.Reviewing, q.Location}
	if want := [...]string{
		"supervisor", "pending", "input", "capabilities.create-trip.input_restriction.require_review", "desk", "create-trip", "alice", `{"to":"Bern"}`, "You supervise.",
		"review-" + q.Key, "/reviews/" + q.ID,
	}; q.ID == "" || got != want {
		t.Errorf("got the review %q\n%q, want\n%q", q.ID, got, want)
	}
	e := q.Engagement
	if e.User.ID != "alice" || e.StartedAt.IsZero() {
		t.Errorf("got the user %q and the start %s, want alice and a time", e.User.ID, e.StartedAt)
	}
	if recent, total := string(e.Recent["create-trip"]), string(e.History["_total"]); recent != `{"inputs":{"to":"Bern"},"outputs":null}` || total != "0" {
		t.Errorf("got the call %s after %s calls, want it without outputs after 0", recent, total)
	}
	if q.Header.Get("Authorization") != "Bearer hunter2" || q.Query != "key=hunter2" || q.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%v %s", q.Header, q.Query)
	}
	if a := s.By("alice", "desk", "t1", "GET", "/trips/7", ""); a.Status != 200 || a.Body != `{"ok":true}` {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if q = s.Program.Asked()[1]; q.Side != "output" || string(q.Outputs) != `{"ok":true}` || string(q.Engagement.History["_total"]) != "2" {
		t.Errorf("%+v", q)
	}

	t.Run("denies", func(t *testing.T) {
		s := &sitetest.AskedSite{Site: s.With(t), Program: s.Program}
		s.Program.Says(sitetest.Saying(200, `{"comment":"not to Basel","decision":"deny"}`))
		if p := s.Problem(s.Create("Basel")); p.Kind != "review_denied" || !strings.Contains(p.Detail, "not to Basel") {
			t.Errorf("%+v", p)
		}
	})
	t.Run("the record", func(t *testing.T) {
		s := s.With(t)
		type page struct {
			Entries []struct{ What, Agent, Engagement, Name, Review, Verdict, Comment, Side string }
		}
		path := "/engagements/" + q.Reviewing
		read := sitetest.Decode[page](t, s.Request("GET", path+"/audit", "", "X-Test-User", "robot"))
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
		state := sitetest.Decode[struct {
			Key, OAgent, Reviewed string
			User                  struct{ ID string }
		}](t, s.Request("GET", path, "", "X-Test-User", "robot"))
		if state.OAgent != "supervisor" || state.Reviewed != q.Key || state.User.ID != "alice" {
			t.Errorf("%+v", state)
		}
		for user, wanted := range map[string]int{"alice": 404, "bob": 404, "supervisor": 404, "auditor": 200, "robot": 200} {
			for _, agent := range []string{"", "desk", "supervisor"} {
				for _, p := range []string{"/engagements/" + state.Key, "/engagements/" + state.Key + "/audit"} {
					if a := s.Request("GET", p, "", "X-Test-User", user, "X-Agent", agent); a.Status != wanted {
						t.Errorf("%s as %s reads %s: %d", user, agent, p, a.Status)
					}
				}
			}
			if wanted == 404 {
				if a := s.Request("GET", path, "", "X-Test-User", user, "X-Agent", "supervisor"); a.Status != 404 {
					t.Errorf("%s: %d %s", user, a.Status, a.Body)
				}
			}
		}
	})
	s.Logged(`"level":"info"`, `"asked_by":"desk"`, `"status":"approved"`)
	if strings.Contains(s.Log(), "hunter2") {
		t.Error("a credential is in the log")
	}
}

// TestReviewer_decides_later has a program answer that it will decide by itself.
func TestReviewer_decides_later(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{"202": sitetest.Saying(202, "ignored"), "pending": sitetest.Saying(200, `{"decision":"pending"}`)} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewAskedSite(t, sitetest.AskedAgents, "off", answer)
			id := pending(s, "Bern")
			loggedDeferral(s, id)
			path := "/reviews/" + id
			shown := sitetest.Decode[sitetest.ProgramQuestion](t, s.By("robot", "supervisor", "", "GET", path, ""))
			got := [...]string{shown.ID, shown.Intent, shown.Reviewing, string(shown.Engagement.History["_total"])}
			if want := [...]string{id, "You supervise.", "review-" + shown.Key, "0"}; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			for _, who := range [][2]string{{"alice", "supervisor"}, {"supervisor", "supervisor"}, {"supervisor", ""}, {"robot", "desk"}, {"robot", ""}, {"auditor", "supervisor"}, {"oagent://supervisor", "supervisor"}} {
				for _, talk := range []string{"", shown.Reviewing} {
					if a := s.By(who[0], who[1], talk, "POST", path, `{"decision":"approve"}`); a.Status != 404 {
						t.Errorf("%v %s: %d %s", who, talk, a.Status, a.Body)
					}
				}
			}
			pending(s, "Bern")
			if a := s.By("robot", "supervisor", shown.Reviewing, "POST", path, sitetest.Approving); a.Status != 200 {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			passes(s, "Bern")
			if n := len(s.Program.Asked()); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// TestReviewerSlow has a program think for longer than a call waits.
func TestReviewerSlow(t *testing.T) {
	thought := make(chan struct{})
	s := sitetest.NewAskedSite(t, sitetest.AskedAgents, "off", func(w http.ResponseWriter, _ *http.Request) {
		<-thought
		_, _ = io.WriteString(w, sitetest.Approving)
	})
	id := pending(s, "Bern")
	sitetest.Eventually(t, "it is asked", func() bool { return len(s.Program.Asked()) == 1 })
	if again := pending(s, "Bern"); again != id {
		t.Errorf("an identical call is review %s", again)
	}
	close(thought)
	passes(s, "Bern")
	if n := len(s.Program.Asked()); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// TestReviewerUnclear has a program answer what decides nothing. It is asked again,
// and the review stays.
func TestReviewerUnclear(t *testing.T) {
	redirected := sitetest.NewProgram(t, sitetest.Saying(200, sitetest.Approving))
	gone := make(chan struct{})
	leave := sync.OnceFunc(func() { close(gone) })
	for name, answer := range map[string]http.HandlerFunc{
		"no JSON":    sitetest.Saying(200, "approve"),
		"too large":  sitetest.Saying(200, sitetest.Approving+strings.Repeat(" ", 64<<10)),
		"an error":   sitetest.Saying(500, sitetest.Approving),
		"created":    sitetest.Saying(201, sitetest.Approving),
		"a redirect": http.RedirectHandler(redirected.URL, http.StatusTemporaryRedirect).ServeHTTP,
		"a broken answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, sitetest.Approving)
		},
		"no answer in time": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done(); leave() },
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewAskedSite(t, sitetest.AskedAgents, "off", answer)
			if strings.HasSuffix(name, "in time") {
				if err := s.Load(sitetest.AskedGlobal, s.BlockWith("off", "{\n\task "+s.Program.URL+"?key=hunter2\n\ttimeout 300ms\n}")); err != nil {
					t.Fatal(err)
				}
			}
			id := pending(s, "Bern")
			loggedFailure(s, id)
			pending(s, "Bern")
			if strings.HasSuffix(name, "in time") {
				sitetest.Await(t, "the request is given up", gone)
			}
			s.Program.Says(sitetest.Saying(200, sitetest.Approving))
			if strings.HasSuffix(name, "in time") {
				if err := s.Load(sitetest.AskedGlobal, s.Block("off")); err != nil { // with time enough
					t.Fatal(err)
				}
			}
			passes(s, "Bern")
			for _, q := range s.Program.Asked() {
				if q.ID != id {
					t.Errorf("asked about %s, want %s", q.ID, id)
				}
			}
			if strings.Contains(s.Log(), "hunter2") {
				t.Error("a credential is in the log")
			}
		})
	}
	if len(redirected.Asked()) != 0 {
		t.Error("a redirect was followed")
	}
}

// TestReviewer_quotes_nothing wants nothing in the log of what an address or an answer
// has in it, however broken that is.
func TestReviewer_quotes_nothing(t *testing.T) {
	for name, reply := range map[string]string{
		"a redirect to nowhere": "HTTP/1.1 307 Go\r\nLocation: http://[?key=hunter2\r\nContent-Length: 0\r\n\r\n",
		"no HTTP":               "hunter2\r\n\r\n",
		"a broken header":       "HTTP/1.1 200 OK\r\nhunter2\r\n\r\n",
		"a broken chunk":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhunter2\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewAskedSite(t, sitetest.AskedAgents, "off", func(w http.ResponseWriter, _ *http.Request) {
				c, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				_, _ = io.WriteString(c, reply)
			})
			id := pending(s, "Bern")
			loggedFailure(s, id)
			if strings.Contains(s.Log(), "hunter2") {
				t.Errorf("the log quotes it: %s", s.Log())
			}
		})
	}
}

// TestReviewer_failed_start wants a configuration that does not start to leave no goroutine
// who asks.
func TestReviewer_failed_start(t *testing.T) {
	s := sitetest.NewAskedSite(t, sitetest.AskedAgents, "off", sitetest.Saying(202, ""))
	sitetest.Eventually(t, "one asker", func() bool { return askers() == 1 })
	for range 3 {
		if err := s.Load(sitetest.AskedGlobal, "mcp /mcp trips {\n\tagent ghost\n}\n"+s.Block("off")); err == nil || !strings.Contains(err.Error(), "ghost") {
			t.Fatalf("error %v", err)
		}
	}
	pending(s, "Bern")
	loggedDeferral(s, "")
	if n := askers(); n != 1 {
		t.Errorf("%d ask", n)
	}
}

// TestReviewer_is_gone wants no agent to be called while the document of the agent is
// gone, and no try to be spent: another site may have it.
func TestReviewer_is_gone(t *testing.T) {
	agents := strings.Replace(sitetest.AskedAgents, "review: supervisor", "review: oagent://supervisor", 1)
	s := sitetest.NewAskedSite(t, agents, "off", sitetest.Saying(200, sitetest.Approving))
	s.Write("agents.yaml", strings.Split(agents, "---\n")[0])
	sitetest.Eventually(t, "the agent is gone", func() bool {
		return strings.Contains(s.By("alice", "supervisor", "gone", "GET", "/trips", "").Body, "unknown_agent")
	})
	pending(s, "Bern")
	s.Write("agents.yaml", agents)
	passes(s, "Bern")
	if strings.Contains(s.Log(), `"again":`) {
		t.Error("it was tried")
	}
}

// TestReviewerAway has no program at the configured URL, and no credential.
func TestReviewerAway(t *testing.T) {
	s := sitetest.NewAskedSite(t, sitetest.AskedAgents, "off", sitetest.Saying(200, sitetest.Approving))
	untrusted := httptest.NewUnstartedServer(sitetest.Saying(200, sitetest.Approving))
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	defer untrusted.Close()
	for what, reviewer := range map[string]string{
		"certificate":        "{\n\task " + untrusted.URL + "/?key=hunter2\n}",
		"TLS":                "{\n\task https" + strings.TrimPrefix(s.Program.URL, "http") + "/?key=hunter2\n}",
		"connection refused": "{\n\task http://127.0.0.1:1/?key=hunter2\n\tcredential query token hunter2\n}",
		"env.NOWHERE":        "{\n\task " + s.Program.URL + "\n\theader Authorization {env.NOWHERE}\n}",
	} {
		if err := s.Load(sitetest.AskedGlobal, s.BlockWith("off", reviewer)); err != nil {
			t.Fatal(err)
		}
		loggedFailure(s, pending(s, "to "+what), what)
	}
	if strings.Contains(s.Log(), "hunter2") || len(s.Program.Asked()) != 0 {
		t.Error("a credential is in the log, or a question was asked without one")
	}
}

// TestReviewer_asked_once has many clients wait, on two sites that share a store.
func TestReviewer_asked_once(t *testing.T) {
	s := sitetest.NewAskedSite(t, sitetest.AskedAgents, "off", sitetest.Saying(202, ""))
	other := *s.Site
	other.Port = testkit.FreePort(t)
	other.URL = fmt.Sprintf("http://127.0.0.1:%d", other.Port)
	block := s.Block("30s")
	if err := s.Load(sitetest.AskedGlobal, block+fmt.Sprintf("\n}\nhttp://127.0.0.1:%d {\n", other.Port)+block); err != nil {
		t.Fatal(err)
	}
	const clients = 8
	var passed atomic.Int64
	var all sync.WaitGroup
	release := make(chan struct{})
	s.Program.Says(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = io.WriteString(w, sitetest.Approving)
	})
	for i := range clients {
		at := &sitetest.AskedSite{Site: s.Site}
		if i%2 == 1 {
			at.Site = &other
		}
		all.Go(func() {
			if a := at.Create("Bern"); a.Status == 200 {
				passed.Add(1)
			}
		})
	}
	sitetest.Eventually(t, "the program is asked", func() bool { return len(s.Program.Asked()) == 1 })
	close(release)
	all.Wait()
	asked := make(map[string]bool)
	for _, q := range s.Program.Asked() {
		if asked[q.ID] {
			t.Errorf("%s is asked about twice", q.ID)
		}
		asked[q.ID] = true
	}
	if n := passed.Load(); n != clients || s.Reached.Load() != clients || len(asked) != clients {
		t.Errorf("%d passed, %d reached the API, %d questions", n, s.Reached.Load(), len(asked))
	}
}

// TestReviewerReload reloads the configuration while a question is out.
func TestReviewerReload(t *testing.T) {
	gone := make(chan struct{})
	s := sitetest.NewAskedSite(t, sitetest.AskedAgents, "off", func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(gone)
	})
	id := pending(s, "Bern")
	sitetest.Eventually(t, "it is asked", func() bool { return len(s.Program.Asked()) == 1 })
	s.Program.Says(sitetest.Saying(202, ""))
	if err := s.Load(sitetest.AskedGlobal, s.Block("off")); err != nil {
		t.Fatal(err)
	}
	sitetest.Await(t, "the question is broken off", gone)
	loggedDeferral(s, id)
	if asked := s.Program.Asked(); len(asked) != 2 || asked[1].ID != id {
		t.Errorf("asked %d times", len(asked))
	}
	pending(s, "Bern")
	if a := s.By("robot", "supervisor", "", "POST", "/reviews/"+id+"/approve", "{}"); a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	passes(s, "Bern")
	sitetest.Eventually(t, "one asker", func() bool { return askers() == 1 })
	if err := s.Load(sitetest.AskedGlobal, s.BlockWith("off", "")); err != nil {
		t.Fatal(err)
	}
	sitetest.Eventually(t, "no asker", func() bool { return askers() == 0 })
}

// askers counts goroutines that ask.
func askers() int {
	var stacks strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2)
	return strings.Count(stacks.String(), "lease.(*Dispatcher).run(")
}

// TestReviewerEnded has the agent's own Engagement end while it has a question.
func TestReviewerEnded(t *testing.T) {
	s := sitetest.NewAskedSite(t, sitetest.AskedAgents, "off", sitetest.Saying(202, ""))
	id := pending(s, "Bern")
	sitetest.Eventually(t, "it is asked", func() bool { return len(s.Program.Asked()) == 1 })
	own := s.Program.Asked()[0].Reviewing
	for i, wanted := range []int{200, 403} {
		if a := s.By("robot", "supervisor", own, "GET", "/trips", ""); a.Status != wanted {
			t.Fatalf("call %d: %d %s", i, a.Status, a.Body)
		}
	}
	for _, talk := range []string{own, "another"} {
		for _, path := range []string{"/reviews/" + id + "/approve"} {
			if a := s.By("robot", "supervisor", talk, "POST", path, "{}"); a.Status == 200 || talk == own && !strings.Contains(a.Body, "lifespan.short_circuit") {
				t.Errorf("%s: %d %s", talk, a.Status, a.Body)
			}
		}
	}
	for _, to := range []string{"Bern", "Basel"} {
		if p := s.Problem(s.Create(to)); p.Kind != "review_denied" || !sitetest.ContainsAll(p.Detail, []string{"supervisor", "Engagement", "lifespan.short_circuit"}) {
			t.Errorf("%s: %+v", to, p)
		}
	}
	if p := s.Problem(s.By("alice", "desk", "t2", "POST", "/trips", `{"to":"Bern"}`)); p.Kind != "review_pending" {
		t.Errorf("another Engagement: %+v", p)
	}
}

// TestReviewerGuardrails has guardrails look at what the agent is asked and says.
func TestReviewerGuardrails(t *testing.T) {
	checker := sitetest.NewChecker(t)
	agents := sitetest.AskedAgents + "guardrails:\n  input: {tool_name: check-input, assertion: output.safe}\n  output: {tool_name: check-output, assertion: output.safe}\n"
	start := func(t *testing.T, reviewer string, answer http.HandlerFunc) *sitetest.AskedSite {
		s := sitetest.NewAskedSite(t, strings.Replace(agents, "short_circuit: 2", "short_circuit: 9", 1), "30s", answer)
		s.Write("checks.yaml", fmt.Sprintf(sitetest.Checks, checker.URL))
		block := s.Block("30s")
		if reviewer != "asked" {
			block = s.BlockWith("off", "")
		}
		if err := s.Load(sitetest.AskedGlobal, block); err != nil {
			t.Fatal(err)
		}
		checker.Asked()
		checker.Down.Store(false)
		return s
	}
	t.Run("all well", func(t *testing.T) {
		s := start(t, "asked", sitetest.Saying(200, sitetest.Approving))
		if a := s.Create("Bern"); a.Status != 200 {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		if asked := checker.Asked(); !sitetest.ContainsAll(asked, []string{`/in {`, `"to":"Bern"`, "|/out all well"}) {
			t.Error(asked)
		}
	})
	t.Run("the question", func(t *testing.T) {
		s := start(t, "asked", sitetest.Saying(200, sitetest.Approving))
		if p := s.Problem(s.Create("forbidden")); p.Kind != "review_denied" || !strings.Contains(p.Detail, "guardrails.input") {
			t.Errorf("%+v", p)
		}
		if len(s.Program.Asked()) != 0 {
			t.Error("the program was asked")
		}
	})
	t.Run("the comment", func(t *testing.T) {
		s := start(t, "asked", sitetest.Saying(200, `{"decision":"approve","comment":"forbidden"}`))
		if p := s.Problem(s.Create("Bern")); p.Kind != "review_denied" || !strings.Contains(p.Detail, "guardrails.output") {
			t.Errorf("%+v", p)
		}
		if s.Reached.Load() != 0 {
			t.Error("the API was called")
		}
	})
	t.Run("the tool is away", func(t *testing.T) {
		s := start(t, "asked", sitetest.Saying(200, sitetest.Approving))
		checker.Down.Store(true)
		done := make(chan sitetest.Response, 1)
		go func() { done <- s.Create("Bern") }()
		loggedFailure(s, "")
		checker.Down.Store(false)
		if a := <-done; a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	})
	t.Run("read over HTTP", func(t *testing.T) {
		s := start(t, "reading", nil)
		id := pending(s, "Bern")
		checker.Down.Store(true)
		if a := s.By("robot", "supervisor", "", "GET", "/reviews/"+id, ""); a.Status != 503 || a.Header.Get("Retry-After") == "" || strings.Contains(a.Body, "Bern") {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		checker.Down.Store(false)
		if a := s.By("robot", "supervisor", "", "GET", "/reviews/"+id, ""); a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		evil := pending(s, "forbidden")
		if a := s.By("robot", "supervisor", "", "GET", "/reviews/"+evil, ""); a.Status != 403 || strings.Contains(a.Body, "forbidden") {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		if a := s.By("robot", "supervisor", "", "POST", "/reviews/"+id, `{"decision":"approve","comment":"well"}`); a.Status != 403 {
			t.Errorf("it decides after its Engagement has ended: %d %s", a.Status, a.Body)
		}
		if p := s.Problem(s.Create("Bern")); p.Kind != "review_denied" {
			t.Errorf("%+v", p)
		}
	})
	t.Run("by other ways", func(t *testing.T) {
		s := start(t, "reading", nil)
		id := pending(s, "forbidden")
		path := "/reviews/" + id
		if a := s.By("robot", "supervisor", "", "POST", path, `{"decision":"deny"}`); a.Status != 200 || !strings.Contains(a.Body, `"denied"`) || strings.Contains(a.Body, "forbidden") {
			t.Errorf("it decides: %d %s", a.Status, a.Body)
		}
		key := sitetest.Decode[sitetest.ProgramQuestion](t, s.By("robot", "supervisor", "", "POST", path, `{"decision":"deny"}`)).Key
		record := "/engagements/review-" + key + "/audit"
		a := s.By("robot", "supervisor", "", "GET", record, "")
		if a.Status != 200 || !strings.Contains(a.Body, `"question"`) || strings.Contains(a.Body, "forbidden") {
			t.Errorf("it reads the record: %d %s", a.Status, a.Body)
		}
		own := sitetest.Decode[struct{ Engagement string }](t, a)
		for _, path := range []string{"/engagements/" + own.Engagement + "/audit", record} {
			if a := s.By("auditor", "", "", "GET", path, ""); !strings.Contains(a.Body, "forbidden") {
				t.Errorf("an auditor reads the record at %s: %d %s", path, a.Status, a.Body)
			}
			if a := s.By("alice", "desk", "", "GET", path, ""); a.Status != 404 {
				t.Errorf("the user reads the record at %s: %d %s", path, a.Status, a.Body)
			}
		}
		if a := s.By("robot", "supervisor", "", "GET", path, ""); a.Status != 403 || strings.Contains(a.Body, "forbidden") {
			t.Errorf("it reads what it has decided: %d %s", a.Status, a.Body)
		}
		if a := s.By("robot", "supervisor", "", "GET", path, ""); a.Status != 403 || strings.Contains(a.Body, "forbidden") {
			t.Errorf("it reads it again: %d %s", a.Status, a.Body)
		}
	})
	t.Run("a comment over HTTP", func(t *testing.T) {
		s := start(t, "reading", nil)
		id := pending(s, "Bern")
		if a := s.By("robot", "supervisor", "", "POST", "/reviews/"+id, `{"decision":"approve","comment":"forbidden"}`); a.Status != 403 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		if p := s.Problem(s.Create("Bern")); p.Kind != "review_denied" || !strings.Contains(p.Detail, "guardrails.output") {
			t.Errorf("%+v", p)
		}
	})
}

// TestReview_shows_engagement has a user review what an agent does.
func TestReview_shows_engagement(t *testing.T) {
	s := sitetest.NewAskedSite(t, strings.Replace(sitetest.AskedAgents, "require_review: supervisor}", "require_review: boss}", 1), "off", sitetest.Saying(200, sitetest.Approving))
	if a := s.By("alice", "desk", "t1", "GET", "/trips", ""); a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	id := pending(s, "Bern")
	a := s.By("boss", "", "", "GET", "/reviews/"+id, "")
	shown := sitetest.Decode[sitetest.ProgramQuestion](t, a)
	e := shown.Engagement
	got := [...]string{e.User.ID, string(e.History["_list"]), string(e.History["list-trips"]), string(e.Recent["create-trip"]), string(e.Recent["_name"])}
	if want := [...]string{"alice", `["list-trips"]`, `[{"inputs":{},"outputs":{"ok":true}}]`, `{"inputs":{"to":"Bern"},"outputs":null}`, `"list-trips"`}; got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if shown.Intent != "" || shown.Reviewing != "" || strings.Contains(a.Body, "reviewer_agent") {
		t.Errorf("a user is taken for an agent: %s", a.Body)
	}
	if len(s.Program.Asked()) != 0 {
		t.Error("an agent is asked")
	}
}

// TestReviewPages reads the list of reviews page by page.
func TestReviewPages(t *testing.T) {
	s := sitetest.NewAskedSite(t, sitetest.AskedAgents, "off", nil)
	if err := s.Load(sitetest.AskedGlobal, s.BlockWith("off", "")); err != nil {
		t.Fatal(err)
	}
	var asked []string
	for i := range 7 {
		asked = append(asked, pending(s, fmt.Sprint("trip ", i)))
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
		p := sitetest.Decode[page](t, s.By("robot", "supervisor", "", "GET", next, ""))
		for _, r := range p.Reviews {
			if want := "/reviews/" + r.ID; seen[r.ID] || r.Location != want {
				t.Errorf("got the review at %s, want %s; seen before: %t, want false", r.Location, want, seen[r.ID])
			}
			if r.Name != "create-trip" || !strings.HasPrefix(string(r.Inputs), `{"to":"trip `) {
				t.Errorf("got %s with %s, want create-trip to trip …", r.Name, r.Inputs)
			}
			seen[r.ID] = true
		}
		next = p.Next
		if pages == 0 { // the page goes on although its end is decided
			if a := s.By("robot", "supervisor", "", "POST", "/reviews/"+p.Reviews[2].ID+"/deny", "{}"); a.Status != 200 {
				t.Errorf("%d %s", a.Status, a.Body)
			}
		}
	}
	if len(seen) != len(asked) || pages != 3 {
		t.Errorf("%d reviews in %d pages", len(seen), pages)
	}
	if p := sitetest.Decode[page](t, s.By("robot", "supervisor", "", "GET", "/reviews", "")); len(p.Reviews) != 6 || p.Next != "" {
		t.Errorf("%+v", p)
	}
	for _, query := range []string{"?limit=-1", "?limit=1001", "?limit=x", "?after=x", "?after=.x", "?after=1"} {
		if a := s.By("robot", "supervisor", "", "GET", "/reviews"+query, ""); a.Status != 400 {
			t.Errorf("%s: %d %s", query, a.Status, a.Body)
		}
	}
}

func TestReviewerConfig(t *testing.T) {
	for name, test := range map[string]struct{ subdirective, want, line string }{
		"no agent":            {"reviewer", "reviewer agent", ":3"},
		"no reviewer":         {"reviewer a", "program block", ":3"},
		"twice":               {"reviewer a b\n\t\treviewer a c", "reviewer a twice", ":4"},
		"a block without it":  {"reviewer a b {\n\t\t\ttimeout 3s\n\t\t}", "block ask", ":5"},
		"ask twice":           {"reviewer a {\n\t\t\task http://a\n\t\t\task http://b\n\t\t}", "ask twice", ":5"},
		"no URL":              {"reviewer a {\n\t\t\task supervisor\n\t\t}", "https://", ":4"},
		"another scheme":      {"reviewer a {\n\t\t\task ftp://b\n\t\t}", "https://", ":4"},
		"a user in the URL":   {"reviewer a {\n\t\t\task http://u:hunter2@b\n\t\t}", "credential basic", ":4"},
		"no timeout":          {"reviewer a {\n\t\t\task http://a\n\t\t\ttimeout off\n\t\t}", "duration", ":5"},
		"header":              {"reviewer a {\n\t\t\task http://a\n\t\t\theader X\n\t\t}", "header value", ":5"},
		"header twice":        {"reviewer a {\n\t\t\task http://a\n\t\t\theader X hunter2\n\t\t\tcredential header x b\n\t\t}", "twice", ":6"},
		"no one":              {"reviewer a {\n\t\t}", "people", ":4"},
		"people of no one":    {"reviewer a {\n\t\t\tpeople\n\t\t}", "people ann", ":4"},
		"no group":            {"reviewer a {\n\t\t\tpeople group:\n\t\t}", "group:engineering", ":5"},
		"people and users":    {"reviewer a b {\n\t\t\tpeople c\n\t\t}", "one of the two", ":5"},
		"people and ask":      {"reviewer a {\n\t\t\tpeople c\n\t\t\task http://a\n\t\t}", "one of the two", ":6"},
		"an agent that edits": {"reviewer a b {\n\t\t\tmay_edit\n\t\t}", "may_edit people", ":5"},
		"editing alone":       {"reviewer a {\n\t\t\tmay_edit\n\t\t}", "may_edit people", ":5"},
		"editing how":         {"reviewer a {\n\t\t\tpeople b\n\t\t\tmay_edit off\n\t\t}", "argument count", ":5"},
		"after what":          {"reviewer a {\n\t\t\tpeople b after\n\t\t}", "one duration", ":4"},
		"after a word":        {"reviewer a {\n\t\t\tpeople b after lunch\n\t\t}", "one duration", ":4"},
		"people after after":  {"reviewer a {\n\t\t\tpeople b after 2h c\n\t\t}", "one duration", ":4"},
		"only after":          {"reviewer a {\n\t\t\tpeople after 2h\n\t\t}", "people ann", ":4"},
		"after shrinks":       {"reviewer a {\n\t\t\tpeople b\n\t\t\tpeople c after 2h\n\t\t\tpeople d after 1h\n\t\t}", "longer", ":7"},
		"unknown":             {"reviewer a {\n\t\t\task http://a\n\t\t\tretries 3\n\t\t}", "unrecognized reviewer retries", ":5"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := sitetest.Adapt("http://a.test {\n\toagent a.yaml {\n\t\t" + test.subdirective + "\n\t}\n}")
			if err == nil || !testkit.ContainsAll(err.Error(), test.want) || !strings.Contains(err.Error(), "Caddyfile"+test.line) {
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
			s := &sitetest.AskedSite{Site: sitetest.NewSite(t), API: "127.0.0.1:1"}
			s.Write("agents.yaml", sitetest.AskedAgents)
			s.Write("checks.yaml", fmt.Sprintf(sitetest.Checks, "http://127.0.0.1:1"))
			err := s.Load(sitetest.AskedGlobal, s.BlockWith("off", test.reviewer))
			t.Cleanup(func() { _ = caddy.Stop() })
			if err == nil || !testkit.ContainsAll(err.Error(), test.want) || !strings.Contains(err.Error(), "reviewer supervisor") {
				t.Errorf("error %v", err)
			}
		})
	}
}
