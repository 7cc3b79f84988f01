package console_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestConsole_replay tries a changed document, as an auditor and as others.
func TestConsole_replay(t *testing.T) {
	s := governedConsole(t)
	for range 3 {
		s.Request("GET", "/trips", "", "X-Test-User", "ada")
	}
	const path = "/console/replay"
	post := func(document, since, user string) sitetest.Response {
		return form(s, path, url.Values{"document": {document}, "since": {since}}.Encode(), "X-Test-User", user)
	}
	for name, shown := range map[string]string{"": s.View("eve", path).Body, "desk": s.View("eve", path+"?agent=desk").Body} {
		checkHTML(t, path, shown)
		if has := strings.Contains(shown, "openagentspec:v1/agent"); has != (name != "") {
			t.Errorf("agent=%s: the form has a document: %t", name, has)
		}
	}
	if shown := s.View("eve", "/console/agents").Body; !strings.Contains(shown, path) {
		t.Error("the page of agents has no link for auditors")
	}
	if shown := s.View("ada", "/console/agents").Body; strings.Contains(shown, path) {
		t.Error("the page of agents has a link for others")
	}
	changed := sitetest.AgentDocument("desk", strings.Replace(consoleAgent, "history._total < 100", "history._total < 2", 1))
	for _, a := range []sitetest.Response{s.Request("GET", path, "", "X-Test-User", "ada"), post(changed, "7d", "ada"), post(changed, "7d", "")} {
		if a.Status != http.StatusNotFound && a.Status != http.StatusUnauthorized {
			t.Errorf("status %d for another user, want 404 or 401", a.Status)
		}
	}
	a := post(changed, "7d", "eve")
	checkHTML(t, path, a.Body)
	for _, want := range []string{"3 calls", "refuses <strong>1</strong>", "list-trips", "ada", "/console/engagements/"} {
		if a.Status != http.StatusOK || !strings.Contains(a.Body, want) {
			t.Errorf("status %d, no %q in %s", a.Status, want, a.Body)
		}
	}
	for name, test := range map[string]struct{ document, since, want string }{
		"no YAML":       {"<script>: [", "7d", "cannot be tried"},
		"another agent": {strings.Replace(changed, "name: desk", "name: dask", 1), "7d", "did you mean"},
		"no time":       {changed, "yesterday", "since"},
	} {
		if a := post(test.document, test.since, "eve"); a.Status != http.StatusOK || !strings.Contains(a.Body, test.want) || strings.Contains(a.Body, "<script>:") {
			t.Errorf("%s: status %d, %s", name, a.Status, a.Body)
		}
	}
	if a := post(strings.Repeat("x", 1<<20), "7d", "eve"); a.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("a huge document: status %d, want 413", a.Status)
	}
	api := func(body string) sitetest.Response {
		return s.Request("POST", "/console/api/replay", body, "X-Test-User", "eve", "Content-Type", "application/json")
	}
	if a := api(`{"document":` + quote(changed) + `}`); a.Status != http.StatusOK || !strings.Contains(a.Body, `"newly_refused":1`) {
		t.Errorf("a program: status %d, %s", a.Status, a.Body)
	}
	for _, body := range []string{`{"document":"x"}`, `{"documents":[]}`, `[`, `{"document":` + quote(changed) + `,"report":{}}`} {
		if a := api(body); a.Status != http.StatusBadRequest {
			t.Errorf("%s: status %d, want 400", body, a.Status)
		}
	}
}

// TestConsole_replay_without_agents checks that a site without agents has no such page.
func TestConsole_replay_without_agents(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Start("agents {\n\ttoolset trips TRIPS\n}", "route {\ntest_user\nagents_console {\nauditors eve\n}\nmcp trips\n}")
	if a := s.Request("GET", "/console/replay", "", "X-Test-User", "eve"); a.Status != http.StatusNotFound {
		t.Errorf("status %d, want 404", a.Status)
	}
}

// quote returns a text as JSON.
func quote(text string) string {
	encoded, _ := json.Marshal(text)
	return string(encoded)
}
