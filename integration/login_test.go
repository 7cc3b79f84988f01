package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// loginRedirect is where the clients of the tests get their codes. No program listens there: the script that is the browser stops before.
const loginRedirect = "http://127.0.0.1:33418/callback"

// A provider is a program that is an OpenID provider for the client "gateway". It takes its port and the client's id, secret and redirect address,
// and prints "ready" when it listens.
type provider struct {
	command []string
	further []string // arguments after those
	dir     string
	issuer  string // with %s for the port
	client  string // options that authenticate the gateway
}

const clientSecret = "client_id gateway\nclient_secret secret-of-the-gateway"

// nodeProvider is oidc-provider of npm. Its user has the group "engineering". It also knows the client "gateway-key". In the options of the client, KEY
// is the file of that client's private key.
func nodeProvider(t *testing.T, client string) provider {
	keys := clientKey(t)
	return provider{
		command: []string{nodeProgram(t), "idp.mjs"}, further: []string{filepath.Join(keys, "keys.json")}, dir: nodeClients, issuer: "http://127.0.0.1:%s",
		client: strings.ReplaceAll(client, "KEY", filepath.Join(keys, "private.json")),
	}
}

// zitadelProvider is that of github.com/zitadel/oidc. Its user has no groups, and its issuer ends with a slash.
func zitadelProvider(t *testing.T) provider {
	t.Helper()
	program := filepath.Join(t.TempDir(), "zitadel")
	if err := buildProgram("../testdata/zitadel", ".", program); err != nil {
		testkit.Missing(t, "testdata/zitadel cannot be built: %v", err)
	}
	return provider{command: []string{program}, issuer: "http://localhost:%s/", client: clientSecret}
}

// clientKey writes a new key to the file private.json, and its public part to keys.json, and returns the directory.
func clientKey(t *testing.T) string {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	key := jose.JSONWebKey{Key: private, KeyID: "k1", Algorithm: "ES256"}
	for name, content := range map[string]any{"private.json": key, "keys.json": jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}}} {
		text, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// startLogin runs a gateway whose users log in at an OpenID provider. The rules are further lines of agent_login.
func startLogin(t *testing.T, p provider, rules string) *gateway {
	t.Helper()
	address, at := freeAddress(t), freeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	_, providerPort, _ := strings.Cut(at, ":")
	arguments := slices.Concat(p.command[1:], []string{providerPort, "gateway", "secret-of-the-gateway", "http://localhost:" + port + "/login/callback"}, p.further)
	idp := exec.CommandContext(t.Context(), p.command[0], arguments...)
	idp.Dir = p.dir
	log := &output{}
	idp.Stdout, idp.Stderr = log, log
	if err := idp.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = idp.Process.Kill()
		_ = idp.Wait()
	})
	waitFor(t, startTimeout, "the provider to listen", func() bool { return strings.Contains(log.String(), "ready") })
	document, err := filepath.Abs("../testdata/demo.openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return startGateway(t, t.TempDir(), "localhost:"+port, fmt.Sprintf(`{
	admin off
	auto_https off
	agents {
		toolset demo %[1]q
		toolset machine %[1]q {
			credential oauth {
				token_url %[3]s/token
				grant client_credentials
				%[4]s
			}
		}
		store bolt store.db
	}
}
http://localhost:%[2]s {
	agent_login {
		provider oidc %[3]s
		%[4]s
		issuer http://localhost:%[2]s
		secret 0123456789abcdef
		scope trips
		%[5]s
		client conformance {
			redirect http://127.0.0.1:3900/callback
		}
	}
	agent_auth {
		require_scope trips
	}
	agents_console
	mcp /mcp demo
	respond "{http.auth.user.id} {http.auth.user.scope}"
}
http://127.0.0.1:%[2]s {
	mcp /mcp machine
	respond `+"`"+`{"authorization":"{http.request.header.Authorization}"}`+"`"+`
}
`, document, port, fmt.Sprintf(p.issuer, providerPort), p.client, rules))
}

// TestLogin_of_clients logs in with MCP clients that know nothing but the address of the endpoint, at an OpenID provider that knows
// only the gateway.
func TestLogin_of_clients(t *testing.T) {
	g := startLogin(t, nodeProvider(t, clientSecret), "allow group engineering")
	var out struct {
		Tools []string `json:"tools"`
		Scope string   `json:"scope"`
	}
	t.Run("TypeScript SDK", func(t *testing.T) {
		decodeOutput(t, node(t, "login.mjs", "sdk", g.url+"/mcp"), &out)
		if !slices.Contains(out.Tools, "get_trip") {
			t.Errorf("tools %q", out.Tools)
		}
		if out.Scope != "trips" {
			t.Errorf("scope %q, want the one that the challenge names", out.Scope)
		}
	})
	t.Run("mcp-remote", func(t *testing.T) {
		decodeOutput(t, node(t, "login.mjs", "remote", g.url+"/mcp", t.TempDir()), &out)
		if !slices.Contains(out.Tools, "get_trip") {
			t.Errorf("tools %q", out.Tools)
		}
	})
	t.Run("go-sdk", func(t *testing.T) {
		tools := loginBySDK(t, g)
		if !slices.Contains(tools, "get_trip") {
			t.Errorf("tools %q", tools)
		}
	})
	for _, secret := range []string{"secret-of-the-gateway", "0123456789abcdef", "ann@example.com", "code=", "Bearer ey"} {
		if strings.Contains(g.log.String(), secret) {
			t.Errorf("the log contains %s", secret)
		}
	}
}

// TestLogin_at_another_provider logs in at a second implementation of OpenID Connect, whose user fills in a form.
func TestLogin_at_another_provider(t *testing.T) {
	g := startLogin(t, zitadelProvider(t), "allow domain zitadel.ch")
	var out struct {
		Tools []string `json:"tools"`
	}
	decodeOutput(t, node(t, "login.mjs", "sdk", g.url+"/mcp"), &out)
	if !slices.Contains(out.Tools, "get_trip") {
		t.Errorf("tools %q", out.Tools)
	}
	other := startLogin(t, zitadelProvider(t), "allow domain example.com")
	if _, stderr, err := runNode(t, "login.mjs", "sdk", other.url+"/mcp"); err == nil || !strings.Contains(string(stderr), "access_denied") {
		t.Errorf("a user of another domain: %v, %s", err, stderr)
	}
}

// TestLogin_of_the_console opens a page of the console in a browser that is logged in nowhere, and tries a tool.
func TestLogin_of_the_console(t *testing.T) {
	g := startLogin(t, nodeProvider(t, clientSecret), "allow group engineering")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	defer browser.CloseIdleConnections()
	send := func(method, path, body, kind string) (address, text string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, g.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Content-Type", kind)
		response, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		content, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s %v", response.Request.URL, response.StatusCode, content, err)
		}
		return response.Request.URL.RequestURI(), string(content)
	}
	if address, text := send("GET", "/console/tools/mcp/get_trip", "", ""); address != "/console/tools/mcp/get_trip" || !strings.Contains(text, ">ann</span>") {
		t.Errorf("the browser came to %s: %s", address, text)
	}
	if _, text := send("POST", "/console/api/tools/mcp/get_trip", `{"arguments":{"trip_id":"ir-1512"}}`, "application/json"); !strings.Contains(text, `"outcome":"ok"`) || !strings.Contains(text, "ann trips") {
		t.Errorf("the call: %s", text)
	}
	if _, text := send("POST", "/console/logout", "", "application/x-www-form-urlencoded"); !strings.Contains(text, "logged out") {
		t.Errorf("the logout: %s", text)
	}
}

// loginBySDK logs in with the Go SDK and returns the names of the tools.
func loginBySDK(t *testing.T, g *gateway) (tools []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), nodeTimeout)
	defer cancel()
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		RedirectURL: loginRedirect,
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "Login test", RedirectURIs: []string{loginRedirect}, GrantTypes: []string{"authorization_code", "refresh_token"},
		}},
		AuthorizationCodeFetcher: func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			var out struct {
				Address string `json:"address"`
			}
			if err := json.Unmarshal(node(t, "login.mjs", "browser", args.URL, loginRedirect), &out); err != nil {
				return nil, err
			}
			back, err := url.Parse(out.Address)
			if err != nil {
				return nil, err
			}
			q := back.Query()
			return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "login-test", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: g.url + "/mcp", OAuthHandler: handler}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	list, err := session.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		tools = append(tools, tool.Name)
	}
	return tools
}

// TestLogin_conforms runs the scenarios of the official conformance suite for authorization servers.
func TestLogin_conforms(t *testing.T) {
	g := startLogin(t, nodeProvider(t, clientSecret), "allow group engineering")
	_, port, _ := strings.Cut(freeAddress(t), ":") // the port of a loopback address may differ from the registered one
	var out struct {
		Log  string `json:"log"`
		Exit int    `json:"exit"`
	}
	decodeOutput(t, node(t, "login.mjs", "conformance", g.url, "conformance", port, g.url+"/mcp"), &out)
	if out.Exit != 0 {
		t.Errorf("the suite ended with %d:\n%s", out.Exit, out.Log)
	}
	for _, scenario := range []string{"authorization-server-metadata-endpoint", "authorization-code-grant"} {
		if !strings.Contains(out.Log, scenario) {
			t.Errorf("%s was not run:\n%s", scenario, out.Log)
		}
	}
	if strings.Contains(out.Log, "WARNING") || strings.Contains(out.Log, "FAILURE") {
		t.Errorf("the suite has something to say:\n%s", out.Log)
	}
}
