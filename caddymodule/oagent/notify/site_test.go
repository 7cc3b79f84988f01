package notify_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// hook is the endpoint of a webhook. It rejects requests with the status, until that is 200.
type hook struct {
	t   *testing.T
	url string

	mu       sync.Mutex
	status   int
	rejected map[string]int // by the id of the review
	accepted map[string]int
	last     map[string]any // members of the body that was accepted last
	bodies   []string       // that were accepted
}

const hookSecret = "a-secret-of-32-bytes-for-the-test"

func newHook(t *testing.T, status int) *hook {
	h := &hook{t: t, status: status, rejected: map[string]int{}, accepted: map[string]int{}}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	h.url = server.URL + "/hook?token=url-secret"
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	id, stamp := r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp")
	mac := hmac.New(sha256.New, []byte(hookSecret))
	mac.Write([]byte(id + "." + stamp + "." + string(body)))
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); err != nil || r.Header.Get("Webhook-Signature") != want {
		h.t.Errorf("the signature is %q, want %q; %v", r.Header.Get("Webhook-Signature"), want, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.status != http.StatusOK {
		h.rejected[id]++
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(h.status)
		return
	}
	h.accepted[id]++
	h.last = nil
	h.bodies = append(h.bodies, string(body))
	if err := json.Unmarshal(body, &h.last); err != nil {
		h.t.Errorf("%v: %s", err, body)
	}
}

func (h *hook) accept() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = http.StatusOK
}

// counts returns how often notices about a review were rejected and accepted.
func (h *hook) counts(id string) (rejected, accepted int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rejected[id], h.accepted[id]
}

// notifyingSite starts a site with two handlers of the same agent, which share the store like two nodes.
func notifyingSite(t *testing.T, url string) (s *sitetest.Site, restart func()) {
	t.Helper()
	return notifyingSiteWith(t, url, "")
}

// notifyingSiteWith is notifyingSite with further options of oagent.
func notifyingSiteWith(t *testing.T, url, options string) (s *sitetest.Site, restart func()) {
	t.Helper()
	t.Setenv("HOOK_SECRET", hookSecret)
	t.Setenv("DESK_PATH", "console/reviews")
	s = sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  create-trip: {user_identity: false, input_restriction: {require_review: boss}}
`))
	oagent := "oagent DIR/agent.yaml {\nreview_wait off\nreviews /REVIEWS\nnotify webhook \"" + url + "\" {\nsecret {env.HOOK_SECRET}\nlink https://gw.example.com/{env.DESK_PATH}/\ntimeout 1s\n}\n" + options + "}\n"
	global := "agents {\n\ttoolset trips TRIPS\n\tstore bolt DIR/store.db\n}"
	block := "route {\ntest_pace\ntest_user\nroute /other/* {\n" + strings.Replace(oagent, "REVIEWS", "other/reviews", 1) + "respond OK\n}\n" +
		strings.Replace(oagent, "REVIEWS", "reviews", 1) + "reverse_proxy " + sitetest.Upstream(t, sitetest.Echo) + "\n}"
	s.Start(global, block)
	return s, func() {
		t.Helper()
		if err := caddy.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := s.Load(global, block); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNotify_repeats_until_the_endpoint_accepts checks that a notice is repeated after failures and over
// a restart, is accepted once, and says what the reviewer needs but none of the inputs.
func TestNotify_repeats_until_the_endpoint_accepts(t *testing.T) {
	for name, status := range map[string]int{"500": http.StatusInternalServerError, "redirect": http.StatusFound} {
		t.Run(name, func(t *testing.T) {
			h := newHook(t, status)
			s, restart := notifyingSite(t, h.url)
			id := sitetest.ReviewsOf(s).Ask("secret-town")
			sitetest.Eventually(t, "the notice is tried twice", func() bool { rejected, _ := h.counts(id); return rejected >= 2 })
			restart()
			h.accept()
			sitetest.Eventually(t, "the notice is accepted", func() bool { _, accepted := h.counts(id); return accepted > 0 })
			restart()
			second := sitetest.ReviewsOf(s).Ask("other-town") // when its notice is there, the first one had time to be sent twice
			sitetest.Eventually(t, "the second notice is accepted", func() bool { _, accepted := h.counts(second); return accepted > 0 })
			for _, review := range []string{id, second} {
				if _, accepted := h.counts(review); accepted != 1 {
					t.Errorf("the notice about %s was accepted %d times, want once", review, accepted)
				}
			}
			for member, want := range map[string]string{
				"id": second, "type": "review.pending", "reviewer": "boss", "agent": "desk", "user": "ada", "name": "create-trip", "side": "input",
				"link": "https://gw.example.com/console/reviews/" + second,
			} {
				if got := h.last[member]; got != want {
					t.Errorf("%s is %q, want %q", member, got, want)
				}
			}
			if location, _ := h.last["location"].(string); !strings.HasSuffix(location, "/reviews/"+second) {
				t.Errorf("location is %q", location)
			}
			for _, value := range h.last {
				if value, _ := value.(string); strings.Contains(value, "town") {
					t.Errorf("the notice has an input: %q", h.last)
				}
			}
			s.Logged("sending a notice")
			for _, secret := range []string{hookSecret, "url-secret"} {
				if strings.Contains(s.Log(), secret) {
					t.Errorf("the log has the secret %s", secret)
				}
			}
		})
	}
}

// TestNotify_slow_endpoint checks that calls do not wait for an endpoint that does not respond, and that
// the notice is repeated after its timeout.
func TestNotify_slow_endpoint(t *testing.T) {
	release := make(chan struct{})
	requests := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	s, _ := notifyingSite(t, server.URL)
	sitetest.ReviewsOf(s).Ask("first")
	<-requests
	sitetest.ReviewsOf(s).Ask("second") // responds although the first notice is still being sent
	<-requests
	s.Logged("sending a notice", "timeout")
	<-requests
}

// TestNotify_escalates_once checks that people whose time to decide has come get one notice of two nodes, also
// after a restart, and that those whose time has not come get none.
func TestNotify_escalates_once(t *testing.T) {
	t.Setenv("HOOK_SECRET", hookSecret)
	var mu sync.Mutex
	received := map[string][]map[string]any{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		id := r.Header.Get("Webhook-Id")
		received[id] = append(received[id], body)
	}))
	t.Cleanup(server.Close)
	counts := func(id string) int {
		mu.Lock()
		defer mu.Unlock()
		return len(received[id])
	}
	s, restart := notifyingSiteWith(t, server.URL, "reviewer boss {\npeople ann\npeople carol group:ops after 500ms\npeople group:directors after 1d\n}\n")
	id := sitetest.ReviewsOf(s).Ask("town")
	sitetest.Eventually(t, "the notice to the deputies", func() bool { return counts(id+"-1") > 0 })
	restart()
	second := sitetest.ReviewsOf(s).Ask("other-town") // when its notices are there, the first ones had time to be sent twice
	sitetest.Eventually(t, "the notice about the second review", func() bool { return counts(second+"-1") > 0 })
	mu.Lock()
	defer mu.Unlock()
	for _, review := range []string{id, second} {
		for step, want := range map[string]struct {
			kind   string
			people []any
		}{"": {"review.pending", []any{"ann"}}, "-1": {"review.escalated", []any{"carol", "group:ops"}}} {
			got := received[review+step]
			if len(got) != 1 {
				t.Fatalf("%d notices %s, want 1", len(got), review+step)
			}
			if got[0]["id"] != review || got[0]["type"] != want.kind || !slices.Equal(got[0]["people"].([]any), want.people) {
				t.Errorf("%s: got %v, want %+v", review+step, got[0], want)
			}
		}
		if len(received[review+"-2"]) > 0 {
			t.Errorf("the directors got a notice a day too early")
		}
	}
}
