package exchange_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

const (
	clientSecret = "planted-client-secret"
	apiToken     = "planted-api-token"
	idJAG        = "planted-id-jag"
)

// authServer is a token endpoint. It notes the requests.
type authServer struct {
	address string

	mu      sync.Mutex
	forms   []url.Values
	respond http.HandlerFunc // in place of the next token
	issued  int
}

func newAuthServer(t *testing.T) *authServer {
	a := new(authServer)
	a.address = "http://" + sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		form := r.PostForm
		if user, password, ok := r.BasicAuth(); ok {
			form.Set("basic", user+":"+password)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.forms = append(a.forms, form)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case a.respond != nil:
			a.respond(w, r)
		case r.URL.Path == "/idp":
			_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"N_A","expires_in":300,"issued_token_type":"urn:ietf:params:oauth:token-type:id-jag"}`, idJAG)
		default:
			a.issued++
			_, _ = fmt.Fprintf(w, `{"access_token":"%s-%d","token_type":"Bearer","expires_in":3600}`, apiToken, a.issued)
		}
	})
	return a
}

// requests returns the forms so far.
func (a *authServer) requests() []url.Values {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.forms)
}

// responds sets what the token endpoint does from now on; nil issues tokens.
func (a *authServer) responds(to http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.respond = to
}

// exchangeSite is a site whose callers have tokens of an issuer. The credential of the API has the options.
type exchangeSite struct {
	*sitetest.Site
	issuer *sitetest.Issuer
	auth   *authServer
}

func newExchangeSite(t *testing.T, options string, api http.HandlerFunc, handlers ...string) *exchangeSite {
	t.Helper()
	s := &exchangeSite{Site: sitetest.NewSite(t), issuer: sitetest.NewIssuer(t), auth: newAuthServer(t)}
	t.Setenv("FAIRWAY_TEST_CLIENT_SECRET", clientSecret)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "\n  list-trips: {user_identity: false}\n"))
	s.Start(`metrics
	agents {
		store bolt DIR/store.db
		toolset trips TRIPS {
			credential oauth {
				token_url `+s.auth.address+`/token
				client_id gateway
				client_secret {env.FAIRWAY_TEST_CLIENT_SECRET}
				`+options+`
			}
		}
	}`, `metrics /metrics
	agents_console {
		auditors ada grace
	}
	`+sitetest.Tracing+`
	agent_auth {
		issuer `+s.issuer.URL+`
		api_key {
			key grace secret-of-grace
		}
		audience `+s.URL+`/mcp
	}
	mcp trips
	`+strings.Join(handlers, "\n")+`
	reverse_proxy `+sitetest.Upstream(t, api))
	return s
}

// token returns a token of a caller.
func (s *exchangeSite) token(user string) string {
	return s.issuer.Token(s.T, s.URL+"/mcp", "sub", user)
}

// as returns a call with a token.
func (s *exchangeSite) as(token string) *http.Request {
	r := s.CallRequest("listTrips", "")
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func TestOAuth_requests_of_the_grants(t *testing.T) {
	const types = "urn:ietf:params:oauth:"
	for name, test := range map[string]struct {
		options string
		want    []map[string]string // SUBJECT is the caller's token, "" a parameter that must be missing
	}{
		"client credentials": {
			"grant client_credentials\nscope a b\naudience https://api.example.com\nresource https://api.example.com/x",
			[]map[string]string{{"grant_type": "client_credentials", "scope": "a b", "audience": "https://api.example.com", "resource": "https://api.example.com/x", "basic": "gateway:" + clientSecret, "subject_token": "", "client_secret": ""}},
		},
		"token exchange (Okta, Keycloak)": {
			"grant token_exchange\nscope orders.read\naudience api://orders",
			[]map[string]string{{"grant_type": types + "grant-type:token-exchange", "subject_token": "SUBJECT", "subject_token_type": types + "token-type:access_token", "audience": "api://orders", "scope": "orders.read", "requested_token_type": ""}},
		},
		"token exchange with an actor": {
			"grant token_exchange\nparam subject_token_type " + types + "token-type:jwt\nparam actor_token {file.DIR/actor}\nparam actor_token_type " + types + "token-type:jwt",
			[]map[string]string{{"subject_token_type": types + "token-type:jwt", "actor_token": "the-actor"}},
		},
		"on behalf of (Entra ID)": {
			"grant jwt_bearer\nsecret_in_body\nparam requested_token_use on_behalf_of\nscope https://graph.microsoft.com/.default",
			[]map[string]string{{"grant_type": types + "grant-type:jwt-bearer", "assertion": "SUBJECT", "requested_token_use": "on_behalf_of", "client_id": "gateway", "client_secret": clientSecret, "basic": ""}},
		},
		"ID-JAG": {
			"grant id_jag\naudience https://auth.example.com\nresource https://api.example.com\nscope x\nidentity_provider {\ntoken_url IDP\nclient_id at-idp\nclient_secret idp-secret\n}",
			[]map[string]string{
				{"grant_type": types + "grant-type:token-exchange", "requested_token_type": types + "token-type:id-jag", "subject_token": "SUBJECT", "subject_token_type": types + "token-type:id_token", "audience": "https://auth.example.com", "resource": "https://api.example.com", "basic": "at-idp:idp-secret"},
				{"grant_type": types + "grant-type:jwt-bearer", "assertion": idJAG, "basic": "gateway:" + clientSecret, "audience": ""},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			idp := newAuthServer(t)
			actor := filepath.Join(t.TempDir(), "actor")
			if err := os.WriteFile(actor, []byte("the-actor\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			s := newExchangeSite(t, strings.NewReplacer("IDP", idp.address+"/idp", "DIR/actor", actor).Replace(test.options), sitetest.Echo)
			token := s.token("ada")
			for range 2 { // the second one uses the token that is kept
				if got := s.Echo(s.as(token)).Header.Get("Authorization"); got != "Bearer "+apiToken+"-1" {
					t.Fatalf("the API gets %q", got)
				}
			}
			got := append(idp.requests(), s.auth.requests()...)
			if len(got) != len(test.want) {
				t.Fatalf("%d token requests, want %d", len(got), len(test.want))
			}
			for i, want := range test.want {
				for parameter, value := range want {
					if value == "SUBJECT" {
						value = token
					}
					if got[i].Get(parameter) != value {
						t.Errorf("request %d: %s is %q, want %q", i, parameter, got[i].Get(parameter), value)
					}
				}
			}
		})
	}
}

// Each caller has a token of his own, and a caller without one has none.
func TestOAuth_token_is_the_callers(t *testing.T) {
	s := newExchangeSite(t, "grant token_exchange", sitetest.Echo)
	ada, bob := s.token("ada"), s.token("bob")
	first, second := s.Echo(s.as(ada)).Header.Get("Authorization"), s.Echo(s.as(bob)).Header.Get("Authorization")
	if first == second || s.Echo(s.as(ada)).Header.Get("Authorization") != first {
		t.Errorf("ada has %s, bob has %s", first, second)
	}
	r := s.CallRequest("listTrips", "")
	r.Header.Set("X-API-Key", "secret-of-grace")
	if result := s.Result(s.Do(r)); !result.IsError || !testkit.ContainsAll(result.Text(), "not sent access token log in") {
		t.Errorf("a caller without a token: %s", result.Text())
	}
	// No header names a caller.
	r = s.CallRequest("listTrips", "")
	r.Header.Set("X-API-Key", "secret-of-grace")
	r.Header.Set("Authorization", "Basic "+ada)
	if result := s.Result(s.Do(r)); !result.IsError {
		t.Errorf("an unverified header: %s", result.Text())
	}
	if n := len(s.auth.requests()); n != 2 {
		t.Errorf("%d token requests", n)
	}
}

func TestOAuth_parallel_calls_make_one_token_request(t *testing.T) {
	s := newExchangeSite(t, "grant token_exchange", sitetest.Echo)
	token := s.token("ada")
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			response, err := sitetest.Client.Do(s.as(token))
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			var message struct{ Result sitetest.Result }
			if err := json.NewDecoder(response.Body).Decode(&message); err != nil || message.Result.IsError {
				t.Errorf("status %d, error %v, %s", response.StatusCode, err, message.Result.Text())
			}
		})
	}
	all.Wait()
	if n := len(s.auth.requests()); n != 1 {
		t.Errorf("%d token requests", n)
	}
}

// The API revokes the first token. The call says that it may be repeated, and gets another token then.
func TestOAuth_401_drops_the_token(t *testing.T) {
	s := newExchangeSite(t, "grant token_exchange", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer "+apiToken+"-1" {
			http.Error(w, "revoked: "+r.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		sitetest.Echo(w, r)
	})
	token := s.token("ada")
	if result := s.Result(s.Do(s.as(token))); !result.IsError || !testkit.ContainsAll(result.Text(), "401 revoked repeat") || strings.Contains(result.Text(), apiToken) {
		t.Errorf("the first call: %s", result.Text())
	}
	if got := s.Echo(s.as(token)).Header.Get("Authorization"); got != "Bearer "+apiToken+"-2" {
		t.Errorf("the second call has %s", got)
	}
}

// failing are responses of the token endpoint, each with texts that the message of the failure has.
var failing = map[string]struct {
	status     int
	body, want string
}{
	"the caller's token is not accepted":       {400, `{"error":"invalid_grant","error_description":"SUBJECT is not active"}`, "invalid_grant log in again aud"},
	"another login is required (Entra ID)":     {400, `{"error":"interaction_required","error_codes":[50076],"claims":"{\"access_token\":{\"polids\":{\"essential\":true}}}"}`, "interaction_required log in again claims polids"},
	"the gateway's client is not accepted":     {401, `{"error":"invalid_client","error_description":"planted-client-secret"}`, "operator log"},
	"the server is down":                       {500, "SUBJECT", "authorization server repeated"},
	"the response is a page with the token":    {200, "<p>SUBJECT planted-api-token", "authorization server repeated"},
	"the response redirects":                   {307, "SUBJECT", "operator log"},
	"the token is not for a header":            {200, `{"access_token":"planted-api-token\n"}`, "authorization server"},
	"the token is bound to a key":              {200, `{"access_token":"planted-api-token","token_type":"DPoP"}`, "authorization server"},
	"the error is no code but repeats a token": {400, `{"error":"SUBJECT"}`, "operator log"},
}

func TestOAuth_failures_are_named(t *testing.T) {
	s := newExchangeSite(t, "grant token_exchange", sitetest.Echo)
	for name, test := range failing {
		token := s.token("ada " + name)
		s.auth.responds(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", s.auth.address+"/elsewhere")
			w.WriteHeader(test.status)
			_, _ = w.Write([]byte(strings.ReplaceAll(test.body, "SUBJECT", token)))
		})
		result := s.Result(s.Do(s.as(token)))
		if !result.IsError || !testkit.ContainsAll(result.Text(), "not sent "+test.want) {
			t.Errorf("%s: %s", name, result.Text())
		}
		if strings.Contains(result.Text(), token) || strings.Contains(result.Text(), "planted") {
			t.Errorf("%s: the failure has a secret: %s", name, result.Text())
		}
	}
	s.auth.responds(nil)
	if got := s.Echo(s.as(s.token("ada"))).Header.Get("Authorization"); got == "" {
		t.Error("no token after the failures")
	}
}

// TestOAuth_secrets_are_nowhere looks for tokens and secrets in everything that the gateway writes, after calls of each
// grant that succeed and fail.
func TestOAuth_secrets_are_nowhere(t *testing.T) {
	for _, grant := range []string{"client_credentials", "token_exchange", "jwt_bearer", "id_jag"} {
		t.Run(grant, func(t *testing.T) {
			spans := sitetest.CollectSpans(t)
			options := "grant " + grant
			if grant == "id_jag" {
				idp := newAuthServer(t)
				options += "\nidentity_provider {\ntoken_url " + idp.address + "/idp\nclient_id gateway\nclient_secret {env.FAIRWAY_TEST_CLIENT_SECRET}\n}"
			}
			fail := false
			s := newExchangeSite(t, options, func(w http.ResponseWriter, r *http.Request) {
				if fail {
					http.Error(w, "unknown token "+r.Header.Get("Authorization"), http.StatusUnauthorized)
					return
				}
				_, _ = w.Write([]byte(`{}`))
			}, "oagent /trips* DIR/agent.yaml")
			token := s.token("ada")
			var shown strings.Builder
			call := func() {
				r := s.as(token)
				r.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
				shown.WriteString(s.Do(r).Body)
			}
			call()
			fail = true
			call()
			for _, test := range failing {
				s.auth.responds(func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(test.status)
					_, _ = w.Write([]byte(strings.ReplaceAll(test.body, "SUBJECT", token)))
				})
				call()
			}
			for _, span := range spans.Named("tools/call listTrips", 2+len(failing)) {
				shown.WriteString(span.String())
			}
			for _, path := range []string{"/console", "/console/calls", "/console/api/calls", "/metrics"} {
				response := s.Ask("GET", path, "X-API-Key", "secret-of-grace")
				if path == "/console/api/calls" && !strings.Contains(response.Body, "listTrips") || response.Status != http.StatusOK && response.Status != http.StatusSeeOther {
					t.Errorf("%s: status %d, %.300s", path, response.Status, response.Body)
				}
				shown.WriteString(response.Body)
			}
			s.Logged("not sent", "trips")
			sitetest.Eventually(t, "the store", func() bool { _, err := os.Stat(filepath.Join(s.Dir, "store.db")); return err == nil })
			files := 0
			err := filepath.WalkDir(s.Dir, func(path string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				files++
				content, err := os.ReadFile(path)
				shown.Write(content)
				return err
			})
			if err != nil || files < 3 {
				t.Fatalf("%d files, error %v", files, err)
			}
			for _, secret := range []string{token, token[len(token)-40:], apiToken, idJAG, clientSecret} {
				if at := strings.Index(shown.String(), secret); at >= 0 {
					t.Errorf("%.10s… is in …%s", secret, shown.String()[max(0, at-300):at])
				}
			}
		})
	}
}

func TestAdaptOAuth_errors(t *testing.T) {
	for options, want := range map[string]string{
		"":                                     "needs token_url client_id grant",
		"token_url https://a.example\ngrant x": "client_credentials token_exchange",
		"grant id_jag\nidentity_provider {\nx\n}": "unrecognized identity_provider",
		"tokn_url x":           "unrecognized token_url",
		"param a":              "param name value",
		"param a b\nparam a c": "param a twice",
		"client_secret secret\nclient_secret secret": "client_secret twice",
	} {
		_, _, err := sitetest.Adapt("http://a.test {\n\tmcp {\n\t\topenapi o.yaml\n\t\tcredential oauth {\n" + options + "\n}\n\t}\n}")
		if err == nil || !testkit.ContainsAll(err.Error(), want) || strings.Contains(err.Error(), "t secret") {
			t.Errorf("%s: got %v, want %q", options, err, want)
		}
	}
}

func TestOAuth_options_are_checked_at_start(t *testing.T) {
	const good = "token_url https://login.example.com/token\nclient_id gateway\ngrant token_exchange\n"
	for options, want := range map[string]string{
		good: "",
		"token_url http://login.example.com/token\nclient_id gateway\ngrant token_exchange": "token_url https",
		good + "client_secret $SECRET":                                               "{env.NAME}",
		good + "client_secret a\nprivate_key missing.pem":                            "one of them",
		good + "private_key missing.pem":                                             "missing.pem",
		good + "secret_in_body":                                                      "client_secret",
		good + "key_id a":                                                            "private_key",
		good + "param subject_token a":                                               "subject_token gateway",
		good + "audience {http.request.host}":                                        "placeholders",
		good + "identity_provider {\ntoken_url https://a.example\nclient_id a\n}":    "identity_provider",
		"token_url https://login.example.com/token\nclient_id gateway\ngrant id_jag": "identity_provider",
	} {
		s := sitetest.NewSite(t)
		err := s.Load("agents {\ntoolset trips TRIPS {\ncredential oauth {\n"+options+"\n}\n}\n}", "mcp trips\nrespond ok")
		if want == "" != (err == nil) || err != nil && !testkit.ContainsAll(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", options, err, want)
		}
	}
}
