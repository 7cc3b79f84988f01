package reviewers_test

import (
	"strings"
	"testing"

	_ "github.com/fairwayhq/fairway/caddymodule/auth"
	_ "github.com/fairwayhq/fairway/caddymodule/console"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// peopleSite runs a site with logins by tokens, people who review, auditors of a group, and a rule about groups.
type peopleSite struct {
	*sitetest.Site
	issuer *sitetest.Issuer
}

func newPeopleSite(t *testing.T) *peopleSite {
	t.Helper()
	s := &peopleSite{sitetest.NewSite(t), sitetest.NewIssuer(t)}
	s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  create-trip: {user_identity: false, input_restriction: {require_review: boss}}
  list-trips: {user_identity: false, input_restriction: {assertion: '"ops" in user.groups'}}
`))
	s.Start("agents {\n\ttoolset trips TRIPS\n\tstore bolt DIR/store.db\n}", `route {
	agent_auth {
		issuer `+s.issuer.URL+`
		group_claim groups
	}
	agents_console
	oagent DIR/agent.yaml {
		review_wait off
		reviews     /reviews
		engagements /engagements
		auditors    group:audit
		reviewer boss {
			people ann group:managers
			people carol after 1ms
			people group:directors after 1d
		}
	}
	reverse_proxy `+sitetest.Upstream(t, sitetest.Echo)+"\n}")
	return s
}

// as sends a request as a user with groups.
func (s *peopleSite) as(who, method, path, body string) sitetest.Response {
	s.T.Helper()
	user, groups, _ := strings.Cut(who, " ")
	return s.Request(method, path, body, "Authorization", "Bearer "+s.issuer.Token(s.T, s.URL+"/", "sub", user, "groups", strings.Fields(groups)))
}

// ask makes a call that needs a review, and returns the id of the review.
func (s *peopleSite) ask(who, to string) string {
	s.T.Helper()
	p := s.Problem(s.as(who, "POST", "/trips", `{"to":"`+to+`"}`))
	if p.Kind != "review_pending" || p.Review == "" {
		s.T.Fatalf("got %+v", p)
	}
	return p.Review
}

// TestPeople_decide_over_HTTP lists, shows and decides reviews as persons and members of groups, by the endpoint
// and by the console.
func TestPeople_decide_over_HTTP(t *testing.T) {
	s := newPeopleSite(t)
	for who, entry := range map[string]string{"ann": "ann", "mia managers": "group:managers", "carol": "carol"} {
		t.Run(entry, func(t *testing.T) {
			id := s.ask("ada managers", "to be approved by "+who)
			for _, list := range []string{"/reviews", "/console/api/reviews"} {
				sitetest.Eventually(t, who+" finds the review in "+list, func() bool { return strings.Contains(s.as(who, "GET", list, "").Body, id) })
			}
			for _, other := range []string{"ada managers directors", "dora directors", "boss", "eve audit", "group:managers"} {
				for _, list := range []string{"/reviews", "/console/api/reviews"} {
					a := s.as(other, "GET", list, "")
					// Auditors see in the console what waits for others, but not under their own reviews.
					own, _, _ := strings.Cut(a.Body, `,"open":`)
					if a.Status != 200 || strings.Contains(own, id) || !strings.HasPrefix(other, "eve") && own != a.Body {
						t.Errorf("%s lists %s: %d %s", other, list, a.Status, a.Body)
					}
				}
				for _, path := range []string{"/reviews/" + id, "/console/reviews/" + id} {
					if a := s.as(other, "GET", path, ""); a.Status != 404 {
						t.Errorf("%s gets %s: status %d, want 404", other, path, a.Status)
					}
				}
				if a := s.as(other, "POST", "/reviews/"+id+"/approve", ""); a.Status != 404 {
					t.Errorf("%s approves: status %d, want 404", other, a.Status)
				}
			}
			decided := s.as(who, "POST", "/reviews/"+id+"/approve", "")
			user, _, _ := strings.Cut(who, " ")
			by := `"decided_by":{"user":"` + user + `","entry":"` + entry + `"}`
			if decided.Status != 200 || !strings.Contains(decided.Body, by) {
				t.Errorf("decision: %d %s, want %s", decided.Status, decided.Body, by)
			}
			if a := s.as("ann", "POST", "/reviews/"+id+"/approve", ""); a.Status != 200 || !strings.Contains(a.Body, by) {
				t.Errorf("the same decision by another: %d %s, want %s", a.Status, a.Body, by)
			}
			if a := s.as("ann", "POST", "/reviews/"+id+"/deny", ""); a.Status != 409 {
				t.Errorf("the opposite decision by another: status %d, want 409", a.Status)
			}
			if page := s.as(who, "GET", "/console/reviews/"+id, "").Body; !strings.Contains(page, "Decided by") || !strings.Contains(page, entry) {
				t.Errorf("the page of the console does not say who decided: %s", page)
			}
			if a := s.as("ada managers", "POST", "/trips", `{"to":"to be approved by `+who+`"}`); a.Status != 200 {
				t.Errorf("the approved call: %d %s", a.Status, a.Body)
			}
			if got := s.audit(); !strings.Contains(got, by) {
				t.Errorf("the record has %s, want %s", got, by)
			}
		})
	}
}

// audit returns the records of all Engagements, as a member of the group of auditors reads them.
func (s *peopleSite) audit() string {
	s.T.Helper()
	list := s.as("eve audit", "GET", "/engagements", "")
	if list.Status != 200 {
		s.T.Fatalf("the auditor's list: %d %s", list.Status, list.Body)
	}
	var all strings.Builder
	for _, e := range sitetest.Decode[struct{ Engagements []struct{ Key string } }](s.T, list).Engagements {
		all.WriteString(s.as("eve audit", "GET", "/engagements/"+e.Key+"/audit", "").Body)
	}
	return all.String()
}

// TestPeople_groups_of_auditors_and_rules reads the record of another user as a member of the group of auditors
// only, and evaluates user.groups in an agent's document.
func TestPeople_groups_of_auditors_and_rules(t *testing.T) {
	s := newPeopleSite(t)
	for who, want := range map[string]int{"ada": 403, "ada dev": 403, "ops": 403, "ada dev ops": 200} {
		if a := s.as(who, "GET", "/trips", ""); a.Status != want {
			t.Errorf("the rule of %s: status %d, want %d: %s", who, a.Status, want, a.Body)
		}
	}
	if got := s.audit(); !strings.Contains(got, "list-trips") {
		t.Errorf("the auditor reads %s", got)
	}
	for _, who := range []string{"eve", "audit", "group:audit", "eve auditors"} {
		if a := s.as(who, "GET", "/engagements", ""); a.Status == 200 {
			t.Errorf("%s lists Engagements: %s", who, a.Body)
		}
	}
}

// TestPeople_names_are_not_agents refuses an agent with the name for which people decide, and steps that come after
// the review has expired.
func TestPeople_names_are_not_agents(t *testing.T) {
	for name, test := range map[string]struct{ options, want string }{
		"an agent": {"reviewer desk {\npeople ann\n}", "rename"},
		"too late": {"engagement_ttl 1d\nreviewer boss {\npeople ann\npeople bob after 1d\n}", "engagement_ttl"},
	} {
		s := sitetest.NewSite(t)
		s.Write("agent.yaml", sitetest.AgentDocument("desk", "\n  list-trips: {user_identity: false}\n"))
		err := s.Load("agents {\n\ttoolset trips TRIPS\n\tstore bolt DIR/store.db\n}", "route {\noagent DIR/agent.yaml {\n"+test.options+"\n}\nrespond OK\n}")
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}
