package caddymodule_test

import (
	"net/http"
	"strings"
	"testing"
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
func (s *site) endEngagement(user string) (path string) {
	s.t.Helper()
	s.as(user, "supervisor", "GET", "/trips", "")
	ended := s.problem(s.as(user, "supervisor", "GET", "/trips", ""))
	path = "/engagements/" + ended.Engagement
	if ended.Kind != "short_circuit" || !strings.Contains(ended.Detail, "DELETE "+path) {
		s.t.Fatalf("problem %+v", ended)
	}
	return path
}

func TestRenewEngagement_lets_its_user_go_on(t *testing.T) {
	s := pagesSite(t)
	path := s.endEngagement("alice")
	if p := s.problem(s.as("alice", "supervisor", "GET", "/trips", "")); p.Kind != "ended" || !strings.Contains(p.Detail, "DELETE "+path) {
		t.Errorf("problem %+v", p)
	}
	type state struct {
		Status   string
		Total    int
		Renewals int
	}
	if got := decode[state](t, s.as("alice", "", http.MethodDelete, path, "")); got.Status != "awaiting-llm" || got.Renewals != 1 || got.Total != 0 {
		t.Errorf("state %+v", got)
	}
	if a := s.as("alice", "supervisor", "GET", "/trips", ""); a.status != 200 {
		t.Errorf("a call: %d %s", a.status, a.body)
	}
	for _, user := range []string{"alice", "auditor"} {
		a := s.as(user, "", "GET", path+"/audit", "")
		if a.status != 200 || !containsAll(a.body, []string{`"kind":"short_circuit"`, `"what":"renewed"`, `"by":"alice"`}) {
			t.Errorf("the record for %s: %d %s", user, a.status, a.body)
		}
	}
}

func TestRenewEngagement_is_for_its_user_and_auditors(t *testing.T) {
	s := pagesSite(t)
	path := s.endEngagement("alice")
	for _, user := range []string{"bob", "robot", "boss"} {
		if a := s.as(user, "supervisor", http.MethodDelete, path, ""); a.status != 404 {
			t.Errorf("%s: %d %s", user, a.status, a.body)
		}
	}
	if a := s.as("", "supervisor", http.MethodDelete, path, ""); a.status != 401 {
		t.Errorf("unknown: %d", a.status)
	}
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
		if a := s.request(http.MethodDelete, path, "", append(header, "X-Api-Key", "key-of-alice")...); a.status != 403 {
			t.Errorf("%v: %d %s", header, a.status, a.body)
		}
	}
	if p := s.problem(s.as("alice", "supervisor", "GET", "/trips", "")); p.Kind != "ended" {
		t.Fatalf("problem %+v", p)
	}
	if a := s.as("auditor", "", http.MethodDelete, path, ""); a.status != 200 {
		t.Errorf("an auditor: %d %s", a.status, a.body)
	}
	if a := s.as("alice", "supervisor", "GET", "/trips", ""); a.status != 200 {
		t.Errorf("a call: %d %s", a.status, a.body)
	}
	if a := s.as("alice", "", http.MethodDelete, path, ""); a.status != 409 {
		t.Errorf("its user, while it goes on: %d %s", a.status, a.body)
	}
	if a := s.as("auditor", "", http.MethodDelete, path, ""); a.status != 200 {
		t.Errorf("an auditor, while it goes on: %d %s", a.status, a.body)
	}
	if a := s.as("alice", "supervisor", "GET", "/trips", ""); a.status != 200 {
		t.Errorf("it would be a repetition: %d %s", a.status, a.body)
	}
}

func TestListEngagements_is_for_auditors_page_by_page(t *testing.T) {
	s := pagesSite(t)
	for _, user := range []string{"alice", "bob"} {
		s.as(user, "desk", "GET", "/trips", "")
		s.as(user, "supervisor", "GET", "/trips", "")
	}
	seen := make(map[string]bool)
	pages := 0
	for next := "/engagements?limit=3"; next != ""; pages++ {
		page := decode[listedEngagements](t, s.as("auditor", "", "GET", next, ""))
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
	page := decode[listedEngagements](t, s.as("auditor", "", "GET", "/engagements?agent=desk", ""))
	if len(page.Engagements) != 2 || page.Engagements[0].OAgent != "desk" || page.Next != "" {
		t.Errorf("of one agent: %+v", page)
	}
	if a := s.as("alice", "", "GET", "/engagements", ""); a.status != 404 {
		t.Errorf("a user: %d", a.status)
	}
	for _, query := range []string{"?limit=0", "?limit=1001", "?limit=x"} {
		if a := s.as("auditor", "", "GET", "/engagements"+query, ""); a.status != 400 {
			t.Errorf("%s: %d", query, a.status)
		}
	}
	if a := s.as("auditor", "", http.MethodDelete, "/engagements", ""); a.status != 405 {
		t.Errorf("DELETE of all: %d", a.status)
	}
}

func TestReviews_list_their_inputs_and_take_an_empty_body(t *testing.T) {
	s := pagesSite(t)
	for _, to := range []string{"Bern", strings.Repeat("Basel", 10_000), strings.Repeat("Biel", 14_000)} {
		s.as("alice", "desk", "POST", "/trips", `{"to":"`+to+`"}`)
	}
	listed := decode[struct {
		Reviews []struct {
			Location string
			Inputs   struct{ To string }
		}
	}](t, s.as("boss", "", "GET", "/reviews", ""))
	if len(listed.Reviews) != 3 || listed.Reviews[0].Inputs.To != "Bern" || !strings.HasPrefix(listed.Reviews[1].Inputs.To, "Basel") {
		t.Fatalf("%d reviews", len(listed.Reviews))
	}
	path := listed.Reviews[0].Location
	untyped, err := http.NewRequest(http.MethodPost, s.url+path+"/approve", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	untyped.Header.Set("X-Api-Key", "key-of-boss")
	if a := s.do(untyped); a.status != 415 {
		t.Errorf("a body without a type: %d %s", a.status, a.body)
	}
	for _, header := range []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: https://evil.example", "Content-Type: application/x-www-form-urlencoded"} {
		name, value, _ := strings.Cut(header, ": ")
		if a := s.request("POST", path+"/approve", "", name, value, "X-Api-Key", "key-of-boss"); a.status != 403 && a.status != 415 {
			t.Errorf("%s: %d %s", header, a.status, a.body)
		}
	}
	if a := s.request("POST", path, "", "X-Api-Key", "key-of-boss"); a.status != 400 {
		t.Errorf("no decision: %d %s", a.status, a.body)
	}
	if a := s.request("POST", path+"/approve", "", "X-Api-Key", "key-of-boss"); a.status != 200 || !strings.Contains(a.body, `"approved"`) {
		t.Errorf("nothing but the path: %d %s", a.status, a.body)
	}
}
