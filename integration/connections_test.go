package integration

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestConnections_of_a_provider connects the account of a user at oidc-provider, a certified implementation of OpenID Connect and OAuth 2.0, and
// disconnects it.
func TestConnections_of_a_provider(t *testing.T) {
	address, provider := freeAddress(t), freeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	_, providerPort, _ := strings.Cut(provider, ":")
	idp := exec.CommandContext(t.Context(), nodeProgram(t), "idp.mjs", providerPort, "gateway", "secret-of-the-gateway", "http://localhost:"+port+"/connections/callback/acme")
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
	g := startGateway(t, t.TempDir(), "localhost:"+port, fmt.Sprintf(`{
	admin off
	auto_https off
	agents {
		store bolt store.db
		toolset demo %q {
			credential user {
				provider acme {
					authorize_url http://%[2]s/auth
					token_url http://%[2]s/token
					revoke_url http://%[2]s/token/revocation
					client_id gateway
					client_secret secret-of-the-gateway
					scope openid offline_access
					param prompt consent
				}
			}
		}
	}
}
http://localhost:%[3]s {
	agent_auth {
		api_key {
			key ann 0123456789abcdef
		}
	}
	agent_connections {
		origin http://localhost:%[3]s
		secret 0123456789abcdef
	}
	mcp /mcp demo
	reverse_proxy %[2]s {
		rewrite /me
	}
}
`, document, provider, port))
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	send := func(method, address, mediaType, body string) (string, *http.Response) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-API-Key", "0123456789abcdef")
		r.Header.Set("Content-Type", mediaType)
		r.Header.Set("Accept", "application/json, text/event-stream, text/html")
		r.Header.Set("Mcp-Protocol-Version", "2025-06-18")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		response, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text), response
	}
	call := func() string {
		t.Helper()
		text, _ := send(http.MethodPost, g.url+"/mcp", "application/json", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_trips","arguments":{}}}`)
		return text
	}
	const form = "application/x-www-form-urlencoded"
	asked := call()
	link := regexp.MustCompile(`/connections/connect/([A-Za-z0-9_-]+)`).FindStringSubmatch(asked)
	if link == nil {
		t.Fatalf("no link: %s", asked)
	}
	text, response := send(http.MethodPost, g.url+"/connections/connect", form, url.Values{"link": {link[1]}}.Encode())
	if response.Request.URL.Path != "/connections" || !strings.Contains(text, "acme is connected") {
		t.Fatalf("the browser is at %s: %s", response.Request.URL.Redacted(), text)
	}
	if got := call(); !strings.Contains(got, `sub\":\"ann`) {
		t.Errorf("the provider did not accept the token: %s", got)
	}
	if text, _ := send(http.MethodPost, g.url+"/connections/disconnect", form, "provider=acme&label=main"); !strings.Contains(text, "acme is disconnected") {
		t.Errorf("got %s", text)
	}
	if got := call(); !strings.Contains(got, "/connections/connect/") {
		t.Errorf("after the end of the connection: %s", got)
	}
}
