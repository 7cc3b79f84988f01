package oagent_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/archive"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/caddymodule/stores"
	"github.com/fairwayhq/fairway/internal/audit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// audited starts a site with an archive. The agent may list trips, may get none, and needs a review for each trip that it creates.
func audited(t *testing.T, block string) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  list-trips: {user_identity: false}
  create-trip:
    user_identity: false
    input_restriction: {require_review: eve}
`))
	s.Start("order test_user first\nagents {\n\tstore bolt DIR/store.db\n\taudit {\n"+block+"\n\t}\n}",
		"test_user\n"+sitetest.GuardedBlock("review_wait off\nreviews /reviews\nengagements /engagements", sitetest.Upstream(t, sitetest.Echo)))
	return s
}

func TestAudit_guarded_calls_and_reviews_are_archived(t *testing.T) {
	s := audited(t, "sink file DIR/audit.jsonl")
	s.Request("GET", "/trips", "", "X-Test-User", "ada")
	refused := s.Request("GET", "/trips/1", "", "X-Test-User", "bob").Header.Get("Fairway-Call")
	s.Request("POST", "/trips", `{"to":"Bern"}`, "X-Test-User", "ada")
	open := sitetest.Decode[struct {
		Reviews []struct{ ID string }
	}](t, s.Request("GET", "/reviews", "", "X-Test-User", "eve"))
	if len(open.Reviews) != 1 {
		t.Fatalf("reviews %+v", open)
	}
	s.Request("POST", "/reviews/"+open.Reviews[0].ID, `{"decision":"approve"}`, "X-Test-User", "eve")
	var got []string
	sitetest.Eventually(t, "a decision in the archive", func() bool {
		got = nil
		for _, e := range sitetest.Archived(s) {
			got = append(got, e.Type+" "+e.Event+" "+e.User)
			if e.User == "bob" && e.CallID != refused || e.Event == "begun" && e.CallID == "" {
				t.Errorf("the entry %+v has no id of its call; that of bob is %q", e, refused)
			}
		}
		return slices.Contains(got, "review decided ada")
	})
	for _, want := range []string{"configuration started ", "call begun ada", "call finished ada", "call refused bob", "review review ada"} {
		if !slices.Contains(got, want) {
			t.Errorf("the archive has no %q: %q", want, got)
		}
	}
	file, err := os.Open(filepath.Join(s.Dir, "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var v archive.Verifier
	if err := v.Read("audit.jsonl", file); err != nil {
		t.Error(err)
	}
}

func TestAudit_full_archive_refuses_calls_until_its_sink_is_up(t *testing.T) {
	var up atomic.Bool
	sink := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() || r.Header.Get("Webhook-Signature") == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	s := audited(t, "sink webhook "+"http://"+strings.TrimPrefix(sink, "http://")+" {\nsecret 0123456789abcdef\n}\nqueue 3")
	a := s.Request("GET", "/trips", "") // with the start of the configuration, 3 entries
	if a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	a = s.Request("GET", "/trips", "")
	p := s.Problem(a)
	if got, want := [...]any{a.Status, p.Kind, p.Made}, [...]any{http.StatusServiceUnavailable, "store", false}; got != want {
		t.Errorf("status, kind, made: got %v, want %v", got, want)
	}
	if p.RetryAfter == 0 || !strings.Contains(p.Detail, "archive") {
		t.Errorf("got %q with a retry after %d s, want one about the archive with a later retry", p.Detail, p.RetryAfter)
	}
	s.Logged("sink of the audit archive failed")
	if strings.Contains(s.Log(), "0123456789abcdef") {
		t.Error("the log has the secret")
	}
	up.Store(true)
	sitetest.Eventually(t, "calls are made again", func() bool { return s.Request("GET", "/trips", "").Status == http.StatusOK })
}

func TestUser_export_and_erase_leave_others_unchanged(t *testing.T) {
	s := audited(t, "sink file DIR/audit.jsonl")
	for _, user := range []string{"ada", "bob"} {
		s.Request("GET", "/trips", "", "X-Test-User", user)
		s.Request("POST", "/trips", `{"to":"Bern"}`, "X-Test-User", user)
	}
	agents, err := site.SectionOf[*stores.Section](caddy.ActiveContext())
	if err != nil {
		t.Fatal(err)
	}
	export := func(user string) string {
		t.Helper()
		all, err := agents.Users.Export(t.Context(), user)
		if err != nil {
			t.Fatal(err)
		}
		content, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	ada, bob := export("ada"), export("bob")
	for word, want := range map[string]bool{`"oagent":"desk"`: true, `"to":"Bern"`: true, `"reviewer":"eve"`: true, "bob": false} {
		if got := strings.Contains(ada, word); got != want {
			t.Errorf("%s is in the export of ada: got %t, want %t: %s", word, got, want, ada)
		}
	}
	counts, err := agents.Users.Erase(t.Context(), "ada")
	if err != nil || counts["engagements"] != 1 || counts["reviews"] != 1 {
		t.Errorf("%v, %v", counts, err)
	}
	if now := export("bob"); now != bob {
		t.Errorf("the data of bob have changed from %s to %s", bob, now)
	}
	if now := export("ada"); strings.Contains(now, "ada") || strings.Contains(now, "desk") {
		t.Errorf("the store still has %s", now)
	}
	if open := s.Request("GET", "/reviews", "", "X-Test-User", "eve").Body; strings.Contains(open, "ada") || !strings.Contains(open, "bob") {
		t.Errorf("eve still has the reviews %s", open)
	}
	sitetest.Eventually(t, "the archive keeps what was erased", func() bool {
		return slices.ContainsFunc(sitetest.Archived(s), func(e audit.Entry) bool { return e.User == "ada" && e.Event == "begun" })
	})
}
