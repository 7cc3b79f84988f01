package exchange_test

import (
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// newLoginSite returns a site whose users log in by agent_login, and whose API gets tokens that the provider exchanges.
func newLoginSite(t *testing.T, options string) *sitetest.Provider {
	t.Helper()
	s := sitetest.NewSite(t)
	p := sitetest.NewProvider(t, s)
	s.Start("metrics\nagents {\nstore bolt DIR/store.db\ntoolset trips TRIPS {\ncredential oauth {\ntoken_url "+p.URL+"/token\nclient_id gateway\n"+
		strings.ReplaceAll(options, "PROVIDER", p.URL)+"\n}\n}\n}",
		"metrics /metrics\n"+p.AgentLogin("")+"agents_console {\nauditors ada\n}\nagent_auth\nmcp trips\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	return p
}

// callAs calls a tool with an access token of the gateway.
func callAs(s *sitetest.Site, tokens map[string]any) sitetest.Result {
	s.T.Helper()
	r := s.CallRequest("listTrips", "")
	r.Header.Set("Authorization", "Bearer "+tokens["access_token"].(string))
	return s.Result(s.Do(r))
}

type loginGrant struct{ options, parameter, prefix string }

// loginGrants are the grants that exchange a token of the provider, by name: the options, and the parameter and the beginning of the subject.
func loginGrants() map[string]loginGrant {
	return map[string]loginGrant{
		"token_exchange":              {"grant token_exchange", "subject_token", "planted-access-"},
		"jwt_bearer":                  {"grant jwt_bearer", "assertion", "planted-access-"},
		"id_jag":                      {"grant id_jag\nidentity_provider {\ntoken_url PROVIDER/token\nclient_id gateway\n}", "subject_token", "ey"},
		"token_exchange of ID tokens": {"grant token_exchange\nparam subject_token_type urn:ietf:params:oauth:token-type:id_token", "subject_token", "ey"},
	}
}

// Behind agent_login, the subject is the provider's token of the caller's login, and never that of another user.
func TestOAuth_exchanges_the_providers_token_behind_agent_login(t *testing.T) {
	for name, test := range loginGrants() {
		t.Run(name, func(t *testing.T) {
			p := newLoginSite(t, test.options)
			ada, bob := p.Login("ada", ""), p.Login("bob", "")
			for user, tokens := range map[string]map[string]any{"ada": ada, "bob": bob} {
				for range 2 { // the second one uses the token that is kept
					if result := callAs(p.Site, tokens); result.IsError || !strings.Contains(result.Text(), "planted-exchanged-"+user+"-") {
						t.Fatalf("%s: %s", user, result.Text())
					}
				}
			}
			perCall := 1
			if strings.HasPrefix(test.options, "grant id_jag") {
				perCall = 2
			}
			got := p.Exchanges()
			if len(got) != 2*perCall {
				t.Fatalf("%d exchanges", len(got))
			}
			if subject := got[0].Get(test.parameter); !strings.HasPrefix(subject, test.prefix) {
				t.Errorf("the subject is %.20s…", subject)
			}
			// A new access token of the same login uses the token that is kept.
			renewed := p.Token(url.Values{"grant_type": {"refresh_token"}, "client_id": {"inspector"}, "refresh_token": {ada["refresh_token"].(string)}})
			if result := callAs(p.Site, renewed); result.IsError || len(p.Exchanges()) != len(got) {
				t.Errorf("after a refresh: %d exchanges, %s", len(p.Exchanges()), result.Text())
			}
		})
	}
}

func TestOAuth_failures_behind_agent_login_are_named(t *testing.T) {
	p := newLoginSite(t, "grant token_exchange")
	p.Set(10, false, false) // each use needs a refresh
	ada := p.Login("ada", "")
	p.Set(10, true, false)
	if result := callAs(p.Site, ada); !result.IsError || !testkit.ContainsAll(result.Text(), "not sent provider repeated") {
		t.Errorf("the provider is down: %s", result.Text())
	}
	p.Set(300, false, false)
	if result := callAs(p.Site, ada); result.IsError || p.Refreshes() != 1 {
		t.Errorf("after the outage: %d refreshes, %s", p.Refreshes(), result.Text())
	}
	p.Set(10, false, false)
	bob := p.Login("bob", "")
	p.Set(10, false, true)
	for range 2 {
		if result := callAs(p.Site, bob); !result.IsError || !testkit.ContainsAll(result.Text(), "not sent login ended log in again") {
			t.Errorf("the login has ended: %s", result.Text())
		}
	}
	cron := p.Token(url.Values{"grant_type": {"client_credentials"}, "client_id": {"cron"}, "client_secret": {"planted-secret-of-cron"}})
	if result := callAs(p.Site, cron); !result.IsError || !testkit.ContainsAll(result.Text(), "not sent machine log in as a user") {
		t.Errorf("a machine: %s", result.Text())
	}
}

func TestOAuth_secrets_are_nowhere_behind_agent_login(t *testing.T) {
	for name, grant := range loginGrants() {
		t.Run(name, func(t *testing.T) { searchSecrets(t, grant) })
	}
}

// searchSecrets makes calls that succeed and fail, and searches everything that the site has written and shown for their secrets.
func searchSecrets(t *testing.T, grant loginGrant) {
	p := newLoginSite(t, grant.options)
	p.Set(10, false, false)
	ada := p.Login("ada", "")
	var shown strings.Builder
	shown.WriteString(p.Site.Ask("GET", "/metrics").Body)
	for _, state := range []struct{ down, refused bool }{{}, {down: true}, {refused: true}} {
		p.Set(10, state.down, state.refused)
		if result := callAs(p.Site, ada); result.IsError {
			shown.WriteString(result.Text())
		}
	}
	for _, path := range []string{"/console/api/calls", "/metrics"} {
		response := p.Site.Ask("GET", path, "Authorization", "Bearer "+ada["access_token"].(string))
		if response.Status != http.StatusOK && path == "/metrics" {
			t.Errorf("%s: %d", path, response.Status)
		}
		shown.WriteString(response.Body)
	}
	files := 0
	err := filepath.WalkDir(p.Site.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "Caddyfile") {
			return err
		}
		files++
		content, err := os.ReadFile(path)
		shown.Write(content)
		return err
	})
	if err != nil || files < 2 {
		t.Fatalf("%d files, error %v", files, err)
	}
	secrets := []string{"planted-", ada["access_token"].(string), ada["refresh_token"].(string), "secret-of-the-gateway"}
	for _, exchange := range p.Exchanges() {
		if secret := exchange.Get(grant.parameter); secret != "" {
			secrets = append(secrets, secret)
		}
	}
	if len(secrets) < 5 {
		t.Fatal("no token was exchanged")
	}
	for _, secret := range secrets {
		if at := strings.Index(shown.String(), secret); at >= 0 {
			t.Errorf("%.10s… is in …%q", secret, shown.String()[max(0, at-300):at+20])
		}
	}
}
