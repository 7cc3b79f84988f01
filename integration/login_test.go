package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
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
)

// loginRedirect is where the clients of the tests get their codes. No program listens there: the script that is the browser stops before.
const loginRedirect = "http://127.0.0.1:33418/callback"

// startLogin runs a gateway whose users log in at an OpenID provider.
func startLogin(t *testing.T) *gateway {
	t.Helper()
	return startLoginWith(t, "client_id gateway\nclient_secret secret-of-the-gateway")
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

// startLoginWith is startLogin with options that authenticate the gateway. KEY is the file of the private key of the client gateway-key.
func startLoginWith(t *testing.T, client string) *gateway {
	t.Helper()
	keys := clientKey(t)
	client = strings.ReplaceAll(client, "KEY", filepath.Join(keys, "private.json"))
	address, provider := freeAddress(t), freeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	_, providerPort, _ := strings.Cut(provider, ":")
	idp := exec.CommandContext(t.Context(), nodeProgram(t), "idp.mjs", providerPort, "gateway", "secret-of-the-gateway", "http://localhost:"+port+"/login/callback", filepath.Join(keys, "keys.json"))
	idp.Dir = nodeClients
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
		toolset demo %q
		toolset machine %[1]q {
			credential oauth {
				token_url http://%[3]s/token
				grant client_credentials
				%[4]s
			}
		}
		store bolt store.db
	}
}
http://localhost:%[2]s {
	agent_login {
		provider oidc http://%[3]s
		%[4]s
		issuer http://localhost:%[2]s
		secret 0123456789abcdef
		allow group engineering
		scope trips
		client conformance {
			redirect http://127.0.0.1:3900/callback
		}
	}
	agent_auth {
		require_scope trips
	}
	mcp /mcp demo
	respond "{http.auth.user.id} {http.auth.user.scope}"
}
http://127.0.0.1:%[2]s {
	mcp /mcp machine
	respond `+"`"+`{"authorization":"{http.request.header.Authorization}"}`+"`"+`
}
`, document, port, provider, client))
}

// TestCredential_of_a_provider gets tokens for the API of an OpenID provider, with a secret and with a private key. The login works with both too.
func TestCredential_of_a_provider(t *testing.T) {
	for name, client := range map[string]string{
		"secret":      "client_id gateway\nclient_secret secret-of-the-gateway",
		"private key": "client_id gateway-key\nprivate_key KEY",
	} {
		t.Run(name, func(t *testing.T) {
			g := startLoginWith(t, client)
			post(t, strings.Replace(g.url, "localhost", "127.0.0.1", 1)+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_trip","arguments":{"trip_id":"ir-1512"}}}`,
				http.StatusOK, `\"authorization\":\"Bearer `)
			if tools := loginBySDK(t, g); !slices.Contains(tools, "get_trip") {
				t.Errorf("tools after the login %q", tools)
			}
			if strings.Contains(g.log.String(), "secret-of-the-gateway") || strings.Contains(g.log.String(), "client_assertion") {
				t.Error("the log has a secret")
			}
		})
	}
}

// TestLogin_of_clients logs in with MCP clients that know nothing but the address of the endpoint, at an OpenID provider that knows
// only the gateway.
func TestLogin_of_clients(t *testing.T) {
	g := startLogin(t)
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
	g := startLogin(t)
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
