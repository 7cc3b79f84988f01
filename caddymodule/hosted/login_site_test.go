package hosted_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestHosting_renews_the_users_credential_behind_agent_login runs an agent whose user leaves during a review. The user's access token of the gateway and the
// provider's tokens expire meanwhile, or the gateway is restarted. The run continues without the user, unless the login has ended.
func TestHosting_renews_the_users_credential_behind_agent_login(t *testing.T) {
	for name, test := range map[string]struct{ restart, ended bool }{
		"the tokens have expired": {},
		"after a restart":         {restart: true},
		"the login has ended":     {ended: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", "\n  create-trip: {input_restriction: {require_review: boss}}\n"),
				sitetest.Play(createTrip, modelserver.Step{Text: "Done."}))
			p := sitetest.NewProvider(t, s.Site)
			p.Set(1, false, false)
			global := "agents {\nstore bolt DIR/store.db\ntoolset trips TRIPS {\ncredential oauth {\ntoken_url " + p.URL + "/token\nclient_id gateway\ngrant token_exchange\n}\n}\n}"
			block := p.AgentLogin("token_lifetime 2s") + strings.NewReplacer("test_user", "agent_auth", "toolset TRIPS", "toolset trips").Replace(s.Block("reviews /reviews"))
			s.Start(global, block)
			bearer := func(user string) []string {
				return []string{"Authorization", "Bearer " + p.Login(user, "")["access_token"].(string)}
			}
			location := s.Begin("", "desk", "Go", bearer("ann")...)
			expired := time.Now().Add(2 * time.Second)
			var review string
			sitetest.Eventually(t, "the review", func() bool {
				a := s.As("", "GET", "/reviews", "", bearer("boss")...)
				_, rest, found := strings.Cut(a.Body, `"location":"`)
				review, _, _ = strings.Cut(rest, `"`)
				return found
			})
			sitetest.Eventually(t, "the end of the access token", func() bool { return time.Now().After(expired) })
			if test.restart {
				if err := caddy.Stop(); err != nil {
					t.Fatal(err)
				}
				s.Start(global, block)
			}
			p.Set(300, false, test.ended)
			boss := bearer("boss")
			if a := s.As("", "POST", review+"/approve", "", boss...); a.Status != http.StatusOK {
				t.Fatalf("decision: status %d, %s", a.Status, a.Body)
			}
			if test.ended { // the run waits for a new login
				sitetest.Eventually(t, "the need for credentials", func() bool {
					a := s.As("", "GET", "/reviews", "", bearer("boss")...)
					return a.Status == http.StatusOK && p.Refreshes() > 0
				})
				if got := s.API.Received(); len(got) != 0 {
					t.Fatalf("the API received %v", got)
				}
				sitetest.Eventually(t, "the end of the run", func() bool { return s.View(s.As("", "GET", location, "", bearer("ann")...)).Status == "complete" })
			} else {
				sitetest.Eventually(t, "the call", func() bool { return len(s.API.Received()) == 1 })
			}
			received := s.API.Received()
			if len(received) != 1 || !strings.HasPrefix(received[0].Header.Get("Authorization"), "Bearer planted-exchanged-ann-") {
				t.Fatalf("the API received %d calls", len(received))
			}
			exchanges := p.Exchanges() // the first one was before the review
			if n := len(exchanges); n != 2 || exchanges[0].Get("subject_token") == exchanges[1].Get("subject_token") {
				t.Errorf("%d exchanges, and not of a fresh token", n)
			}
		})
	}
}
