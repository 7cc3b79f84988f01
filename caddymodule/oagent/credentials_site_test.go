package oagent_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

const vaultDocument = `openapi: 3.1.0
info: {title: Vault, version: 1.0.0}
security: [{bearer: []}]
paths:
  /whoami:
    get: {operationId: whoami, responses: {"200": {description: Who., content: {application/json: {schema: {type: object}}}}}}
  /checked:
    get: {operationId: checked, responses: {"200": {description: Who., content: {application/json: {schema: {type: object}}}}}}
  /reviewed:
    get: {operationId: reviewed, responses: {"200": {description: Who., content: {application/json: {schema: {type: object}}}}}}
components: {securitySchemes: {bearer: {type: http, scheme: bearer}}}
`

// TestOAgentCredentials_repeated_in_a_success_are_not_recorded checks that a caller gets
// a successful response that repeats its credential, and that the store does not.
func TestOAgentCredentials_repeated_in_a_success_are_not_recorded(t *testing.T) {
	const own, brought = "own-T0KEN-1234", "brought-T0KEN-5678"
	api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"yours": r.Header.Get("Authorization")})
	})
	s := sitetest.NewSite(t)
	s.Write("vault.yaml", vaultDocument)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  whoami: {collect_results: true}
  checked: {collect_results: true, output_restriction: {assertion: "recent.checked.outputs.yours.startsWith('Bearer')"}}
  reviewed: {collect_results: true, output_restriction: {require_review: user://eve}}
`))
	s.Start("order test_user first\nagents {\n\tstore bolt DIR/store.db\n\ttoolset vault DIR/vault.yaml\n}", "test_user\notc vault\noagent DIR/agent.yaml {\n\treviews /reviews\n}\nreverse_proxy "+api)

	overOTC := func(tool string) sitetest.Response {
		r, err := http.NewRequest(http.MethodPost, s.URL+"/otc/call", strings.NewReader(
			`{"tool_id":"Vault.`+tool+`","call_id":"`+tool+`","context":{"authorization":[{"id":"bearer","token":"`+brought+`"}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Test-User", "ada")
		return s.Do(r)
	}
	for _, tool := range []string{"whoami", "checked"} {
		if a := s.Request("GET", "/"+tool, "", "Authorization", "Bearer "+own, "X-Test-User", "ada"); a.Status != 200 || !strings.Contains(a.Body, own) {
			t.Errorf("%s: %d %s", tool, a.Status, a.Body)
		}
		if a := overOTC(tool); a.Status != 200 || !strings.Contains(a.Body, brought) {
			t.Errorf("%s over OTC: %d %s", tool, a.Status, a.Body)
		}
	}
	if a := s.Request("GET", "/reviewed", "", "Authorization", "Bearer "+own, "X-Test-User", "ada"); a.Status != 403 || strings.Contains(a.Body, own) {
		t.Errorf("what cannot be stored for its review: %d %s", a.Status, a.Body)
	}

	if t.Failed() {
		return
	}
	text := ""
	sitetest.Eventually(t, "the record of four calls", func() bool {
		text = storeFiles(t, s)
		return strings.Count(text, `"_why":"credentials"`) >= 4
	})
	for _, secret := range []string{own, brought} {
		if strings.Contains(text, secret) {
			t.Errorf("the store has %s", secret)
		}
	}
}

// storeFiles returns what the files of the site's store have.
func storeFiles(t *testing.T, s *sitetest.Site) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.Dir, "store.db*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the store has the files %v, %v", files, err)
	}
	var all strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(content)
	}
	return all.String()
}
