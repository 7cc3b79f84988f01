package endpoints_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// listedEngagements is a page of GET /engagements.
type listedEngagements struct {
	Engagements []struct {
		Key, OAgent, Status string
		User                struct{ ID string }
	}
	Next string
}

// endEngagement has the user repeat a call until short_circuit ends the Engagement
// with the agent supervisor, and returns its path.
func endEngagement(s *sitetest.Site, user string) (path string) {
	s.T.Helper()
	as(s, user, "supervisor", "GET", "/trips", "")
	ended := s.Problem(as(s, user, "supervisor", "GET", "/trips", ""))
	path = "/engagements/" + ended.Engagement
	if ended.Kind != "short_circuit" || !strings.Contains(ended.Detail, "DELETE "+path) {
		s.T.Fatalf("problem %+v", ended)
	}
	return path
}

func TestRenewEngagement_lets_its_user_go_on(t *testing.T) {
	s := pagesSite(t)
	path := endEngagement(s, "alice")
	if p := s.Problem(as(s, "alice", "supervisor", "GET", "/trips", "")); p.Kind != "ended" || !strings.Contains(p.Detail, "DELETE "+path) {
		t.Errorf("problem %+v", p)
	}
	type state struct {
		Status   string
		Total    int
		Renewals int
	}
	if got := sitetest.Decode[state](t, as(s, "alice", "", http.MethodDelete, path, "")); got.Status != "awaiting-llm" || got.Renewals != 1 || got.Total != 0 {
		t.Errorf("state %+v", got)
	}
	if a := as(s, "alice", "supervisor", "GET", "/trips", ""); a.Status != 200 {
		t.Errorf("a call: %d %s", a.Status, a.Body)
	}
	for _, user := range []string{"alice", "auditor"} {
		a := as(s, user, "", "GET", path+"/audit", "")
		if a.Status != 200 || !sitetest.ContainsAll(a.Body, []string{`"kind":"short_circuit"`, `"what":"renewed"`, `"by":"alice"`}) {
			t.Errorf("the record for %s: %d %s", user, a.Status, a.Body)
		}
	}
}

func TestRenewEngagement_is_for_its_user_and_auditors(t *testing.T) {
	s := pagesSite(t)
	path := endEngagement(s, "alice")
	for _, user := range []string{"bob", "robot", "boss"} {
		if a := as(s, user, "supervisor", http.MethodDelete, path, ""); a.Status != 404 {
			t.Errorf("%s: %d %s", user, a.Status, a.Body)
		}
	}
	if a := as(s, "", "supervisor", http.MethodDelete, path, ""); a.Status != 401 {
		t.Errorf("unknown: %d", a.Status)
	}
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
		if a := s.Request(http.MethodDelete, path, "", append(header, "X-Api-Key", "key-of-alice")...); a.Status != 403 {
			t.Errorf("%v: %d %s", header, a.Status, a.Body)
		}
	}
	if p := s.Problem(as(s, "alice", "supervisor", "GET", "/trips", "")); p.Kind != "ended" {
		t.Fatalf("problem %+v", p)
	}
	if a := as(s, "auditor", "", http.MethodDelete, path, ""); a.Status != 200 {
		t.Errorf("an auditor: %d %s", a.Status, a.Body)
	}
	if a := as(s, "alice", "supervisor", "GET", "/trips", ""); a.Status != 200 {
		t.Errorf("a call: %d %s", a.Status, a.Body)
	}
	if a := as(s, "alice", "", http.MethodDelete, path, ""); a.Status != 409 {
		t.Errorf("its user, while it goes on: %d %s", a.Status, a.Body)
	}
	if a := as(s, "auditor", "", http.MethodDelete, path, ""); a.Status != 200 {
		t.Errorf("an auditor, while it goes on: %d %s", a.Status, a.Body)
	}
	if a := as(s, "alice", "supervisor", "GET", "/trips", ""); a.Status != 200 {
		t.Errorf("it would be a repetition: %d %s", a.Status, a.Body)
	}
}

func TestListEngagements_is_for_auditors_page_by_page(t *testing.T) {
	s := pagesSite(t)
	for _, user := range []string{"alice", "bob"} {
		as(s, user, "desk", "GET", "/trips", "")
		as(s, user, "supervisor", "GET", "/trips", "")
	}
	seen := make(map[string]bool)
	pages := 0
	for next := "/engagements?limit=3"; next != ""; pages++ {
		page := sitetest.Decode[listedEngagements](t, as(s, "auditor", "", "GET", next, ""))
		if len(page.Engagements) > 3 || pages > 5 {
			t.Fatalf("page %d %+v", pages, page)
		}
		for _, e := range page.Engagements {
			seen[e.User.ID+" "+e.OAgent] = true
		}
		next = page.Next
	}
	if len(seen) != 4 || !seen["bob supervisor"] || pages != 2 {
		t.Errorf("%v on %d pages", seen, pages)
	}
	page := sitetest.Decode[listedEngagements](t, as(s, "auditor", "", "GET", "/engagements?agent=desk", ""))
	if len(page.Engagements) != 2 || page.Engagements[0].OAgent != "desk" || page.Next != "" {
		t.Errorf("of one agent: %+v", page)
	}
	if a := as(s, "alice", "", "GET", "/engagements", ""); a.Status != 404 {
		t.Errorf("a user: %d", a.Status)
	}
	for _, query := range []string{"?limit=0", "?limit=1001", "?limit=x"} {
		if a := as(s, "auditor", "", "GET", "/engagements"+query, ""); a.Status != 400 {
			t.Errorf("%s: %d", query, a.Status)
		}
	}
	if a := as(s, "auditor", "", http.MethodDelete, "/engagements", ""); a.Status != 405 {
		t.Errorf("DELETE of all: %d", a.Status)
	}
}

func TestReviews_list_their_inputs_and_take_an_empty_body(t *testing.T) {
	s := pagesSite(t)
	for _, to := range []string{"Bern", strings.Repeat("Basel", 10_000), strings.Repeat("Biel", 14_000)} {
		as(s, "alice", "desk", "POST", "/trips", `{"to":"`+to+`"}`)
	}
	listed := sitetest.Decode[struct {
		Reviews []struct {
			Location string
			Inputs   struct{ To string }
		}
	}](t, as(s, "boss", "", "GET", "/reviews", ""))
	if len(listed.Reviews) != 3 || listed.Reviews[0].Inputs.To != "Bern" || !strings.HasPrefix(listed.Reviews[1].Inputs.To, "Basel") {
		t.Fatalf("%d reviews", len(listed.Reviews))
	}
	path := listed.Reviews[0].Location
	untyped, err := http.NewRequest(http.MethodPost, s.URL+path+"/approve", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	untyped.Header.Set("X-Api-Key", "key-of-boss")
	if a := s.Do(untyped); a.Status != 415 {
		t.Errorf("a body without a type: %d %s", a.Status, a.Body)
	}
	for _, header := range []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: https://evil.example", "Content-Type: application/x-www-form-urlencoded"} {
		name, value, _ := strings.Cut(header, ": ")
		if a := s.Request("POST", path+"/approve", "", name, value, "X-Api-Key", "key-of-boss"); a.Status != 403 && a.Status != 415 {
			t.Errorf("%s: %d %s", header, a.Status, a.Body)
		}
	}
	if a := s.Request("POST", path, "", "X-Api-Key", "key-of-boss"); a.Status != 400 {
		t.Errorf("no decision: %d %s", a.Status, a.Body)
	}
	if a := s.Request("POST", path+"/approve", "", "X-Api-Key", "key-of-boss"); a.Status != 200 || !strings.Contains(a.Body, `"approved"`) {
		t.Errorf("nothing but the path: %d %s", a.Status, a.Body)
	}
}
