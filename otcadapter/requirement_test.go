package otcadapter

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/security"
)

// secured is a Toolset whose tool secured has this security.
func secured(schemes ...tools.SecurityRequirement) *tools.Toolset {
	toolset := tools.NewToolset("vault", []*tools.Tool{
		{Name: "secured", Plan: tools.Plan{Method: "POST", Path: "/s", Security: schemes}},
		{Name: "open", Plan: tools.Plan{Method: "GET", Path: "/o"}},
	})
	toolset.Title, toolset.Version = "Vault", "1.0.0"
	toolset.SecuritySchemes = map[string]*security.Scheme{
		"oauth": {Name: "oauth", Type: "oauth2", Flows: []security.Flow{
			{Grant: "clientCredentials", TokenURL: "https://id.example/token"},
			{Grant: "authorizationCode", AuthorizationURL: "https://id.example/authorize"},
		}},
		"oidc":    {Name: "oidc", Type: "openIdConnect", OpenIDConnectURL: "https://id.example/.well-known/openid-configuration"},
		"bearer":  {Name: "bearer", Type: "http", Scheme: "bearer"},
		"basic":   {Name: "basic", Type: "http", Scheme: "basic"},
		"key":     {Name: "key", Type: "apiKey", In: "header", ParameterName: "X-Key"},
		"query":   {Name: "query", Type: "apiKey", In: "query", ParameterName: "k"},
		"session": {Name: "session", Type: "apiKey", In: "cookie", ParameterName: "sid"},
		"mtls":    {Name: "mtls", Type: "mutualTLS"},
	}
	return toolset
}

type need = tools.SecurityRequirement

func TestRequirements_listed(t *testing.T) {
	cases := []struct {
		rule     string
		security []tools.SecurityRequirement
		held     bool
		want     any // nil for none
	}{
		{"none", nil, false, nil},
		{"oauth2 with scopes", []need{{"oauth": {"read", "write"}}}, false, map[string]any{
			"authorization": []any{map[string]any{"id": "oauth", "oauth2": map[string]any{"scopes": []any{"read", "write"}}}},
		}},
		{"openIdConnect is OAuth", []need{{"oidc": {}}}, false, map[string]any{
			"authorization": []any{map[string]any{"id": "oidc", "oauth2": map[string]any{"scopes": []any{}}}},
		}},
		{"bearer is an authorization without OAuth", []need{{"bearer": {}}}, false, map[string]any{
			"authorization": []any{map[string]any{"id": "bearer"}},
		}},
		{"keys and basic are secrets", []need{{"key": {}, "basic": {}}}, false, map[string]any{
			"secrets": []any{map[string]any{"id": "basic"}, map[string]any{"id": "key"}},
		}},
		{"the first alternative", []need{{"key": {}}, {"oauth": {}}}, false, map[string]any{
			"secrets": []any{map[string]any{"id": "key"}},
		}},
		{"an alternative without any makes all optional", []need{{"key": {}}, {}}, false, nil},
		{"what a call cannot bring is not asked for", []need{{"mtls": {}, "key": {}}}, false, map[string]any{
			"secrets": []any{map[string]any{"id": "key"}},
		}},
		{"an undefined scheme", []need{{"typo": {}}}, false, nil},
		{"what the gateway holds", []need{{"key": {}}}, true, nil},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			site := siteOf(secured(c.security...), nil)
			site.Toolkits[0].InjectsCredentials = c.held
			New(Options{}).ServeHTTP(recorder, httptest.NewRequest("GET", "/tools", nil), "/tools", site)
			members := answer{recorder, t}.json()
			for _, list := range []string{"tools", "items"} {
				definition := members[list].([]any)[0].(map[string]any)
				got, present := definition["requirements"]
				if present != (c.want != nil) || present && !reflect.DeepEqual(got, c.want) {
					t.Errorf("%s: requirements = %v, want %v", list, got, c.want)
				}
			}
		})
	}
}

// sent is what a call was sent with.
type sent struct {
	called bool
	*http.Request
}

func (s *sent) caller() tools.Caller {
	return callerFunc(func(ctx context.Context, _ string, _ []byte) tools.Outcome {
		s.called = true
		s.Request = httptest.NewRequest("POST", "/s", nil)
		s.Header.Set("Authorization", "Bearer own")
		security.SupplementFromContext(ctx).Apply(s.Request)
		return tools.Outcome{Result: jsonResult("1")}
	})
}

func TestRequirements_applied(t *testing.T) {
	cases := []struct {
		rule     string
		security []tools.SecurityRequirement
		context  string
		header   http.Header // of the caller
		held     bool
		status   int
		want     map[string]string // headers of the call, or ?k
		missing  any
	}{
		{
			rule: "a token", security: []need{{"oauth": {"read"}}}, context: `{"authorization":[{"id":"oauth","token":"T0ken"}]}`,
			status: 200, want: map[string]string{"Authorization": "Bearer T0ken"},
		},
		{
			rule: "a token for bearer", security: []need{{"bearer": {}}}, context: `{"authorization":[{"id":"bearer","token":"T0ken"}]}`,
			status: 200, want: map[string]string{"Authorization": "Bearer T0ken"},
		},
		{
			rule: "user and password", security: []need{{"basic": {}}}, context: `{"secrets":[{"id":"basic","value":"ada:pw"}]}`,
			status: 200, want: map[string]string{"Authorization": "Basic YWRhOnB3"},
		},
		{
			rule: "a key in a header", security: []need{{"key": {}}}, context: `{"secrets":[{"id":"key","value":"K"}]}`,
			status: 200, want: map[string]string{"X-Key": "K", "Authorization": "Bearer own"},
		},
		{
			rule: "a key in the query", security: []need{{"query": {}}}, context: `{"secrets":[{"id":"query","value":"a&b"}]}`,
			status: 200, want: map[string]string{"?k": "a&b"},
		},
		{
			rule: "a key in a cookie", security: []need{{"session": {}}}, context: `{"secrets":[{"id":"session","value":"S"}]}`,
			status: 200, want: map[string]string{"Cookie": "sid=S"},
		},
		{
			rule: "all of an alternative", security: []need{{"key": {}, "oauth": {}}},
			context: `{"secrets":[{"id":"key","value":"K"}],"authorization":[{"id":"oauth","token":"T"}]}`,
			status:  200, want: map[string]string{"X-Key": "K", "Authorization": "Bearer T"},
		},
		{
			rule: "the alternative that the context has", security: []need{{"key": {}}, {"oauth": {}}},
			context: `{"authorization":[{"id":"oauth","token":"T"}]}`, status: 200, want: map[string]string{"Authorization": "Bearer T", "X-Key": ""},
		},
		{
			rule: "credentials are used though they are optional", security: []need{{}, {"key": {}}},
			context: `{"secrets":[{"id":"key","value":"K"}]}`, status: 200, want: map[string]string{"X-Key": "K"},
		},
		{rule: "optional", security: []need{{"key": {}}, {}}, status: 200, want: map[string]string{"X-Key": ""}},
		{
			rule: "the caller's own header", security: []need{{"oauth": {}}}, header: http.Header{"Authorization": {"Bearer own"}}, status: 200,
			want: map[string]string{"Authorization": "Bearer own"},
		},
		{rule: "the caller's own key", security: []need{{"key": {}}}, header: http.Header{"X-Key": {"own"}}, status: 200},
		{rule: "the caller's own cookie", security: []need{{"session": {}}}, header: http.Header{"Cookie": {"a=b; sid=own"}}, status: 200},
		{
			rule: "another cookie", security: []need{{"session": {}}}, header: http.Header{"Cookie": {"a=b"}}, status: 400,
			missing: map[string]any{"secrets": []any{map[string]any{"id": "session"}}},
		},
		{
			rule: "half from the context, half from the caller", security: []need{{"key": {}, "oauth": {}}},
			context: `{"secrets":[{"id":"key","value":"K"}]}`, header: http.Header{"Authorization": {"Bearer own"}}, status: 200,
			want: map[string]string{"X-Key": "K"},
		},
		{rule: "the gateway's", security: []need{{"key": {}}}, held: true, status: 200},
		{
			rule: "the call's before the gateway's", security: []need{{"key": {}}}, held: true, context: `{"secrets":[{"id":"key","value":"K"}]}`,
			status: 200, want: map[string]string{"X-Key": "K"},
		},
		{rule: "missing", security: []need{{"oauth": {}, "key": {}}}, status: 400, missing: map[string]any{
			"authorization": []any{map[string]any{"id": "oauth", "url": "https://id.example/authorize"}},
			"secrets":       []any{map[string]any{"id": "key"}},
		}},
		{
			rule: "only what is missing", security: []need{{"oauth": {}, "key": {}}}, context: `{"authorization":[{"id":"oauth","token":"T"}]}`,
			status: 400, missing: map[string]any{"secrets": []any{map[string]any{"id": "key"}}},
		},
		{
			rule: "the operator's URL", security: []need{{"bearer": {}}}, status: 400,
			missing: map[string]any{"authorization": []any{map[string]any{"id": "bearer", "url": "https://connect.example"}}},
		},
		{
			rule: "a credential of another id", security: []need{{"key": {}}}, context: `{"secrets":[{"id":"other","value":"K"}]}`, status: 400,
			missing: map[string]any{"secrets": []any{map[string]any{"id": "key"}}},
		},
		{rule: "a credential that breaks the line", security: []need{{"key": {}}}, context: `{"secrets":[{"id":"key","value":"Kx\r\nX-Admin: 1"}]}`, status: 400},
	}
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			var sent sent
			site := siteOf(secured(c.security...), sent.caller())
			site.Toolkits[0].InjectsCredentials = c.held
			body := `{"tool_id":"Vault.secured"}`
			if c.context != "" {
				body = `{"tool_id":"Vault.secured","context":` + c.context + `}`
			}
			request := httptest.NewRequest("POST", "/otc/call", strings.NewReader(body))
			maps.Copy(request.Header, c.header)
			request.Header.Set("Content-Type", "application/json")
			recorder := httptest.NewRecorder()
			s := New(Options{AuthorizationURLs: map[string]string{"bearer": "https://connect.example"}})
			s.ServeHTTP(recorder, request, "/call", site)
			members := answer{recorder, t}.json()
			if recorder.Code != c.status || sent.called != (c.status == 200) {
				t.Fatalf("status %d, called %v: %s", recorder.Code, sent.called, recorder.Body)
			}
			for name, want := range c.want {
				got := sent.Request.Header.Get(name)
				if name == "?k" {
					got = sent.URL.Query().Get("k")
				}
				if got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if c.missing != nil {
				if got := members["missing_requirements"]; !reflect.DeepEqual(got, c.missing) {
					t.Errorf("missing_requirements = %v, want %v", got, c.missing)
				}
				oxp(t).check(t, "/components/schemas/ServerErrorResponse", members)
			}
			if strings.Contains(recorder.Body.String(), "X-Admin") {
				t.Errorf("the answer repeats a secret: %s", recorder.Body)
			}
		})
	}
}

func TestRequirements_bad_credentials(t *testing.T) {
	refusal := func() tools.Outcome {
		result := jsonResult(`{}`)
		result.Status = 401
		result.Header.Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		return tools.Outcome{Result: result, Failure: &tools.Failure{Kind: tools.Refused, Status: 401, Message: "POST /s answered 401: bad token T0psecret"}}
	}
	post := func(body string, header http.Header) answer {
		caller := callerFunc(func(context.Context, string, []byte) tools.Outcome { return refusal() })
		request := httptest.NewRequest("POST", "/otc/call", strings.NewReader(body))
		maps.Copy(request.Header, header)
		request.Header.Set("Content-Type", "application/json")
		recorder := httptest.NewRecorder()
		New(Options{DeveloperMessages: true}).ServeHTTP(recorder, request, "/tools/call", siteOf(secured(need{"oauth": {}}), caller))
		return answer{recorder, t}
	}
	t.Run("of the call", func(t *testing.T) {
		got := post(`{"tool_id":"Vault.secured","context":{"authorization":[{"id":"oauth","token":"T0psecret"}]}}`, nil)
		if got.Code != 401 || !strings.Contains(got.json()["message"].(string), `"oauth"`) {
			t.Errorf("%d %s", got.Code, got.Body)
		}
		if got.Header().Get("WWW-Authenticate") == "" {
			t.Error("no WWW-Authenticate")
		}
		if strings.Contains(got.Body.String(), "T0psecret") {
			t.Errorf("the answer repeats the token: %s", got.Body)
		}
	})
	t.Run("of the caller", func(t *testing.T) {
		if got := post(`{"tool_id":"Vault.secured"}`, http.Header{"Authorization": {"Bearer x"}}); got.Code != 401 {
			t.Errorf("%d %s", got.Code, got.Body)
		}
	})
	t.Run("of no caller are the tool's failure", func(t *testing.T) {
		if got := post(`{"tool_id":"Vault.open"}`, nil); got.Code != 200 {
			t.Errorf("%d %s", got.Code, got.Body)
		}
	})
}

func TestAccess_scopes_of_the_token_bound_what_the_gateway_lends(t *testing.T) {
	for _, c := range []struct {
		rule   string
		access *tools.Access
		held   bool
		body   string
		status int
	}{
		{"no token", nil, true, `{"tool_id":"Vault.secured"}`, 200},
		{"enough", &tools.Access{Scopes: []string{"read", "write"}}, true, `{"tool_id":"Vault.secured"}`, 200},
		{"too little", &tools.Access{Scopes: []string{"read"}, Metadata: "https://x/meta"}, true, `{"tool_id":"Vault.secured"}`, 403},
		{"a tool without scopes", &tools.Access{}, true, `{"tool_id":"Vault.open"}`, 200},
		{"enough and the call's own token", &tools.Access{Scopes: []string{"read", "write"}}, true, `{"tool_id":"Vault.secured","context":{"authorization":[{"id":"oauth","token":"T"}]}}`, 200},
		{"the call's own token, which the gateway's replaces", &tools.Access{Scopes: []string{"read"}, Metadata: "https://x/meta"}, true, `{"tool_id":"Vault.secured","context":{"authorization":[{"id":"oauth","token":"T"}]}}`, 403},
		{"nothing is lent", &tools.Access{}, false, `{"tool_id":"Vault.secured"}`, 400},
	} {
		t.Run(c.rule, func(t *testing.T) {
			site := siteOf(secured(need{"oauth": {"write"}}), answering(tools.Outcome{Result: jsonResult("1")}))
			site.Toolkits[0].InjectsCredentials, site.Access = c.held, c.access
			request := httptest.NewRequest("POST", "/otc/call", strings.NewReader(c.body))
			request.Header.Set("Content-Type", "application/json")
			recorder := httptest.NewRecorder()
			New(Options{}).ServeHTTP(recorder, request, "/call", site)
			if recorder.Code != c.status {
				t.Fatalf("status %d, want %d: %s", recorder.Code, c.status, recorder.Body)
			}
			if challenge := recorder.Header().Get("WWW-Authenticate"); c.status == 403 &&
				challenge != `Bearer error="insufficient_scope", scope="write read", resource_metadata="https://x/meta"` {
				t.Errorf("WWW-Authenticate: %s", challenge)
			}
		})
	}
}

// TestAccess_an_API_key_does_not_replace_a_scope: the gateway's own API key would satisfy the
// operation's other alternative, but the user's token lacks the scope.
func TestAccess_an_API_key_does_not_replace_a_scope(t *testing.T) {
	site := siteOf(secured(need{"key": {}}, need{"oauth": {"write"}}), answering(tools.Outcome{Result: jsonResult("1")}))
	site.Toolkits[0].InjectsCredentials, site.Access = true, &tools.Access{Scopes: []string{"read"}}
	request := httptest.NewRequest("POST", "/otc/call", strings.NewReader(`{"tool_id":"Vault.secured"}`))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	New(Options{}).ServeHTTP(recorder, request, "/call", site)
	if recorder.Code != http.StatusForbidden {
		t.Errorf("status %d, want 403: %s", recorder.Code, recorder.Body)
	}
}

// TestAuthorizationURLs_of_unknown_schemes wants a warning about a URL for a scheme
// that no document has, once all documents are loaded.
func TestAuthorizationURLs_of_unknown_schemes(t *testing.T) {
	for _, c := range []struct {
		rule, id string
		sets     []*tools.Toolset
		want     string // words of the only warning
	}{
		{"known", "oauth", []*tools.Toolset{calculator(), secured()}, ""},
		{"near", "Oauth2", []*tools.Toolset{calculator(), secured()}, `authorization_url "Oauth2" mean oauth`},
		{"not near", "github", []*tools.Toolset{secured()}, `authorization_url "github" basic bearer key mtls oauth oidc query session`},
		{"one is not loaded", "github", []*tools.Toolset{nil, secured()}, ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var warned []string
			s := New(Options{AuthorizationURLs: map[string]string{c.id: "https://id.example/"}, Warn: func(message string) { warned = append(warned, message) }})
			toolkits := make([]Toolkit, len(c.sets))
			for i, set := range c.sets {
				toolkits[i].Tools = set
			}
			s.catalog(toolkits)
			if c.want == "" {
				if len(warned) != 0 {
					t.Errorf("got %q, want no warning", warned)
				}
				return
			}
			if len(warned) != 1 || !testkit.ContainsAll(warned[0], c.want) {
				t.Errorf("got %q, want one warning with %q", warned, c.want)
			}
		})
	}
}
