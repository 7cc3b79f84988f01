package mcpservers_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// policies are the ways to forbid what the test's server offers, except the tool fail.
var policies = map[string]struct{ toolset, agent string }{
	"include": {toolset: "include operation fail"},
	"exclude": {toolset: "exclude operation add-numbers picture steps resource_plan resource_secret template_notes prompt_summarise completion"},
	"allow":   {toolset: "allow `tool.name == \"fail\"`"},
	"lock":    {toolset: "lock DIR/fail.lock"},
	"agent":   {agent: "clerk"},
}

const clerk = `kind: openagentspec:v1/agent
name: clerk
description: Works.
intent: You work.
owner: tests
capabilities:
  fail: {}
`

// attempts are the paths by which a client may reach what is forbidden. They return the responses.
var attempts = map[string]func(s *sitetest.Site) string{
	"list": func(s *sitetest.Site) string { return rpc(s, "/mcp?tools=all", "tools/list", `{}`) },
	"search": func(s *sitetest.Site) string {
		return rpc(s, "/mcp?tools=search", "tools/call", `{"name":"search_tools","arguments":{"queries":["add numbers"]}}`)
	},
	"call": func(s *sitetest.Site) string {
		return rpc(s, "/mcp", "tools/call", `{"name":"add_numbers","arguments":{"a":1,"b":2}}`)
	},
	"own name": func(s *sitetest.Site) string {
		return rpc(s, "/mcp", "tools/call", `{"name":"add-numbers","arguments":{"a":1,"b":2}}`)
	},
	"indirect": func(s *sitetest.Site) string {
		return rpc(s, "/mcp?tools=search", "tools/call", `{"name":"call_write_tool","arguments":{"name":"add_numbers","arguments":{"a":1,"b":2}}}`)
	},
	"resource as a tool": func(s *sitetest.Site) string {
		return rpc(s, "/mcp", "tools/call", `{"name":"resource_plan","arguments":{}}`)
	},
	"batch": func(s *sitetest.Site) string {
		return unlessRefused(s.Post("/mcp", `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add_numbers","arguments":{"a":1,"b":2}}}]`, map[string]string{"MCP-Protocol-Version": "2025-03-26"}))
	},
	"task": func(s *sitetest.Site) string {
		return rpc(s, "/mcp", "tools/call", `{"name":"add_numbers","arguments":{"a":1,"b":2},"task":{}}`)
	},
	"resources": func(s *sitetest.Site) string { return rpc(s, "/mcp", "resources/list", `{}`) },
	"templates": func(s *sitetest.Site) string { return rpc(s, "/mcp", "resources/templates/list", `{}`) },
	"resource":  func(s *sitetest.Site) string { return rpc(s, "/mcp", "resources/read", `{"uri":"memo://plan"}`) },
	"resource by template": func(s *sitetest.Site) string {
		return rpc(s, "/mcp", "resources/read", `{"uri":"memo://notes/2026/plan"}`)
	},
	"prompts": func(s *sitetest.Site) string { return rpc(s, "/mcp", "prompts/list", `{}`) },
	"prompt": func(s *sitetest.Site) string {
		return rpc(s, "/mcp", "prompts/get", `{"name":"summarise","arguments":{"topic-name":"x"}}`)
	},
	"completion of prompt": func(s *sitetest.Site) string {
		return rpc(s, "/mcp", "completion/complete", `{"ref":{"type":"ref/prompt","name":"summarise"},"argument":{"name":"topic-name","value":"x"}}`)
	},
	"completion of template": func(s *sitetest.Site) string {
		return rpc(s, "/mcp", "completion/complete", `{"ref":{"type":"ref/resource","uri":"memo://notes/{year}/{+name}"},"argument":{"name":"year","value":"x"}}`)
	},
	"OTC list": func(s *sitetest.Site) string { return s.Get("/otc/tools").Body },
	"OTC call": func(s *sitetest.Site) string {
		return unlessRefused(s.Request("POST", "/otc/tools/call", `{"request":{"tool_id":"Calculator.add_numbers","input":{"a":1,"b":2}}}`))
	},
	"plain request": func(s *sitetest.Site) string {
		return unlessRefused(s.Request("POST", "/calc/add-numbers", `{"a":1,"b":2}`))
	},
	"plain resource": func(s *sitetest.Site) string { return unlessRefused(s.Get("/calc/resources/plan")) },
}

// rpc sends a request of MCP 2025-06-18. The response contains none of the names that the request has.
func rpc(s *sitetest.Site, path, method, params string) string {
	return unlessRefused(s.Post(path, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params), map[string]string{"MCP-Protocol-Version": "2025-06-18"}))
}

// unlessRefused returns a response that is no refusal. A refusal may repeat the names of the request.
func unlessRefused(r sitetest.Response) string {
	body := r.Body
	if r.Status >= 400 || strings.Contains(body, `"error":{`) || strings.Contains(body, `"isError":true`) || strings.Contains(body, `"success":false`) {
		return "refused"
	}
	return body
}

// TestPolicies_hold_on_every_path tries each way to reach what each policy forbids. The first pass, without a policy,
// shows that every attempt can succeed.
func TestPolicies_hold_on_every_path(t *testing.T) {
	reached := func(t *testing.T, toolset, agent string) map[string]bool {
		u := addLibrary(t, true)
		s := sitetest.NewSite(t)
		s.Write("clerk.yaml", clerk)
		lockFail(t, s, u)
		endpoint := ""
		if agent != "" {
			endpoint = "agent " + agent
		}
		guard := ""
		if agent != "" {
			guard = "oagent DIR/clerk.yaml\n"
		}
		s.Start("agents {\ntoolset calc {\nmcp_server "+u.url+"\n"+toolset+"\n}\n}",
			"mcp /mcp calc {\n"+endpoint+"\n}\notc /otc calc {\n"+endpoint+"\n}\n"+guard+"mcp_servers\nrespond refused")
		sitetest.Eventually(t, "the tools are listed", func() bool { return strings.Contains(s.Get("/otc/tools").Body, ".fail@") })
		all := make(map[string]bool)
		for name, attempt := range attempts {
			before := u.requests.Load()
			got := attempt(s)
			all[name] = u.requests.Load() != before
			for _, word := range []string{"add_numbers", "add-numbers", "memo://", "summarise"} {
				all[name] = all[name] || strings.Contains(got, word)
			}
		}
		return all
	}
	open := reached(t, "", "")
	for name, found := range open {
		if want := !strings.HasPrefix(name, "plain") && name != "resource as a tool"; found != want {
			t.Errorf("without a policy: %s: reached %t, want %t", name, found, want)
		}
	}
	for policy, c := range policies {
		t.Run(policy, func(t *testing.T) {
			for name, found := range reached(t, c.toolset, c.agent) {
				if found {
					t.Errorf("%s reached what the policy forbids", name)
				}
			}
		})
	}
}

// lockFail writes a lock that approves the tool fail only.
func lockFail(t *testing.T, s *sitetest.Site, u *upstream) {
	t.Helper()
	file := s.Write("lock.caddyfile", "{\nagents {\ntoolset calc {\nmcp_server "+u.url+"\ninclude operation fail\nlock "+s.Dir+"/fail.lock\n}\n}\n}\nhttp://127.0.0.1:1 {\nmcp /mcp calc\nmcp_servers\n}\n")
	if out, errs, err := sitetest.CaddyTools("lock", "--config", file, "--toolset", "calc"); err != nil {
		t.Fatal(err, out, errs)
	}
}
