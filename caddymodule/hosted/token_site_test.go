package hosted_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestHosting_exchanges_the_users_token_after_a_review runs an agent whose API gets a token in exchange for the user's. The
// review takes longer than the user's token is valid, or the gateway is restarted meanwhile. The run then waits until the
// user's client sends a request with a new token.
func TestHosting_exchanges_the_users_token_after_a_review(t *testing.T) {
	for name, test := range map[string]struct {
		lifetime       time.Duration
		restart, waits bool
	}{
		"the token is valid":    {time.Hour, false, false},
		"the token has expired": {time.Second, false, true},
		"after a restart":       {time.Hour, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", "\n  create-trip: {input_restriction: {require_review: boss}}\n"),
				sitetest.Play(createTrip, modelserver.Step{Text: "Done."}))
			issuer := sitetest.NewIssuer(t)
			var exchanged atomic.Value
			tokens := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
				exchanged.Store("Bearer " + r.FormValue("subject_token"))
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"access_token":"exchanged","expires_in":60}`))
			})
			global := "agents {\nstore bolt DIR/store.db\ntoolset trips TRIPS {\ncredential oauth {\ntoken_url http://" + tokens + "/token\nclient_id gateway\ngrant token_exchange\n}\n}\n}"
			block := strings.NewReplacer("test_user", "agent_auth {\nissuer "+issuer.URL+"\naudience site\n}", "toolset TRIPS", "toolset trips").Replace(s.Block("reviews /reviews"))
			s.Start(global, block)
			bearer := func(user string, lifetime time.Duration) []string {
				return []string{"Authorization", "Bearer " + issuer.Token(t, "site", "sub", user, "exp", float64(time.Now().Add(lifetime).UnixMilli())/1000)}
			}
			location := s.Begin("", "desk", "Go", bearer("ann", test.lifetime)...)
			view := func(header []string) sitetest.RunView { return s.View(s.As("", "GET", location, "", header...)) }
			// The reviewer sees the run, and brings no token of the user.
			boss := bearer("boss", time.Hour)
			var review string
			sitetest.Eventually(t, "the review", func() bool {
				a := s.As("", "GET", "/reviews", "", boss...)
				_, rest, found := strings.Cut(a.Body, `"location":"`)
				review, _, _ = strings.Cut(rest, `"`)
				return found
			})
			if test.restart {
				if err := caddy.Stop(); err != nil {
					t.Fatal(err)
				}
				s.Start(global, block)
			}
			if test.lifetime < time.Minute {
				expired := time.Now().Add(test.lifetime)
				sitetest.Eventually(t, "the end of the token", func() bool { return time.Now().After(expired) })
			}
			if a := s.As("", "POST", review+"/approve", "", boss...); a.Status != http.StatusOK {
				t.Fatalf("decision: status %d, %s", a.Status, a.Body)
			}
			fresh := bearer("ann", time.Hour)
			sitetest.Eventually(t, "the end of the run", func() bool { return view(fresh).Status == "complete" })
			received := s.API.Received()
			if len(received) != 1 || received[0].Header.Get("Authorization") != "Bearer exchanged" {
				t.Fatalf("the API received %v", received)
			}
			if got := exchanged.Load(); test.waits && got != fresh[1] {
				t.Errorf("the exchanged token is not the new one")
			}
		})
	}
}
