package mcp_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// mixed is a document with a tool for each way in which an operation can be secured.
const mixed = `openapi: 3.1.0
info: {title: Mixed, version: 1.0.0}
components:
  securitySchemes:
    oauth: {type: oauth2, flows: {authorizationCode: {authorizationUrl: https://a.test/a, tokenUrl: https://a.test/t, scopes: {read: r}}}}
    openid: {type: openIdConnect, openIdConnectUrl: https://a.test/o}
    bearer: {type: http, scheme: bearer}
    key: {type: apiKey, in: header, name: X-Key}
paths:
  /open: {get: {operationId: open, security: [], responses: {"200": {description: ok}}}}
  /either: {get: {operationId: either, security: [{}, {oauth: [read]}], responses: {"200": {description: ok}}}}
  /key: {get: {operationId: key, security: [{key: []}], responses: {"200": {description: ok}}}}
  /login: {get: {operationId: login, security: [{oauth: []}], responses: {"200": {description: ok}}}}
  /openid: {get: {operationId: openid, security: [{openid: []}, {key: []}], responses: {"200": {description: ok}}}}
  /bearer: {get: {operationId: bearer, security: [{bearer: []}], responses: {"200": {description: ok}}}}
  /scoped: {get: {operationId: scoped, security: [{oauth: [read]}], responses: {"200": {description: ok}}}}
`

// mixedSite runs a site whose tools use the gateway's credential. The API repeats what it gets.
func mixedSite(t *testing.T, before string) *sitetest.Site {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("mixed.yaml", mixed)
	s.Start("agents {\ntoolset mixed DIR/mixed.yaml {\ncredential header Authorization \"Bearer key-of-the-gateway\"\n}\n}",
		before+"\nmcp /mcp mixed\nrespond \"called {method} {path}\"")
	return s
}

// post sends a message to the endpoint.
func post(t *testing.T, s *sitetest.Site, method, params string, header ...string) sitetest.Response {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, s.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return s.Do(r)
}

// loginResult is the body of the response to a call that needs a login.
type loginResult struct {
	Result struct {
		IsError bool
		Content []struct{ Text string }
		Meta    map[string]any `json:"_meta"`
	}
}

// With optional, callers who are not known get the open tools, and a 401 for those that need a login.
func TestMixedLogin_callers_get_what_they_may_call(t *testing.T) {
	i := sitetest.NewIssuer(t)
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	basic := "basic_auth {\nada " + string(hash) + "\n}\n"
	optional := "agent_auth {\nissuer " + i.URL + "\noptional\napi_key {\nkey grace secret-of-grace\n}\n}\n"
	forwarded := "forward_auth " + sitetest.NewIssuer(t).Listener.Addr().String() + " {\nuri /keys\n}\n"
	ada := []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("ada:secret"))}
	for name, test := range map[string]struct {
		before string
		header []string
		status map[string]int // by tool; 200 if it is missing
	}{
		"a caller without one": {optional, nil, map[string]int{"login": 401, "openid": 401, "bearer": 401, "scoped": 401}},
		"a token":              {optional, []string{"Authorization", "TOKEN other"}, map[string]int{"scoped": 403}},
		"a token with scopes":  {optional, []string{"Authorization", "TOKEN read"}, nil},
		"a key":                {optional, []string{"X-API-Key", "secret-of-grace"}, nil},
		"keys only, without":   {"agent_auth {\napi_key {\nkey grace secret-of-grace\n}\noptional\n}\n", nil, map[string]int{"login": 401, "openid": 401, "bearer": 401, "scoped": 401}},
		"forward_auth":         {forwarded + optional, nil, map[string]int{"scoped": 401}},
		"no agent_auth":        {"", nil, nil},
		"basic_auth":           {basic + optional, ada, map[string]int{"scoped": 401}},
		"basic_auth alone":     {basic, ada, nil},
		"required":             {"agent_auth {\nissuer " + i.URL + "\n}\n", []string{"Authorization", "TOKEN read"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := mixedSite(t, test.before)
			header := append([]string(nil), test.header...)
			for n, value := range header {
				if scope, ok := strings.CutPrefix(value, "TOKEN "); ok {
					header[n] = "Bearer " + i.Token(t, s.URL, "scope", scope)
				}
			}
			for _, tool := range []string{"open", "either", "key", "login", "openid", "bearer", "scoped"} {
				want := 200
				if test.status[tool] != 0 {
					want = test.status[tool]
				}
				got := post(t, s, "tools/call", `{"name":"`+tool+`","arguments":{}}`, header...)
				if ran := strings.Contains(got.Body, "called GET /"+tool); got.Status != want || ran != (want == 200) {
					t.Errorf("%s: %d %s, want %d", tool, got.Status, got.Body, want)
				}
				if want == 401 {
					wantLogin(t, got)
				}
			}
		})
	}
}

// wantLogin checks the response to a call that needs a login: a challenge without an error, and a tool result that repeats it.
func wantLogin(t *testing.T, got sitetest.Response) {
	t.Helper()
	challenge := got.Header.Get("Www-Authenticate")
	if challenge == "" || strings.Contains(challenge, "error") {
		t.Errorf("the challenge is %q", challenge)
	}
	var body loginResult
	if err := json.Unmarshal([]byte(got.Body), &body); err != nil {
		t.Fatalf("%v: %s", err, got.Body)
	}
	if !body.Result.IsError || len(body.Result.Content) != 1 || body.Result.Meta["mcp/www_authenticate"] != challenge {
		t.Errorf("%s", got.Body)
	}
}

// The challenge has the scopes of the tool, and the address of the metadata.
func TestMixedLogin_challenges_name_the_scopes_of_the_tool(t *testing.T) {
	i := sitetest.NewIssuer(t)
	s := mixedSite(t, "agent_auth {\nissuer "+i.URL+"\nrequire_scope base\noptional\n}\n")
	metadata := `resource_metadata="` + s.URL + `/.well-known/oauth-protected-resource"`
	for tool, want := range map[string]string{"scoped": `scope="base read", ` + metadata, "login": `scope="base read", ` + metadata} {
		if got := post(t, s, "tools/call", `{"name":"`+tool+`"}`); got.Header.Get("Www-Authenticate") != "Bearer "+want {
			t.Errorf("%s: %s, want %s", tool, got.Header.Get("Www-Authenticate"), want)
		}
	}
}

// Hosts take a tool without oauth2 for open, so each tool that needs a login says so, to those who have not logged in.
func TestMixedLogin_lists_each_tool_with_its_schemes(t *testing.T) {
	i := sitetest.NewIssuer(t)
	s := mixedSite(t, "agent_auth {\nissuer "+i.URL+"\noptional\n}\n")
	got := post(t, s, "tools/list", `{}`)
	var list struct {
		Result struct {
			Tools []struct {
				Name    string
				Schemes json.RawMessage `json:"securitySchemes"`
			}
		}
	}
	if err := json.Unmarshal([]byte(got.Body), &list); err != nil {
		t.Fatal(err)
	}
	schemes := make(map[string]string)
	for _, tool := range list.Result.Tools {
		schemes[tool.Name] = string(tool.Schemes)
	}
	for tool, want := range map[string]string{
		"open": `[{"type":"noauth"}]`, "either": `[{"type":"noauth"},{"type":"oauth2","scopes":["read"]}]`, "login": `[{"type":"oauth2"}]`,
		"openid": `[{"type":"oauth2"}]`, "bearer": `[{"type":"oauth2"}]`, "scoped": `[{"type":"oauth2","scopes":["read"]}]`,
	} {
		if schemes[tool] != want {
			t.Errorf("%s: %q, want %s", tool, schemes[tool], want)
		}
	}
}
