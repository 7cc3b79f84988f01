package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// vaultDocument is an API with one operation for each way to be authorized.
const vaultDocument = `openapi: 3.1.0
info: {title: Vault, version: 1.0.0}
components:
  securitySchemes:
    token: {type: oauth2, flows: {authorizationCode: {authorizationUrl: "https://id.example/authorize", tokenUrl: "https://id.example/token", scopes: {read: reads}}}}
    bearer: {type: http, scheme: bearer}
    basic: {type: http, scheme: basic}
    session: {type: apiKey, in: cookie, name: sid}
    key: {type: apiKey, in: header, name: X-Api-Key}
    query: {type: apiKey, in: query, name: api_key}
paths:
  /token: {get: {operationId: token, security: [{token: [read]}], responses: {"200": {description: ok}}}}
  /bearer: {get: {operationId: bearer, security: [{bearer: []}], responses: {"200": {description: ok}}}}
  /basic: {get: {operationId: basic, security: [{basic: []}], responses: {"200": {description: ok}}}}
  /session: {get: {operationId: session, security: [{session: []}], responses: {"200": {description: ok}}}}
  /key: {get: {operationId: key, security: [{key: []}], responses: {"200": {description: ok}}}}
  /query: {get: {operationId: query, security: [{query: []}], responses: {"200": {description: ok}}}}
  /open: {get: {operationId: open, parameters: [{name: tenant, in: query, schema: {type: string}, x-otc-non-inferrable: true}], responses: {"200": {description: ok}}}}
`

// startVault runs a gateway before an API that answers with what it was sent, or
// refuses it in those words. Options are of otc, behind is what stands after it.
func startVault(t *testing.T, log, options, behind string) *gateway {
	t.Helper()
	var healthy atomic.Bool
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent := map[string]any{"header": r.Header, "query": r.URL.RawQuery}
		if r.URL.Query().Get("tenant") == "discreet" {
			delete(sent, "header") // a response that repeats no credentials, so that it is kept
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/healthz" {
			if !healthy.Swap(true) {
				w.WriteHeader(http.StatusInternalServerError)
			}
			return
		}
		if strings.Contains(fmt.Sprint(sent), "refuse") {
			text, _ := json.Marshal(sent)
			w.WriteHeader(http.StatusUnauthorized)
			sent = map[string]any{"title": "refused", "detail": string(text)}
		}
		_ = json.NewEncoder(w).Encode(sent)
	}))
	t.Cleanup(api.Close)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "vault.yaml"), vaultDocument)
	writeFile(t, filepath.Join(dir, "vault2.yaml"), strings.Replace(vaultDocument, "version: 1.0.0", "version: 2.1.0", 1))
	site := freeAddress(t)
	return startGateway(t, dir, site, fmt.Sprintf(`{
	admin off
	%s
	agents {
		toolset vault vault.yaml
		toolset vault2 vault2.yaml
	}
}
http://%s {
	log
	otc /otc vault {
		%s
	}
	%s
	reverse_proxy %s {
		header_up X-For {http.otc.user_id_unverified}
		header_up X-Call {http.otc.call_id}
	}
}
`, log, site, options, behind, strings.TrimPrefix(api.URL, "http://")))
}

// vaultCall calls a tool of the API.
func vaultCall(t *testing.T, g *gateway, body string, header map[string]string) (int, map[string]any) {
	t.Helper()
	a := g.send(t, http.MethodPost, "/otc/tools/call", "application/json", strings.NewReader(body), header)
	var members map[string]any
	if err := json.Unmarshal(a.body, &members); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return a.status, members
}

// TestOTC_secrets_are_sent_only_to_the_API sends credentials in every way,
// to an API that repeats them in what it refuses, and looks for them in answers
// and in the log at its most talkative.
//
// Caddy's own reverse_proxy logs requests at debug. It leaves Authorization and
// Cookie out, and no other header or parameter: keys in those are not looked for
// in its lines.
func TestOTC_secrets_are_sent_only_to_the_API(t *testing.T) {
	g := startVault(t, "debug", "developer_messages", "")
	const mark = "S3cretWord"
	for _, c := range []struct{ tool, context, arrives string }{
		{"token", `{"authorization":[{"id":"token","token":"%s"}]}`, "Bearer %s"},
		{"bearer", `{"authorization":[{"id":"bearer","token":"%s"}]}`, "Bearer %s"},
		{"basic", `{"secrets":[{"id":"basic","value":"ada:%s"}]}`, "Basic "},
		{"session", `{"secrets":[{"id":"session","value":"%s"}]}`, "sid=%s"},
		{"key", `{"secrets":[{"id":"key","value":"%s"}]}`, "%s"},
		{"query", `{"secrets":[{"id":"query","value":"%s"}]}`, "api_key=%s"},
	} {
		t.Run(c.tool, func(t *testing.T) {
			secret := mark + c.tool
			body := fmt.Sprintf(`{"request":{"call_id":"1-%[1]s","tool_id":"Vault.%[1]s","context":%[2]s}}`, c.tool, fmt.Sprintf(c.context, secret))
			status, members := vaultCall(t, g, body, nil)
			arrived, _ := json.Marshal(members)
			want := c.arrives
			if strings.Contains(want, "%s") {
				want = fmt.Sprintf(want, secret)
			}
			if status != 200 || !strings.Contains(string(arrived), want) {
				t.Errorf("%d %s, want %s", status, arrived, want)
			}

			secret = mark + "refuse" + c.tool
			if c.tool == "basic" {
				secret = mark + "refuse" // its Base64 is what arrives
			}
			body = fmt.Sprintf(`{"request":{"call_id":"2-%[1]s","tool_id":"Vault.%[1]s","context":%[2]s}}`, c.tool, fmt.Sprintf(c.context, secret))
			status, members = vaultCall(t, g, body, nil)
			told, _ := json.Marshal(members)
			if c.tool == "basic" {
				return
			}
			if status != http.StatusUnauthorized || strings.Contains(string(told), secret) {
				t.Errorf("%d %s", status, told)
			}
		})
	}
	if status, members := vaultCall(t, g, `{"request":{"tool_id":"Vault.token"}}`, nil); status != 400 || members["missing_requirements"] == nil {
		t.Errorf("%d %v", status, members)
	}
	lines := 0
	for line := range strings.Lines(g.log.String()) {
		if strings.Contains(line, `"http.handlers.reverse_proxy"`) {
			for _, tool := range []string{"key", "query"} {
				line = strings.ReplaceAll(line, mark+tool, "")
				line = strings.ReplaceAll(line, mark+"refuse"+tool, "")
			}
		}
		if strings.Contains(line, mark) {
			t.Errorf("logged: %s", line)
		}
		lines++
	}
	if lines < 20 {
		t.Errorf("the log has %d lines: it is not at debug", lines)
	}
}

// TestOTC_versions serves two documents of one toolkit side by side.
func TestOTC_versions(t *testing.T) {
	g := startVault(t, "", "", "otc /both vault vault2")
	for id, status := range map[string]int{
		"Vault.open": 200, "Vault.open@1": 200, "Vault.open@1.0.0": 200, "Vault.open@2.1.0": 200, "Vault.open@latest": 200, "Vault.open@2": 400,
	} {
		a := g.send(t, http.MethodPost, "/both/call", "application/json", strings.NewReader(`{"tool_id":"`+id+`"}`), nil)
		if a.status != status {
			t.Errorf("%s: %d %s, want %d", id, a.status, a.body, status)
		}
	}
	a := g.send(t, http.MethodGet, "/both/tools", "application/json", strings.NewReader("{}"), nil)
	var list struct {
		Tools []struct {
			ID    string `json:"id"`
			Input struct {
				Hidden []string `json:"non_inferrable_parameters"`
			} `json:"input"`
			Requirements struct {
				Authorization []struct {
					ID     string `json:"id"`
					OAuth2 *struct {
						Scopes []string `json:"scopes"`
					} `json:"oauth2"`
				} `json:"authorization"`
			} `json:"requirements"`
		} `json:"tools"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(a.body, &list); err != nil || len(list.Tools) != 16 || len(list.Items) != 16 {
		t.Fatalf("%d tools, %d items, %v", len(list.Tools), len(list.Items), err)
	}
	first, last := list.Tools[0], list.Tools[14] // next_page is the last of each toolset
	if first.ID != "Vault.token@1.0.0" || first.Requirements.Authorization[0].OAuth2.Scopes[0] != "read" {
		t.Errorf("the first tool is %+v", first)
	}
	if last.ID != "Vault.open@2.1.0" || len(last.Input.Hidden) != 1 || last.Input.Hidden[0] != "tenant" {
		t.Errorf("the last tool is %+v", last)
	}
}

// TestOTC_health follows the API.
func TestOTC_health(t *testing.T) {
	t.Parallel() // it mostly waits
	g := startVault(t, "", "health_upstream /healthz", "")
	if a := g.send(t, http.MethodGet, "/otc/health", "", nil, nil); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %s while the API is ill", a.status, a.body)
	}
	waitFor(t, waitTimeout, "the API to be found well", func() bool {
		return g.send(t, http.MethodGet, "/otc/health", "", nil, nil).status == http.StatusOK
	})
}

// TestOTC_placeholders tells the handlers behind what the client said.
func TestOTC_placeholders(t *testing.T) {
	g := startVault(t, "", "", "")
	for _, c := range []struct{ user, arrives string }{{"ada", "ada"}, {`ad\u000aa`, ""}} {
		_, members := vaultCall(t, g, `{"request":{"call_id":"from-`+c.user[:2]+c.arrives+`","tool_id":"Vault.open","context":{"user_id":"`+c.user+`"}}}`, nil)
		result := members["result"].(map[string]any)
		if result["success"] != true {
			t.Fatal(members)
		}
		header := result["value"].(map[string]any)["header"].(map[string]any)
		told, _ := header["X-For"].([]any)
		if c.arrives != "" && (len(told) != 1 || told[0] != c.arrives) || c.arrives == "" && len(told) == 1 && told[0] != "" {
			t.Errorf("user_id %q arrives as %q", c.user, told)
		}
		if call := header["X-Call"].([]any); call[0] != "from-"+c.user[:2]+c.arrives {
			t.Errorf("call_id arrives as %q", call)
		}
	}
}

// TestOTC_users_do_not_share_calls asks as two users with one call_id.
func TestOTC_users_do_not_share_calls(t *testing.T) {
	g := startVault(t, "", "", `basic_auth /otc/* {
		ada $2a$04$lKNUsMmlrjCcunyoA2eE6OvcrywWDyhiZZ0r8gpC4ROy5V35Ic9Nm
		bob $2a$04$lKNUsMmlrjCcunyoA2eE6OvcrywWDyhiZZ0r8gpC4ROy5V35Ic9Nm
	}`)
	ask := func(user string) string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/otc/call",
			strings.NewReader(`{"call_id":"1","tool_id":"Vault.open","input":{"tenant":"discreet"}}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.SetBasicAuth(user, "password")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", user, response.Status)
		}
		return response.Header.Get("Idempotent-Replayed")
	}
	for _, c := range []struct{ user, replayed string }{{"ada", ""}, {"bob", ""}, {"ada", "true"}, {"bob", "true"}} {
		if got := ask(c.user); got != c.replayed {
			t.Errorf("%s: replayed %q, want %q", c.user, got, c.replayed)
		}
	}
}
