package hosted_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

const (
	acceptStore   = "agents {\n\tstore bolt DIR/store.db\n}"
	acceptOptions = "accept /agents {\nby ann\ncapabilities get-trip list-*\nidentities partner\n}\nidentity partner header_up Authorization \"Bearer partner\"\nidentity admin header_up Authorization \"Bearer admin\""
)

// put sends a document as the agent with that name.
func put(s *sitetest.HostedSite, user, name, document string, header ...string) sitetest.Response {
	s.T.Helper()
	return s.As(user, "PUT", "/agents/"+name, document, append([]string{"Content-Type", "application/yaml"}, header...)...)
}

// TestAccept checks the life of an accepted document: it is served, listed and run like that of a
// file, replaced under a condition, and deleted.
func TestAccept(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", tripAgent), acceptOptions, sitetest.Play(sitetest.Calls("get-trip", `{"id":"7"}`), modelserver.Step{Text: "On time."}))
	document := sitetest.AgentDocument("mine", "\n  get-trip: {user_identity: false}\n")
	created := put(s, "ann", "mine", document)
	tag := created.Header.Get("Etag")
	if created.Status != http.StatusCreated || tag == "" || created.Header.Get("Location") != "/agents/mine" {
		t.Fatalf("created: %d %v %s", created.Status, created.Header, created.Body)
	}
	read := s.As("bob", "GET", "/agents/mine", "")
	if read.Status != http.StatusOK || read.Body != document || read.Header.Get("Etag") != tag {
		t.Errorf("read: %d %v %s", read.Status, read.Header, read.Body)
	}
	if list := s.As("bob", "GET", "/agents", ""); !strings.Contains(list.Body, `"mine"`) {
		t.Errorf("list: %s", list.Body)
	}
	if v := s.State("bob", s.Begin("bob", "mine", "Is trip 7 on time?")); v.Status != "complete" || v.Text != "On time." || v.Usage.ToolCalls != 1 {
		t.Errorf("run: %+v", v)
	}
	for _, step := range []struct {
		name   string
		answer sitetest.Response
		want   int
	}{
		{"same version", put(s, "ann", "mine", document), http.StatusNoContent},
		{"only if new", put(s, "ann", "mine", document+"# 2\n", "If-None-Match", "*"), http.StatusPreconditionFailed},
		{"wrong version", put(s, "ann", "mine", document+"# 2\n", "If-Match", `"x"`), http.StatusPreconditionFailed},
		{"right version", put(s, "ann", "mine", document+"# 2\n", "If-Match", tag), http.StatusNoContent},
		{"delete the old version", s.As("ann", "DELETE", "/agents/mine", "", "If-Match", tag), http.StatusPreconditionFailed},
		{"delete by another user", s.As("eve", "DELETE", "/agents/mine", ""), http.StatusForbidden},
		{"delete the agent of a file", s.As("ann", "DELETE", "/agents/desk", ""), http.StatusConflict},
		{"delete", s.As("ann", "DELETE", "/agents/mine", ""), http.StatusNoContent},
		{"delete again", s.As("ann", "DELETE", "/agents/mine", ""), http.StatusNotFound},
		{"read the deleted", s.As("bob", "GET", "/agents/mine", ""), http.StatusNotFound},
		{"run the deleted", s.As("bob", "POST", "/agents/mine", `{"input":"x"}`), http.StatusNotFound},
	} {
		if step.answer.Status != step.want {
			t.Errorf("%s: %d %s, want %d", step.name, step.answer.Status, step.answer.Body, step.want)
		}
	}
}

// TestAccept_refusals checks who may send what.
func TestAccept_refusals(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", tripAgent), acceptOptions, sitetest.Play())
	var many strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&many, "  tool-%d:\n", i)
	}
	for name, test := range map[string]struct {
		user, agent, document string
		header                []string
		status                int
		want                  string // of the detail
	}{
		"not authenticated":    {"", "mine", sitetest.AgentDocument("mine", "  get-trip: {}\n"), nil, 401, ""},
		"another user":         {"eve", "mine", sitetest.AgentDocument("mine", "  get-trip: {}\n"), nil, 403, ""},
		"from another site":    {"ann", "mine", sitetest.AgentDocument("mine", "  get-trip: {}\n"), []string{"Sec-Fetch-Site", "cross-site"}, 403, ""},
		"agent of a file":      {"ann", "desk", sitetest.AgentDocument("desk", "  get-trip: {}\n"), nil, 409, "file"},
		"not permitted":        {"ann", "mine", sitetest.AgentDocument("mine", "  get-trip: {}\n  delete-trip: {}\n"), nil, 422, "capabilities.delete-trip allow-list get-trip"},
		"agent of this site":   {"ann", "mine", sitetest.AgentDocument("mine", "  oagent://desk: {}\n"), nil, 422, "oagent://desk allow-list"},
		"not permitted tool":   {"ann", "mine", sitetest.AgentDocument("mine", "  get-trip: {}\n") + "guardrails: {input: {tool_name: create-trip, assertion: 'true'}}\n", nil, 422, "create-trip allow-list"},
		"other identity":       {"ann", "mine", sitetest.AgentDocument("mine", "  get-trip: {static_identity: admin}\n"), nil, 422, "admin allow-list partner"},
		"unknown tool":         {"ann", "mine", sitetest.AgentDocument("mine", "  get-trips: {}\n"), nil, 422, "unknown get-trips"},
		"not YAML":             {"ann", "mine", "kind: [", nil, 422, "YAML"},
		"empty":                {"ann", "mine", "", nil, 422, "no agent"},
		"other name":           {"ann", "mine", sitetest.AgentDocument("yours", "  get-trip: {}\n"), nil, 422, "yours mine"},
		"invalid name":         {"ann", "Mine", sitetest.AgentDocument("Mine", "  get-trip: {}\n"), nil, 422, "name"},
		"too many":             {"ann", "mine", sitetest.AgentDocument("mine", many.String()), nil, 422, "1000"},
		"too large":            {"ann", "mine", sitetest.AgentDocument("mine", "  get-trip: {}\n") + "# " + strings.Repeat("x", 300<<10), nil, 413, "KiB"},
		"10 MB":                {"ann", "mine", sitetest.AgentDocument("mine", "  get-trip: {}\n") + "# " + strings.Repeat("x", 10<<20), nil, 413, "KiB"},
		"not a document":       {"ann", "mine", "x", []string{"Content-Type", "multipart/form-data"}, 415, ""},
		"a path below":         {"ann", "mine/x", sitetest.AgentDocument("mine", "  get-trip: {}\n"), nil, 405, ""},
		"the list":             {"ann", "", sitetest.AgentDocument("mine", "  get-trip: {}\n"), nil, 405, ""},
		"no agent to replace":  {"ann", "mine", sitetest.AgentDocument("mine", "  get-trip: {}\n"), []string{"If-Match", "*"}, 412, ""},
		"unknown agent's type": {"ann", "mine", strings.Replace(sitetest.AgentDocument("mine", "  get-trip: {}\n"), "v1", "v2", 1), nil, 422, "kind"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sitetest.HostedSite{Site: s.With(t)}
			a := put(s, test.user, test.agent, test.document, test.header...)
			if a.Status != test.status {
				t.Fatalf("%d %.1000s, want %d", a.Status, a.Body, test.status)
			}
			if p := s.Problem(a); !testkit.ContainsAll(p.Detail, test.want) || len(a.Body) > 20_000 {
				t.Errorf("detail %.1000q, want %q", p.Detail, test.want)
			}
			if read := s.As("bob", "GET", "/agents/mine", ""); read.Status != http.StatusNotFound {
				t.Errorf("the document is served: %s", read.Body)
			}
		})
	}
}

// TestAccept_restart checks that accepted documents outlive the process, and that a shorter
// allow-list or a file with the same name takes effect on them.
func TestAccept_restart(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent), sitetest.Play(modelserver.Step{Text: "Yes."}))
	block := s.Block(acceptOptions)
	s.Start(acceptStore, block)
	for _, name := range []string{"mine", "other"} {
		tool := map[string]string{"mine": "get-trip", "other": "list-trips"}[name]
		if a := put(s, "ann", name, sitetest.AgentDocument(name, "  "+tool+": {}\n")); a.Status != http.StatusCreated {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	served := func(step, name string, want int) {
		t.Helper()
		if a := s.As("bob", "GET", "/agents/"+name, ""); a.Status != want {
			t.Errorf("%s: %s: %d %s", step, name, a.Status, a.Body)
		}
	}
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	s.Start(acceptStore, block)
	served("restarted", "mine", 200)
	served("restarted", "other", 200)
	reload := func(block string) {
		t.Helper()
		if err := s.Load(acceptStore, block); err != nil {
			t.Fatal(err)
		}
	}
	reload(strings.Replace(block, "get-trip list-*", "get-trip", 1))
	served("shorter list", "mine", 200)
	served("shorter list", "other", 404)
	s.Logged(`"agent":"other"`)
	s.Write("agent.yaml", sitetest.AgentDocument("mine", tripAgent))
	reload(block)
	if a := s.As("bob", "GET", "/agents/mine", ""); !strings.Contains(a.Body, "create-trip") {
		t.Errorf("the file has no effect: %s", a.Body)
	}
	served("whole list again", "other", 200)
}

// TestAccept_configuration checks the errors of the options.
func TestAccept_configuration(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", tripAgent), sitetest.Play())
	for options, want := range map[string]string{
		"accept {\nby ann\nidentities partner\n}":    "identities partner",
		"accept /documents {\nby ann\n}":             "/documents /agents",
		"remote_agents a.example {\ntrusted_ca x\n}": "trusted_ca",
	} {
		if err := s.Load(acceptStore, s.Block(options)); err == nil || !testkit.ContainsAll(err.Error(), want) {
			t.Errorf("%q: %v, want %q", options, err, want)
		}
	}
	err := s.Load("", "oagent DIR/agent.yaml {\ntoolset TRIPS\nremote_agents a.example\n}\nrespond ok")
	if err == nil || !testkit.ContainsAll(err.Error(), "remote_agents model") {
		t.Errorf("remote_agents without model: %v", err)
	}
}

// TestAccept_expose checks that expose_agents lists accepted agents if it has no names.
func TestAccept_expose(t *testing.T) {
	for names, want := range map[string]bool{"": true, " desk": false} {
		s := exposed(t, sitetest.AgentDocument("desk", tripAgent), "mcp /mcp TRIPS {\nexpose_agents"+names+"\n}", acceptOptions, sitetest.Play(modelserver.Step{Text: "On time."}))
		if a := put(s, "ann", "mine", sitetest.AgentDocument("mine", "\n  get-trip: {user_identity: false}\n")); a.Status != http.StatusCreated {
			t.Fatalf("PUT: %d %s", a.Status, a.Body)
		}
		if want {
			sitetest.Eventually(t, "the tool", func() bool { return lists(s, "mine") })
			if got := callAgent(s.Site, "bob", "{}", "mine", "Is it late?"); got.StructuredContent.Text != "On time." {
				t.Errorf("call: %+v", got)
			}
			continue
		}
		s.State("bob", s.Begin("bob", "mine", "Is it late?")) // the agent is there
		if lists(s, "mine") || !lists(s, "desk") {
			t.Error("want the tool desk, and not mine")
		}
	}
}

// lists reports whether the MCP endpoint lists a tool.
func lists(s *sitetest.HostedSite, name string) bool {
	for _, tool := range mcpResult(s.Site, "bob", "{}", "tools/list", "", "").Tools {
		if tool.Name == name {
			return true
		}
	}
	return false
}
