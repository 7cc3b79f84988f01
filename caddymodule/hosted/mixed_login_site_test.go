package hosted_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// secured has an operation for each way in which a tool can need a login.
const secured = `openapi: 3.1.0
info: {title: Trips, version: 1.0.0}
components:
  securitySchemes:
    oauth: {type: oauth2, flows: {authorizationCode: {authorizationUrl: https://a.test/a, tokenUrl: https://a.test/t, scopes: {read: r}}}}
paths:
  /open: {get: {operationId: open, responses: {"200": {description: ok}}}}
  /login: {get: {operationId: login, security: [{oauth: []}], responses: {"200": {description: ok}}}}
  /scoped: {get: {operationId: scoped, security: [{oauth: [read]}], responses: {"200": {description: ok}}}}
`

// The calls of an agent for a caller without a token follow the rule for tools: the site has authenticated the caller in another way, so only tools
// with scopes need a token.
func TestHosting_calls_tools_that_its_caller_may_call(t *testing.T) {
	i := sitetest.NewIssuer(t)
	const key = "api_key {\nkey grace secret-of-grace\n}\n"
	for name, test := range map[string]struct {
		auth   string
		header []string
		want   string // paths that the API gets
	}{
		"without a token":           {"agent_auth {\noptional\nissuer " + i.URL + "\n}\n", nil, "/open /login"},
		"without a key":             {"agent_auth {\noptional\n" + key + "}\n", nil, "/open /login"},
		"a key":                     {"agent_auth {\noptional\n" + key + "}\n", []string{"X-API-Key", "secret-of-grace"}, "/open /login /scoped"},
		"a token with the scope":    {"agent_auth {\noptional\nissuer " + i.URL + "\n}\n", []string{"Authorization", "read"}, "/open /login /scoped"},
		"a token without the scope": {"agent_auth {\noptional\nissuer " + i.URL + "\n}\n", []string{"Authorization", "other"}, "/open /login"},
		"no agent_auth":             {"", nil, "/open /login /scoped"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", "\n  open: {user_identity: false}\n  login: {user_identity: false}\n  scoped: {user_identity: false}\n"),
				sitetest.Play(sitetest.Calls("open", `{}`), sitetest.Calls("login", `{}`), sitetest.Calls("scoped", `{}`), modelserver.Step{Text: "Done."}))
			s.Write("secured.yaml", secured)
			block := strings.NewReplacer("test_user\n", "test_user\n"+test.auth, "TRIPS", "DIR/secured.yaml").Replace(s.Block(""))
			s.Start("agents {\n\tstore bolt DIR/store.db\n}", block)
			header := append([]string(nil), test.header...)
			if len(header) > 0 && header[0] == "Authorization" {
				header[1] = "Bearer " + i.Token(t, s.URL, "sub", "ann", "scope", header[1])
			}
			location := s.Begin("ann", "desk", "Go", header...)
			sitetest.Eventually(t, "the end of the run", func() bool { return s.View(s.As("ann", "GET", location, "", header...)).Status == "complete" })
			var got []string
			for _, r := range s.API.Received() {
				got = append(got, r.URL.Path)
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("the API received %v, want %s", got, test.want)
			}
		})
	}
}

// An agent that is served as a tool needs a login, as a tool without scopes does.
func TestExpose_agents_need_a_login(t *testing.T) {
	i := sitetest.NewIssuer(t)
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("trip-desk", tripAgent), sitetest.Play(modelserver.Step{Text: "Done."}))
	block := strings.Replace(exposedBlock(s, bothEndpoints, ""), "test_user\n", "test_user\nagent_auth {\noptional\nissuer "+i.URL+"\n}\n", 1)
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", block)
	const call = `"name":"trip_desk","arguments":{"input":"Hi"}`
	if list := mcp2026(s.Site, "", "{}", "tools/list", "", ""); !strings.Contains(list.Body, `"securitySchemes":[{"type":"oauth2"}]`) {
		t.Errorf("the list does not say it: %s", list.Body)
	}
	a := mcp2026(s.Site, "", "{}", "tools/call", "trip_desk", call)
	if a.Status != http.StatusUnauthorized || !strings.HasPrefix(a.Header.Get("Www-Authenticate"), "Bearer resource_metadata=") || !strings.Contains(a.Body, "mcp/www_authenticate") {
		t.Errorf("without a login: %d %v %s", a.Status, a.Header, a.Body)
	}
	if got := callAgent(s.Site, "ann", "{}", "trip_desk", "Hi"); got.StructuredContent.Text != "Done." {
		t.Errorf("authenticated in another way: %+v", got)
	}
	if a := s.As("ann", "POST", "/otc/tools/call", `{"request":{"tool_id":"Agents.trip_desk","input":{"input":"Hi"}}}`); !strings.Contains(a.Body, `"Done."`) {
		t.Errorf("the same over OTC: %s", a.Body)
	}
}
