package login_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	_ "github.com/fairwayhq/fairway/caddymodule/otc"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// A mcpClient chooses the resource that it names to the login: from the address that it calls, and from the metadata of the resource. It returns false
// if it gives up.
type mcpClient func(called, fromMetadata string) (resource string, ok bool)

// mcpClients are clients as they behave by public reports, or as their libraries do.
var mcpClients = map[string]mcpClient{
	"ChatGPT, the origin":              func(called, _ string) (string, bool) { return originOf(called), true },
	"ChatGPT, the origin with a slash": func(called, _ string) (string, bool) { return originOf(called) + "/", true },
	"Claude Code 2.1.251":              func(string, string) (string, bool) { return "", true },
	"VS Code":                          strict,
	"Grok":                             strict,
	"go-sdk":                           strict,
	"TypeScript SDK":                   fromMetadata,
	"mcp-remote":                       fromMetadata,
	"the address in another form":      func(called, _ string) (string, bool) { return strings.Replace(called, "http", "HTTP", 1) + "/", true },
	"a path below":                     func(called, _ string) (string, bool) { return called + "/tools", true },
}

// strict is a client that compares the metadata with the address that it has called (RFC 9728, section 3.3).
func strict(called, fromMetadata string) (string, bool) { return fromMetadata, fromMetadata == called }

// fromMetadata is a client that uses what the metadata say, if the called address is there or below.
func fromMetadata(called, fromMetadata string) (string, bool) {
	return fromMetadata, strings.HasPrefix(called+"/", strings.TrimSuffix(fromMetadata, "/")+"/")
}

func originOf(address string) string {
	u, _ := url.Parse(address)
	return u.Scheme + "://" + u.Host
}

// layouts are sites by where agent_auth is.
var layouts = map[string]struct {
	block     string
	endpoints []string // paths
}{
	"one endpoint, its path":   {"agent_auth /mcp*\nmcp /mcp TRIPS\n", []string{"/mcp"}},
	"one endpoint, the site":   {"agent_auth\nmcp /mcp TRIPS\n", []string{"/mcp"}},
	"two endpoints, paths":     {"agent_auth /mcp*\nagent_auth /more*\nmcp /mcp TRIPS\nmcp /more TRIPS\n", []string{"/mcp", "/more"}},
	"two endpoints, the site":  {"agent_auth\nmcp /mcp TRIPS\nmcp /more TRIPS\n", []string{"/mcp", "/more"}},
	"below a stripped prefix":  {"agent_auth\nhandle_path /api/* {\nmcp /mcp TRIPS\n}\n", []string{"/api/mcp"}},
	"the login as the issuer":  {"agent_auth /mcp* {\nissuer URL\n}\nmcp /mcp TRIPS\n", []string{"/mcp"}},
	"beside another issuer":    {"@tools path /mcp*\n@rest path /rest/*\nagent_auth @rest {\nissuer https://other.test\n}\nagent_auth @tools\nmcp /mcp TRIPS\n", []string{"/mcp"}},
	"an audience of the owner": {"agent_auth /mcp* {\naudience urn:trips\n}\nmcp /mcp TRIPS\n", []string{"/mcp"}},
}

// startSite runs a site with a login and returns the provider of its users.
func startSite(t *testing.T, options, block string) *sitetest.Provider {
	t.Helper()
	s := sitetest.NewSite(t)
	p := sitetest.NewProvider(t, s)
	s.Start("agents {\nstore bolt DIR/store.db\n}", p.AgentLogin(options)+strings.ReplaceAll(block, "URL", s.URL)+"respond 404")
	return p
}

// call lists the tools at a path and returns the status and the parameters of the challenge.
func call(t *testing.T, s *sitetest.Site, path, token string) (status int, challenge map[string]string) {
	t.Helper()
	header := []string{"Content-Type", "application/json", "Accept", "application/json"}
	if token != "" {
		header = append(header, "Authorization", "Bearer "+token)
	}
	r, err := http.NewRequest(http.MethodPost, s.URL+path, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	got := s.Do(r)
	challenge = make(map[string]string)
	for parameter := range strings.SplitSeq(strings.TrimPrefix(got.Header.Get("Www-Authenticate"), "Bearer "), ", ") {
		name, value, _ := strings.Cut(parameter, "=")
		challenge[name] = strings.Trim(value, `"`)
	}
	return got.Status, challenge
}

// metadata reads the metadata of a resource.
func metadata(t *testing.T, s *sitetest.Site, address string) (m struct {
	Resource string
	Scopes   []string `json:"scopes_supported"`
},
) {
	t.Helper()
	got := s.Ask("GET", strings.TrimPrefix(address, s.URL))
	if err := json.Unmarshal([]byte(got.Body), &m); err != nil {
		t.Fatalf("%s: %d %s", address, got.Status, got.Body)
	}
	return m
}

func TestLogin_of_each_client_ends_with_a_token_that_is_accepted(t *testing.T) {
	for name, layout := range layouts {
		p := startSite(t, "", layout.block)
		for _, path := range layout.endpoints {
			for client, choose := range mcpClients {
				t.Run(name+"/"+path+"/"+client, func(t *testing.T) {
					s := p.Site.With(t)
					status, challenge := call(t, s, path, "")
					if status != http.StatusUnauthorized {
						t.Fatalf("without a token: status %d", status)
					}
					resource, ok := choose(s.URL+path, metadata(t, s, challenge["resource_metadata"]).Resource)
					if !ok {
						t.Fatalf("the client gives up: %v", challenge)
					}
					token := p.Login("ann", resource)["access_token"].(string)
					if status, challenge := call(t, s, path, token); status != http.StatusOK {
						t.Errorf("with a token for %q: %d %v", resource, status, challenge)
					}
				})
			}
		}
	}
}

// refusal sends a browser to the login with a resource, and returns the error that the client gets.
func refusal(t *testing.T, s *sitetest.Site, resource string) (code, description string) {
	t.Helper()
	q := url.Values{
		"response_type": {"code"}, "client_id": {"inspector"}, "redirect_uri": {"http://127.0.0.1:7777/callback"}, "resource": {resource},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
	}
	browser := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := browser.Get(s.URL + "/login/authorize?" + q.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	back, err := response.Location()
	if err != nil {
		return "", "" // the page that asks for consent
	}
	return back.Query().Get("error"), back.Query().Get("error_description")
}

func TestLogin_refuses_resources_that_no_endpoint_accepts(t *testing.T) {
	s := startSite(t, "", layouts["two endpoints, paths"].block).Site
	for _, path := range []string{"/other", "/mcpx", "/mc"} {
		if code, description := refusal(t, s, s.URL+path); code != "invalid_target" || !testkit.ContainsAll(description, s.URL+"/mcp "+s.URL+"/more") {
			t.Errorf("%s: %s %s", path, code, description)
		}
	}
	for _, resource := range []string{"https://evil.example/mcp", s.URL + "/mcp?x=1", s.URL + "/mcp#x", "/mcp", strings.Replace(s.URL, "//", "//u@", 1) + "/mcp"} {
		if code, _ := refusal(t, s, resource); code != "invalid_target" {
			t.Errorf("%s: %s", resource, code)
		}
	}
	if code, _ := refusal(t, s, s.URL+"/mcp"); code != "" {
		t.Errorf("a resource of the site: %s", code)
	}
}

// A token for one endpoint is not for another, with each layout.
func TestLogin_tokens_of_one_endpoint_are_refused_at_another(t *testing.T) {
	for _, layout := range []string{"two endpoints, paths", "two endpoints, the site"} {
		p := startSite(t, "", layouts[layout].block)
		token := p.Login("ann", p.Site.URL+"/mcp")["access_token"].(string)
		if status, _ := call(t, p.Site, "/mcp", token); status != http.StatusOK {
			t.Errorf("%s: status %d at its endpoint", layout, status)
		}
		if status, challenge := call(t, p.Site, "/more", token); status != http.StatusUnauthorized || challenge["error"] != "invalid_token" {
			t.Errorf("%s: status %d at another endpoint, %v", layout, status, challenge)
		}
	}
}

// The metadata of paths are for tokens of the login. With another issuer, or a resource that the operator has written, they name that resource only.
func TestResource_of_the_operator_and_of_other_issuers_is_not_widened(t *testing.T) {
	issuer := sitetest.NewIssuer(t)
	for name, test := range map[string]struct {
		options  string
		accepted []string // audiences of tokens of the issuer
		refused  []string
	}{
		"another issuer": {"issuer " + issuer.URL, []string{"", "/"}, []string{"/mcp", "/mcp/"}},
		"its resource":   {"issuer " + issuer.URL + "\nresource URL", []string{"", "/"}, []string{"/mcp"}},
		"its audience":   {"issuer " + issuer.URL + "\naudience URL/x", []string{"/x"}, []string{"", "/", "/mcp", "/x/"}},
	} {
		s := sitetest.NewSite(t)
		s.Start("", "agent_auth {\n"+strings.ReplaceAll(test.options, "URL", s.URL)+"\n}\nmcp /mcp TRIPS\nrespond 404")
		for _, path := range test.accepted {
			if status, _ := call(t, s, "/mcp", issuer.Token(t, s.URL+path)); status != http.StatusOK {
				t.Errorf("%s: a token for %q gets %d", name, path, status)
			}
		}
		for _, path := range test.refused {
			if status, _ := call(t, s, "/mcp", issuer.Token(t, s.URL+path)); status != http.StatusUnauthorized {
				t.Errorf("%s: a token for %q gets %d", name, path, status)
			}
		}
		if got := s.Ask("GET", "/.well-known/oauth-protected-resource/mcp"); got.Status != http.StatusNotFound {
			t.Errorf("%s: metadata of the endpoint: %d %s", name, got.Status, got.Body)
		}
	}
}

// A resource that the operator has written is the only one, also for tokens of the login.
func TestLogin_keeps_the_resource_of_the_operator(t *testing.T) {
	for resource, test := range map[string]struct{ accepted, refused []string }{
		"/api": {[]string{"", "/api", "/api/x"}, []string{"/mcp"}},
		"":     {[]string{"", "/mcp"}, nil},
	} {
		p := startSite(t, "", "agent_auth {\nresource URL"+resource+"\n}\nmcp /mcp TRIPS\n")
		s := p.Site
		for _, path := range test.accepted {
			token := p.Login("ann", s.URL+path)["access_token"].(string)
			if status, challenge := call(t, s, "/mcp", token); status != http.StatusOK {
				t.Errorf("resource %q, a login for %q: %d %v", resource, path, status, challenge)
			}
			claims, _ := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
			if !strings.Contains(string(claims), `"aud":"`+s.URL+resource+`"`) {
				t.Errorf("resource %q, a login for %q: %s", resource, path, claims)
			}
		}
		for _, path := range test.refused {
			if code, _ := refusal(t, s, s.URL+path); code != "invalid_target" {
				t.Errorf("resource %q, a login for %q: %q", resource, path, code)
			}
		}
	}
}

// Resources are equal in each form, in each request.
func TestLogin_compares_resources_in_one_form(t *testing.T) {
	p := startSite(t, "", layouts["one endpoint, the site"].block)
	origin := p.Site.URL
	for _, test := range []struct{ first, then string }{{origin, origin + "/"}, {origin + "/", origin}, {"", origin + "/"}, {origin + "/mcp/", origin + "/mcp"}, {origin, origin + "/mcp"}, {origin + "/mcp", origin}} {
		back, answer := p.Consent("ann", test.first)
		if back == nil {
			t.Fatal(answer)
		}
		tokens := p.Token(url.Values{
			"grant_type": {"authorization_code"}, "client_id": {"inspector"}, "code": {back.Query().Get("code")}, "redirect_uri": {"http://127.0.0.1:7777/callback"},
			"code_verifier": {"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"}, "resource": {test.then},
		})
		again := p.Token(url.Values{"grant_type": {"refresh_token"}, "client_id": {"inspector"}, "refresh_token": {tokens["refresh_token"].(string)}, "resource": {test.then}})
		for _, one := range []map[string]any{tokens, again} {
			if status, _ := call(t, p.Site, "/mcp", one["access_token"].(string)); status != http.StatusOK {
				t.Errorf("login for %q, token for %q: status %d", test.first, test.then, status)
			}
		}
	}
}

// Behind a proxy that ends TLS, the login knows the scheme of the site.
func TestLogin_behind_a_proxy_that_ends_TLS(t *testing.T) {
	s := sitetest.NewSite(t)
	p := sitetest.NewProvider(t, s)
	host := fmt.Sprintf("tools.example.com:%d", s.Port)
	s.Start("agents {\nstore bolt DIR/store.db\n}", "respond 404\n}\nhttp://"+host+" {\n"+
		strings.Replace(p.AgentLogin(""), "issuer "+s.URL, "issuer https://"+host, 1)+"agent_auth\nmcp /mcp TRIPS\nrespond 404")
	send := func(method, path, body string, header ...string) sitetest.Response {
		r, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		return s.Do(r)
	}
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	if got := send("POST", "/mcp", list); !strings.Contains(got.Header.Get("Www-Authenticate"), `resource_metadata="https://`+host+`/.well-known/oauth-protected-resource/mcp"`) {
		t.Errorf("the challenge is %s", got.Header.Get("Www-Authenticate"))
	}
	if got := send("GET", "/.well-known/oauth-protected-resource/mcp", ""); !strings.Contains(got.Body, `"resource":"https://`+host+`/mcp"`) {
		t.Errorf("metadata: %s", got.Body)
	}
	got := send("POST", "/login/token", "grant_type=client_credentials&client_id=cron&client_secret=planted-secret-of-cron", "Content-Type", "application/x-www-form-urlencoded")
	var tokens map[string]any
	if err := json.Unmarshal([]byte(got.Body), &tokens); err != nil {
		t.Fatal(err)
	}
	if got := send("POST", "/mcp", list, "Content-Type", "application/json", "Authorization", fmt.Sprint("Bearer ", tokens["access_token"])); got.Status != http.StatusOK {
		t.Errorf("with a token: %d %s", got.Status, got.Body)
	}
}

// What clients are to request is what the login can give and what the tools behind the endpoint need.
func TestScopes_are_those_of_the_login_and_of_the_tools(t *testing.T) {
	s := sitetest.NewSite(t)
	p := sitetest.NewProvider(t, s)
	for _, name := range []string{"read", "write"} {
		s.Write(name+".yaml", secured("oauth: [orders:"+name+"]"))
	}
	s.Start("agents {\nstore bolt DIR/store.db\n}", p.AgentLogin("scope extra")+"agent_auth\nmcp /mcp DIR/read.yaml\nmcp /more DIR/write.yaml\nrespond 404")
	for path, want := range map[string][]string{"/mcp": {"extra", "orders:read"}, "/more": {"extra", "orders:write"}, "/": {"extra", "orders:read", "orders:write"}} {
		var challenge map[string]string
		sitetest.Eventually(t, "the document", func() bool {
			_, challenge = call(t, s, path, "")
			return len(strings.Fields(challenge["scope"])) == len(want)
		})
		if got := metadata(t, s, challenge["resource_metadata"]).Scopes; !slices.Equal(got, want) || challenge["scope"] != strings.Join(want, " ") {
			t.Errorf("%s: metadata %q, challenge %v; want %q", path, got, challenge, want)
		}
	}
}

// Files, prompts and skills of an endpoint need scopes as tools do, also if its tools do not.
func TestScopes_are_those_of_files_and_prompts(t *testing.T) {
	s := sitetest.NewSite(t)
	p := sitetest.NewProvider(t, s)
	s.Write("write.yaml", secured("oauth: [orders:write]"))
	s.Write("plan.md", "Plan.")
	s.Write("prompts.yaml", "- {name: budget, scopes: [board, finance], messages: [{role: user, content: Spend it}]}\n")
	for name, test := range map[string]struct {
		options string
		want    []string
	}{
		"a file":    {"resource docs:///plan DIR/plan.md {\nscopes files\n}", []string{"files", "orders:write"}},
		"a folder":  {"resources DIR {\nscopes board files\n}", []string{"board", "files", "orders:write"}},
		"a prompt":  {"prompts DIR/prompts.yaml", []string{"board", "finance", "orders:write"}},
		"tools off": {"prompts DIR/prompts.yaml\ntool_scopes off", []string{"board", "finance"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.With(t)
			s.Start("agents {\nstore bolt DIR/store.db\n}", p.AgentLogin("")+"agent_auth /mcp*\nmcp /mcp DIR/write.yaml {\n"+test.options+"\n}\nrespond 404")
			var challenge map[string]string
			sitetest.Eventually(t, "the document", func() bool {
				_, challenge = call(t, s, "/mcp", "")
				return len(strings.Fields(challenge["scope"])) == len(test.want)
			})
			if got := metadata(t, s, challenge["resource_metadata"]).Scopes; !slices.Equal(got, test.want) || challenge["scope"] != strings.Join(test.want, " ") {
				t.Errorf("metadata %q, challenge %v; want %q", got, challenge, test.want)
			}
		})
	}
}

// secured is a document with one operation, whose security requirement is given.
func secured(requirement string) string {
	return `openapi: 3.1.0
info: {title: Orders, version: 1.0.0}
security: [{` + requirement + `}]
components:
  securitySchemes:
    oauth: {type: oauth2, flows: {authorizationCode: {authorizationUrl: https://a.test/a, tokenUrl: https://a.test/t, scopes: {"orders:read": r, "orders:write": w}}}}
paths:
  /orders:
    get: {operationId: listOrders, responses: {"200": {description: ok}}}
`
}
