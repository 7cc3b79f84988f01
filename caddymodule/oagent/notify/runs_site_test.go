package notify_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

const (
	runGlobal = "agents {\n\ttoolset trips TRIPS\n\tstore bolt DIR/store.db\n}"
	runText   = "secret-text" // in inputs, answers, questions and arguments
)

// runAgent asks its user first, and then makes a call that needs a review.
var runAgent = sitetest.AgentDocument("desk", "\n  create-trip: {user_identity: false, input_restriction: {require_review: boss}}\n")

func runSteps() func(*modelserver.Request) modelserver.Step {
	return sitetest.Play(
		modelserver.Step{Calls: []modelserver.Call{{ID: "1", Name: "ask-user", Arguments: `{"question":"` + runText + `?"}`}}},
		sitetest.Calls("create-trip", `{"to":"`+runText+`"}`),
		modelserver.Step{Text: "Done, " + runText + "."},
	)
}

// runSite starts a site whose agent is hosted, with the options of notify.
func runSite(t *testing.T, options string) (s *sitetest.HostedSite, restart func()) {
	t.Helper()
	t.Setenv("HOOK_SECRET", hookSecret)
	s = sitetest.NewHostedSite(t, runAgent, runSteps())
	block := strings.Replace(s.Block("reviews /reviews\nreview_wait off\n"+options), "route {\ntest_user", "route {\ntest_pace\ntest_user", 1)
	block = strings.Replace(block, "TRIPS", "trips", 1)
	s.Start(runGlobal, block)
	return s, func() {
		t.Helper()
		if err := caddy.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := s.Load(runGlobal, block); err != nil {
			t.Fatal(err)
		}
	}
}

// types returns the types of the notices that the webhook has accepted, in alphabetical order.
func (h *hook) types() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, body := range h.bodies {
		var n struct{ Type string }
		if err := json.Unmarshal([]byte(body), &n); err != nil {
			h.t.Errorf("%v: %s", err, body)
		}
		all = append(all, n.Type)
	}
	slices.Sort(all)
	return all
}

// TestRuns_webhook runs an agent while the webhook is down. After a restart, the webhook gets a signed notice about each event,
// once, and neither the notices nor the log have a text of the conversation or a secret.
func TestRuns_webhook(t *testing.T) {
	h := newHook(t, http.StatusInternalServerError)
	s, restart := runSite(t, "notify webhook \""+h.url+"\" {\nsecret {env.HOOK_SECRET}\nevents run.* review.pending\nconsole https://gw.example.com/console\ntimeout 1s\n}\n")
	location := s.Begin("ann", "desk", runText)
	if v := s.State("ann", location); v.Status != "awaiting-additional-input" {
		t.Fatalf("state %+v", v)
	}
	v := s.View(s.As("ann", "POST", location, `{"input":"`+runText+`"}`, "Prefer", "wait=60"))
	if v.Status != "awaiting-verification" || len(v.Reviews) != 1 {
		t.Fatalf("state %+v", v)
	}
	if a := s.As("boss", "POST", v.Reviews[0].Location+"/approve", ""); a.Status != http.StatusOK {
		t.Fatalf("approving: %d %s", a.Status, a.Body)
	}
	sitetest.Eventually(t, "the end", func() bool { return s.State("ann", location).Status == "complete" })
	s.Logged("sending a notice failed", "run.complete")
	restart()
	h.accept()
	want := []string{"run.complete", "run.question", "run.review"}
	sitetest.Eventually(t, "the notices about the run", func() bool {
		return len(slices.DeleteFunc(h.types(), func(kind string) bool { return !slices.Contains(want, kind) })) >= len(want)
	})
	second := s.Begin("ann", "desk", runText) // when its notice is there, the first ones had time to be sent twice
	s.State("ann", second)
	sitetest.Eventually(t, "the notice about the second run", func() bool {
		return len(slices.DeleteFunc(h.types(), func(kind string) bool { return kind != "run.question" })) == 2
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, n := range h.accepted {
		if n != 1 {
			t.Errorf("the notice %s was accepted %d times", id, n)
		}
	}
	for _, body := range h.bodies {
		if strings.Contains(body, "run.complete") {
			checkRunNotice(t, body, location)
		}
		if strings.Contains(body, runText) {
			t.Errorf("the notice has a text: %s", body)
		}
	}
	for _, secret := range []string{hookSecret, "url-secret", runText} {
		if strings.Contains(s.Log(), secret) {
			t.Errorf("the log has %s", secret)
		}
	}
}

func checkRunNotice(t *testing.T, body, location string) {
	t.Helper()
	var n struct {
		ID, Agent, User, Location, Link string
		At                              time.Time
		Run                             struct {
			ID, Status string
			StartedAt  time.Time `json:"started_at"`
			Usage      struct {
				Turns int
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &n); err != nil {
		t.Fatal(err)
	}
	id := strings.TrimPrefix(location, "/engagements/")
	got := [...]any{n.Agent, n.User, n.Location, n.Link, n.Run.ID, n.Run.Status, n.Run.Usage.Turns}
	if want := [...]any{"desk", "ann", location, "https://gw.example.com/console/engagements/" + id, id, "complete", 3}; got != want {
		t.Errorf("got the notice %v\nwant %v", got, want)
	}
	if !strings.HasPrefix(n.ID, id+"-") || n.At.Before(n.Run.StartedAt) {
		t.Errorf("got the notice %s at %s, want %s-… after the start at %s", n.ID, n.At, id, n.Run.StartedAt)
	}
	for _, of := range []string{"asked_at", "expires_at", "reviewer", "side"} {
		if strings.Contains(body, of) {
			t.Errorf("the notice has %s of a review: %s", of, body)
		}
	}
}

// TestRuns_default checks that a notifier without events gets only notices about reviews, and that no notices about runs are recorded.
func TestRuns_default(t *testing.T) {
	h := newHook(t, http.StatusOK)
	s, restart := runSite(t, "notify webhook \""+h.url+"\" {\nsecret {env.HOOK_SECRET}\n}\n")
	location := s.Begin("ann", "desk", "Go")
	s.State("ann", location)
	s.View(s.As("ann", "POST", location, `{"input":"Yes"}`, "Prefer", "wait=60"))
	sitetest.Eventually(t, "the notice about the review", func() bool { return len(h.types()) > 0 })
	restart()
	if got := h.types(); !slices.Equal(got, []string{"review.pending"}) {
		t.Errorf("notices %q", got)
	}
}

// TestSlack checks the messages, that they are repeated after an error, and that the log does not have the URL.
func TestSlack(t *testing.T) {
	var mu sync.Mutex
	var texts []string
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m map[string]string
		if err == nil {
			err = json.Unmarshal(body, &m)
		}
		mu.Lock()
		defer mu.Unlock()
		if requests++; requests == 1 {
			http.Error(w, runText, http.StatusTooManyRequests)
			return
		}
		if err != nil || len(m) != 1 {
			t.Errorf("got %s, error %v, want one member", body, err)
		}
		if kind := r.Header.Get("Content-Type"); r.URL.Path != "/services/url-secret" || kind != "application/json" {
			t.Errorf("got %s at %s, want application/json at /services/url-secret", kind, r.URL)
		}
		texts = append(texts, m["text"])
	}))
	t.Cleanup(server.Close)
	t.Setenv("SLACK_URL", server.URL+"/services/url-secret")
	s, _ := runSite(t, "notify slack {env.SLACK_URL} {\nevents run.question\nconsole https://gw.example.com/console\n}\n")
	location := s.Begin("<!channel>&@all", "desk", runText)
	id := strings.TrimPrefix(location, "/engagements/")
	sitetest.Eventually(t, "the message", func() bool { mu.Lock(); defer mu.Unlock(); return len(texts) > 0 })
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"desk", "User: &lt;!channel&gt;&amp;@\u200ball", "https://gw.example.com/console/engagements/" + id} {
		if !strings.Contains(texts[0], want) {
			t.Errorf("the message does not have %q: %s", want, texts[0])
		}
	}
	if strings.Contains(texts[0], runText) || strings.ContainsAny(texts[0], "<>") {
		t.Errorf("the message is %s", texts[0])
	}
	s.Logged("sending a notice failed", "429")
	for _, secret := range []string{"url-secret", runText} {
		if strings.Contains(s.Log(), secret) {
			t.Errorf("the log has %s", secret)
		}
	}
}

// TestNotify_config_errors checks that options without effect are rejected.
func TestNotify_config_errors(t *testing.T) {
	webhook := func(options string) string {
		return "notify webhook https://hooks.example.com {\nsecret 0123456789abcdef\n" + options + "\n}\n"
	}
	for name, c := range map[string]struct{ options, want string }{
		"unknown":        {webhook("events run.done"), "matches no type"},
		"twice":          {webhook("events run.failed run.failed"), "twice"},
		"console":        {webhook("console /console"), "console"},
		"runs, no model": {webhook("events review.* run.failed"), "run.failed has no effect without model"},
		"slack":          {"notify slack /services/url-secret\n", "URL"},
		"slack, no URL":  {"notify slack\n", "notify slack {env.SLACK_URL}"},
		"smtp":           {"notify smtp mail.example.com {\nfrom fairway@example.com\n}\n", "recipients"},
		"smtp, auth":     {"notify smtp mail.example.com {\nauth fairway\n}\n", "password"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Write("agent.yaml", runAgent)
			block := "route {\noagent DIR/agent.yaml {\nreviews /reviews\n" + c.options + "}\nrespond ok\n}"
			_, _, err := sitetest.Adapt("http://a.test {\n" + block + "\n}\n")
			if err == nil {
				if err = s.Load(runGlobal, block); err == nil {
					_ = caddy.Stop()
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "url-secret") {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
