package caddymodule_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/keyword"
	"github.com/fairwayhq/fairway/internal/modelserver"
)

const (
	acceptStore   = "agents {\n\tstore bolt DIR/store.db\n}"
	acceptOptions = "accept /agents {\nby ann\ncapabilities get-trip list-*\nidentities partner\n}\nidentity partner header_up Authorization \"Bearer partner\"\nidentity admin header_up Authorization \"Bearer admin\""
)

// put sends a document as the agent with that name.
func (s *hostedSite) put(user, name, document string, header ...string) answer {
	s.t.Helper()
	return s.as(user, "PUT", "/agents/"+name, document, append([]string{"Content-Type", "application/yaml"}, header...)...)
}

// TestAccept checks the life of an accepted document: it is served, listed and run like that of a
// file, replaced under a condition, and deleted.
func TestAccept(t *testing.T) {
	s := hosted(t, agentDocument("desk", tripAgent), acceptOptions, play(calls("get-trip", `{"id":"7"}`), modelserver.Step{Text: "On time."}))
	document := agentDocument("mine", "\n  get-trip: {user_identity: false}\n")
	created := s.put("ann", "mine", document)
	tag := created.header.Get("Etag")
	if created.status != http.StatusCreated || tag == "" || created.header.Get("Location") != "/agents/mine" {
		t.Fatalf("created: %d %v %s", created.status, created.header, created.body)
	}
	read := s.as("bob", "GET", "/agents/mine", "")
	if read.status != http.StatusOK || read.body != document || read.header.Get("Etag") != tag {
		t.Errorf("read: %d %v %s", read.status, read.header, read.body)
	}
	if list := s.as("bob", "GET", "/agents", ""); !strings.Contains(list.body, `"mine"`) {
		t.Errorf("list: %s", list.body)
	}
	if v := s.state("bob", s.begin("bob", "mine", "Is trip 7 on time?")); v.Status != "complete" || v.Text != "On time." || v.Usage.ToolCalls != 1 {
		t.Errorf("run: %+v", v)
	}
	for _, step := range []struct {
		name   string
		answer answer
		want   int
	}{
		{"same version", s.put("ann", "mine", document), http.StatusNoContent},
		{"only if new", s.put("ann", "mine", document+"# 2\n", "If-None-Match", "*"), http.StatusPreconditionFailed},
		{"wrong version", s.put("ann", "mine", document+"# 2\n", "If-Match", `"x"`), http.StatusPreconditionFailed},
		{"right version", s.put("ann", "mine", document+"# 2\n", "If-Match", tag), http.StatusNoContent},
		{"delete the old version", s.as("ann", "DELETE", "/agents/mine", "", "If-Match", tag), http.StatusPreconditionFailed},
		{"delete by another user", s.as("eve", "DELETE", "/agents/mine", ""), http.StatusForbidden},
		{"delete the agent of a file", s.as("ann", "DELETE", "/agents/desk", ""), http.StatusConflict},
		{"delete", s.as("ann", "DELETE", "/agents/mine", ""), http.StatusNoContent},
		{"delete again", s.as("ann", "DELETE", "/agents/mine", ""), http.StatusNotFound},
		{"read the deleted", s.as("bob", "GET", "/agents/mine", ""), http.StatusNotFound},
		{"run the deleted", s.as("bob", "POST", "/agents/mine", `{"input":"x"}`), http.StatusNotFound},
	} {
		if step.answer.status != step.want {
			t.Errorf("%s: %d %s, want %d", step.name, step.answer.status, step.answer.body, step.want)
		}
	}
}

// TestAccept_refusals checks who may send what.
func TestAccept_refusals(t *testing.T) {
	s := hosted(t, agentDocument("desk", tripAgent), acceptOptions, play())
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
		"not authenticated":    {"", "mine", agentDocument("mine", "  get-trip: {}\n"), nil, 401, ""},
		"another user":         {"eve", "mine", agentDocument("mine", "  get-trip: {}\n"), nil, 403, ""},
		"from another site":    {"ann", "mine", agentDocument("mine", "  get-trip: {}\n"), []string{"Sec-Fetch-Site", "cross-site"}, 403, ""},
		"agent of a file":      {"ann", "desk", agentDocument("desk", "  get-trip: {}\n"), nil, 409, "file"},
		"not permitted":        {"ann", "mine", agentDocument("mine", "  get-trip: {}\n  delete-trip: {}\n"), nil, 422, "capabilities.delete-trip allow-list get-trip"},
		"agent of this site":   {"ann", "mine", agentDocument("mine", "  oagent://desk: {}\n"), nil, 422, "oagent://desk allow-list"},
		"not permitted tool":   {"ann", "mine", agentDocument("mine", "  get-trip: {}\n") + "guardrails: {input: {tool_name: create-trip, assertion: 'true'}}\n", nil, 422, "create-trip allow-list"},
		"other identity":       {"ann", "mine", agentDocument("mine", "  get-trip: {static_identity: admin}\n"), nil, 422, "admin allow-list partner"},
		"unknown tool":         {"ann", "mine", agentDocument("mine", "  get-trips: {}\n"), nil, 422, "unknown get-trips"},
		"not YAML":             {"ann", "mine", "kind: [", nil, 422, "YAML"},
		"empty":                {"ann", "mine", "", nil, 422, "no agent"},
		"other name":           {"ann", "mine", agentDocument("yours", "  get-trip: {}\n"), nil, 422, "yours mine"},
		"invalid name":         {"ann", "Mine", agentDocument("Mine", "  get-trip: {}\n"), nil, 422, "name"},
		"too many":             {"ann", "mine", agentDocument("mine", many.String()), nil, 422, "1000"},
		"too large":            {"ann", "mine", agentDocument("mine", "  get-trip: {}\n") + "# " + strings.Repeat("x", 300<<10), nil, 413, "KiB"},
		"10 MB":                {"ann", "mine", agentDocument("mine", "  get-trip: {}\n") + "# " + strings.Repeat("x", 10<<20), []string{"Expect", "100-continue"}, 413, "KiB"},
		"not a document":       {"ann", "mine", "x", []string{"Content-Type", "multipart/form-data"}, 415, ""},
		"a path below":         {"ann", "mine/x", agentDocument("mine", "  get-trip: {}\n"), nil, 405, ""},
		"the list":             {"ann", "", agentDocument("mine", "  get-trip: {}\n"), nil, 405, ""},
		"no agent to replace":  {"ann", "mine", agentDocument("mine", "  get-trip: {}\n"), []string{"If-Match", "*"}, 412, ""},
		"unknown agent's type": {"ann", "mine", strings.Replace(agentDocument("mine", "  get-trip: {}\n"), "v1", "v2", 1), nil, 422, "kind"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &hostedSite{site: s.with(t)}
			a := s.put(test.user, test.agent, test.document, test.header...)
			if a.status != test.status {
				t.Fatalf("%d %.1000s, want %d", a.status, a.body, test.status)
			}
			if p := s.problem(a); !keyword.All(p.Detail, test.want) || len(a.body) > 20_000 {
				t.Errorf("detail %.1000q, want %q", p.Detail, test.want)
			}
			if read := s.as("bob", "GET", "/agents/mine", ""); read.status != http.StatusNotFound {
				t.Errorf("the document is served: %s", read.body)
			}
		})
	}
}

// TestAccept_restart checks that accepted documents outlive the process, and that a shorter
// allow-list or a file with the same name takes effect on them.
func TestAccept_restart(t *testing.T) {
	s := newHostedSite(t, agentDocument("desk", tripAgent), play(modelserver.Step{Text: "Yes."}))
	block := s.block(acceptOptions)
	s.start(acceptStore, block)
	for _, name := range []string{"mine", "other"} {
		tool := map[string]string{"mine": "get-trip", "other": "list-trips"}[name]
		if a := s.put("ann", name, agentDocument(name, "  "+tool+": {}\n")); a.status != http.StatusCreated {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	served := func(step, name string, want int) {
		t.Helper()
		if a := s.as("bob", "GET", "/agents/"+name, ""); a.status != want {
			t.Errorf("%s: %s: %d %s", step, name, a.status, a.body)
		}
	}
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	s.start(acceptStore, block)
	served("restarted", "mine", 200)
	served("restarted", "other", 200)
	reload := func(block string) {
		t.Helper()
		if err := s.load(acceptStore, block); err != nil {
			t.Fatal(err)
		}
	}
	reload(strings.Replace(block, "get-trip list-*", "get-trip", 1))
	served("shorter list", "mine", 200)
	served("shorter list", "other", 404)
	s.logged(`"agent":"other"`)
	s.write("agent.yaml", agentDocument("mine", tripAgent))
	reload(block)
	if a := s.as("bob", "GET", "/agents/mine", ""); !strings.Contains(a.body, "create-trip") {
		t.Errorf("the file has no effect: %s", a.body)
	}
	served("whole list again", "other", 200)
}

// TestAccept_configuration checks the errors of the options.
func TestAccept_configuration(t *testing.T) {
	s := newHostedSite(t, agentDocument("desk", tripAgent), play())
	for options, want := range map[string]string{
		"accept {\nby ann\nidentities partner\n}":    "identities partner",
		"accept /documents {\nby ann\n}":             "/documents /agents",
		"remote_agents a.example {\ntrusted_ca x\n}": "trusted_ca",
	} {
		if err := s.load(acceptStore, s.block(options)); err == nil || !keyword.All(err.Error(), want) {
			t.Errorf("%q: %v, want %q", options, err, want)
		}
	}
	err := s.load("", "oagent DIR/agent.yaml {\ntoolset TRIPS\nremote_agents a.example\n}\nrespond ok")
	if err == nil || !keyword.All(err.Error(), "remote_agents model") {
		t.Errorf("remote_agents without model: %v", err)
	}
}

// TestAccept_expose checks that expose_agents lists accepted agents if it has no names.
func TestAccept_expose(t *testing.T) {
	for names, want := range map[string]bool{"": true, " desk": false} {
		s := exposed(t, agentDocument("desk", tripAgent), "mcp /mcp TRIPS {\nexpose_agents"+names+"\n}", acceptOptions, play(modelserver.Step{Text: "On time."}))
		if a := s.put("ann", "mine", agentDocument("mine", "\n  get-trip: {user_identity: false}\n")); a.status != http.StatusCreated {
			t.Fatalf("PUT: %d %s", a.status, a.body)
		}
		if want {
			eventually(t, "the tool", func() bool { return s.lists("mine") })
			if got := s.callAgent("bob", "{}", "mine", "Is it late?"); got.StructuredContent.Text != "On time." {
				t.Errorf("call: %+v", got)
			}
			continue
		}
		s.state("bob", s.begin("bob", "mine", "Is it late?")) // the agent is there
		if s.lists("mine") || !s.lists("desk") {
			t.Error("want the tool desk, and not mine")
		}
	}
}

// lists reports whether the MCP endpoint lists a tool.
func (s *hostedSite) lists(name string) bool {
	for _, tool := range s.mcpResult("bob", "{}", "tools/list", "", "").Tools {
		if tool.Name == name {
			return true
		}
	}
	return false
}
