package mcpservers_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// A policySource is something that a toolset is made of. Each has the tools add_numbers and fail, the resource
// memo://plan, a template, the prompt summarise and completion.
type policySource struct {
	start   func(t *testing.T, s *sitetest.Site) (toolset, after string, requests *atomic.Int64) // requests for all but fail
	all     string                                                                               // its operations but fail
	overlay string                                                                               // paths of these, for an overlay
}

var policySources = map[string]policySource{
	"MCP": {
		start: func(t *testing.T, _ *sitetest.Site) (toolset, after string, requests *atomic.Int64) {
			u := addLibrary(t, true)
			return "mcp_server " + u.url, "mcp_servers\nrespond refused", &u.requests
		},
		all:     "add-numbers picture steps resource_plan resource_secret template_notes prompt_summarise completion",
		overlay: "/calc/add-numbers /calc/picture /calc/steps /calc/resources/plan /calc/resources/secret /calc/templates/notes /calc/prompts/summarise /calc/completion",
	},
	"REST": {
		start: func(t *testing.T, s *sitetest.Site) (toolset, after string, requests *atomic.Int64) {
			requests = new(atomic.Int64)
			api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/calc/fail" {
					requests.Add(1)
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"sum":3}`)
			})
			return "openapi " + s.Write("calc.yaml", policyDocument), "tools_only\nreverse_proxy " + api, requests
		},
		all:     "add-numbers resource_plan template_notes prompt_summarise",
		overlay: "/calc/add-numbers /calc/resources/plan /calc/templates/notes/{year}/{name} /calc/prompts/summarise",
	},
}

// policyDocument describes an API that offers what the MCP server of addLibrary does.
const policyDocument = `openapi: 3.1.0
info: {title: Calculator, version: "3.1"}
paths:
  /calc/add-numbers:
    post:
      operationId: add-numbers
      requestBody: {required: true, content: {application/json: {schema: {type: object, properties: {a: {type: integer}, b: {type: integer}}}}}}
      responses: &answer {"200": {description: ok, content: {application/json: {schema: {type: object}}}}}
  /calc/fail:
    post: {operationId: fail, responses: *answer}
  /calc/resources/plan:
    get: {operationId: resource_plan, x-mcp: {tool: false, resource: {uri: "memo://plan"}}, responses: *answer}
  /calc/templates/notes/{year}/{name}:
    get:
      operationId: template_notes
      x-mcp: {tool: false, resource: {uri: "memo://notes/{year}/{+name}"}}
      parameters:
        - {name: year, in: path, required: true, schema: {type: string, enum: ["2026", "x1"]}}
        - {name: name, in: path, required: true, schema: {type: string}}
      responses: *answer
  /calc/prompts/summarise:
    post:
      operationId: prompt_summarise
      x-mcp: {tool: false, prompt: {name: summarise, arguments: [{name: topic-name, required: true}]}}
      requestBody: {required: true, content: {application/json: {schema: {type: object, properties: {topic-name: {type: string, enum: ["x", "x1"]}}}}}}
      responses: *answer
`

// policies are the ways to forbid all that a source offers, except the tool fail.
var policies = map[string]struct {
	toolset, agent string
	scope          bool
	spares         func(source, attempt string) bool // what the policy does not forbid; nil for nothing
}{
	"include": {toolset: "include operation fail"},
	"exclude": {toolset: "exclude operation ALL"},
	"allow":   {toolset: "allow `tool.name == \"fail\"`"},
	"lock":    {toolset: "lock DIR/fail.lock"},
	"agent":   {agent: "clerk"},
	"scope": {toolset: "overlay DIR/scopes.yaml\ncredential header X-Key key", scope: true, spares: func(_, attempt string) bool {
		return attempt == "OTC list" // which says what each tool requires
	}},
	"readonly": {toolset: "readonly", spares: func(source, attempt string) bool {
		return strings.HasPrefix(attempt, "resource") || attempt == "templates" || attempt == "completion of template" && source == "REST"
	}},
}

const clerk = `kind: openagentspec:v1/agent
name: clerk
description: Works.
intent: You work.
owner: tests
capabilities:
  fail: {}
`

// policyWords are in no response but those to a client that sees or gets what is forbidden.
var policyWords = []string{"add_numbers", "add-numbers", "memo://", "summarise"}

// A policyClient sends requests to a site with the same headers.
type policyClient struct {
	*sitetest.Site
	header map[string]string
}

// send sends a request and returns the response, unless it is a refusal: that may repeat the names of the request.
func (c policyClient) send(method, path, body string, header ...string) string {
	c.T.Helper()
	for name, value := range c.header {
		header = append(header, name, value)
	}
	r := c.Request(method, path, body, header...)
	if r.Status >= 400 || strings.Contains(r.Body, `"error":{`) || strings.Contains(r.Body, `"isError":true`) || strings.Contains(r.Body, `"success":false`) {
		return "refused"
	}
	return r.Body
}

// rpc sends a request of MCP 2025-11-25.
func (c policyClient) rpc(path, method, params string, header ...string) string {
	c.T.Helper()
	return c.send("POST", path, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params),
		append(header, "MCP-Protocol-Version", "2025-11-25", "Accept", "application/json, text/event-stream")...)
}

// session opens a session and returns its header.
func (c policyClient) session() []string {
	c.T.Helper()
	header := []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}
	for name, value := range c.header {
		header = append(header, name, value)
	}
	r := c.Request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`, header...)
	return []string{"Mcp-Session-Id", r.Header.Get("Mcp-Session-Id")}
}

// complete requests completions and returns a word of policyWords if there are any.
func (c policyClient) complete(params string) string {
	c.T.Helper()
	return strings.Replace(c.rpc("/mcp", "completion/complete", params), `"values":["`, "memo://", 1)
}

const policyCall = `{"name":"add_numbers","arguments":{"a":1,"b":2}}`

// attempts are the paths by which a client may reach what is forbidden. They return the responses.
var attempts = map[string]func(c policyClient) string{
	"list": func(c policyClient) string { return c.rpc("/mcp?tools=all", "tools/list", `{}`) },
	"search": func(c policyClient) string {
		return c.rpc("/mcp?tools=search", "tools/call", `{"name":"search_tools","arguments":{"queries":["add numbers"]}}`)
	},
	"describe": func(c policyClient) string { // the response repeats the name
		if got := c.rpc("/mcp?tools=search", "tools/call", `{"name":"describe_tools","arguments":{"names":["add_numbers"]}}`); strings.Contains(got, "inputSchema") {
			return got
		}
		return "refused"
	},
	"call": func(c policyClient) string { return c.rpc("/mcp", "tools/call", policyCall) },
	"own name": func(c policyClient) string {
		return c.rpc("/mcp", "tools/call", strings.Replace(policyCall, "_", "-", 1))
	},
	"indirect": func(c policyClient) string {
		return c.rpc("/mcp?tools=search", "tools/call", `{"name":"call_write_tool","arguments":`+policyCall+`}`)
	},
	"indirect read": func(c policyClient) string {
		return c.rpc("/mcp?tools=search", "tools/call", `{"name":"call_read_tool","arguments":`+policyCall+`}`)
	},
	"request as a tool": func(c policyClient) string {
		return c.rpc("/mcp", "tools/call", `{"name":"resource_plan","arguments":{}}`)
	},
	"batch": func(c policyClient) string {
		return c.send("POST", "/mcp", `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+policyCall+`}]`, "MCP-Protocol-Version", "2025-03-26", "Accept", "application/json, text/event-stream")
	},
	"task of 2025-11-25": func(c policyClient) string {
		session := c.session()
		began := c.rpc("/mcp", "tools/call", strings.Replace(policyCall, "{", `{"task":{},`, 1), session...)
		var task struct {
			Result struct{ Task struct{ TaskID string } }
		}
		if json.Unmarshal([]byte(began), &task) != nil || task.Result.Task.TaskID == "" {
			return began
		}
		return c.rpc("/mcp", "tasks/result", fmt.Sprintf(`{"taskId":%q}`, task.Result.Task.TaskID), session...)
	},
	"task of 2026-07-28": func(c policyClient) string {
		return c.send("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add_numbers","arguments":{"a":1,"b":2},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientCapabilities":`+sitetest.TaskCapability+`}}}`, "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "add_numbers")
	},
	"resources": func(c policyClient) string { return c.rpc("/mcp", "resources/list", `{}`) },
	"templates": func(c policyClient) string { return c.rpc("/mcp", "resources/templates/list", `{}`) },
	"resource":  func(c policyClient) string { return c.rpc("/mcp", "resources/read", `{"uri":"memo://plan"}`) },
	"resource by template": func(c policyClient) string {
		return c.rpc("/mcp", "resources/read", `{"uri":"memo://notes/2026/plan"}`)
	},
	"resource subscription": func(c policyClient) string {
		return strings.Replace(c.rpc("/mcp", "resources/subscribe", `{"uri":"memo://plan"}`, c.session()...), `"result":{`, "memo://", 1)
	},
	"resource listening": func(c policyClient) string {
		var header []string
		for name, value := range c.header {
			header = append(header, name, value)
		}
		stream := sitetest.StreamsOf(c.Site).ListenTo(`{"resourceSubscriptions":["memo://plan"],"toolsListChanged":true}`, header...)
		defer stream.Body.Close()
		return sitetest.Message(c.T, bufio.NewReader(stream.Body)) // what the subscription acknowledges
	},
	"prompts": func(c policyClient) string { return c.rpc("/mcp", "prompts/list", `{}`) },
	"prompt": func(c policyClient) string {
		return c.rpc("/mcp", "prompts/get", `{"name":"summarise","arguments":{"topic-name":"x"}}`)
	},
	"completion of prompt": func(c policyClient) string {
		return c.complete(`{"ref":{"type":"ref/prompt","name":"summarise"},"argument":{"name":"topic-name","value":"x"}}`)
	},
	"completion of template": func(c policyClient) string {
		return c.complete(`{"ref":{"type":"ref/resource","uri":"memo://notes/{year}/{+name}"},"argument":{"name":"year","value":"x"}}`)
	},
	"OTC list": func(c policyClient) string { return c.send("GET", "/otc/tools", "") },
	"OTC call": func(c policyClient) string {
		return c.send("POST", "/otc/tools/call", `{"request":{"tool_id":"Calculator.add_numbers","input":{"a":1,"b":2}}}`)
	},
	"OTC call with credentials": func(c policyClient) string {
		return c.send("POST", "/otc/tools/call", `{"request":{"tool_id":"Calculator.add_numbers","input":{"a":1,"b":2},"context":{"authorization":[{"id":"login","token":"x"}]}}}`)
	},
	"console list": func(c policyClient) string { return c.send("GET", "/console/api/tools", "") },
	"console tool": func(c policyClient) string { return c.send("GET", "/console/api/tools/mcp/add_numbers", "") },
	"console call": func(c policyClient) string {
		form := url.Values{"json": {`{"a":1,"b":2}`}, "do": {"send"}}.Encode()
		r, err := http.NewRequestWithContext(c.T.Context(), http.MethodPost, c.URL+"/console/tools/mcp/add_numbers", strings.NewReader(form))
		if err != nil {
			c.T.Fatal(err)
		}
		for name, value := range c.header {
			r.Header.Set(name, value)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		c.Do(r) // the page repeats the name; whether it has called the tool counts
		return ""
	},
	"plain request":  func(c policyClient) string { return c.send("POST", "/calc/add-numbers", `{"a":1,"b":2}`) },
	"plain resource": func(c policyClient) string { return c.send("GET", "/calc/resources/plan", "") },
}

// reached returns which attempts reach something of a source under a policy of the toolset and of the endpoints.
func reached(t *testing.T, source policySource, toolset, agent string, scope bool) map[string]bool {
	t.Helper()
	s := sitetest.NewSite(t)
	s.Write("clerk.yaml", clerk)
	origin, after, requests := source.start(t, s)
	if strings.Contains(toolset, "lock") {
		lockFail(t, s, origin)
	}
	writeScopes(s, source)
	c := policyClient{s, map[string]string{"X-Test-User": "ada"}}
	login, endpoint, guard := "test_user\n", "", ""
	if scope {
		i := sitetest.NewIssuer(t)
		login = "agent_auth {\nissuer " + i.URL + "\n}\n"
		c.header = map[string]string{"Authorization": "Bearer " + i.Token(t, s.URL+"/", "scope", "fail")}
	}
	if agent != "" {
		endpoint, guard = "{\nagent "+agent+"\n}", "oagent DIR/clerk.yaml\n"
	}
	s.Start("agents {\nstore bolt DIR/store.db\ntoolset calc {\n"+origin+"\n"+strings.Replace(toolset, "ALL", source.all, 1)+"\n}\n}",
		"route {\n"+login+"agents_console\nmcp /mcp calc "+endpoint+"\notc /otc calc "+endpoint+"\n"+guard+after+"\n}")
	sitetest.Eventually(t, "the tools are loaded", func() bool { return c.rpc("/mcp", "tools/list", `{}`) != "refused" })
	all := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(attempts)) {
		before := requests.Load()
		got := attempts[name](c)
		all[name] = requests.Load() != before || slices.ContainsFunc(policyWords, func(word string) bool { return strings.Contains(got, word) })
	}
	return all
}

// TestPolicies_hold_on_every_path tries each way to reach what each policy forbids, for each kind of source. The first
// pass, without a policy, shows that every attempt can succeed.
func TestPolicies_hold_on_every_path(t *testing.T) {
	for name, source := range policySources {
		t.Run(name, func(t *testing.T) {
			unreachable := []string{"plain request", "plain resource", "request as a tool", "indirect read"}
			if name == "REST" {
				unreachable = append(unreachable, "own name")
			}
			for attempt, found := range reached(t, source, "", "", false) {
				if want := !slices.Contains(unreachable, attempt); found != want {
					t.Errorf("without a policy: %s: reached %t, want %t", attempt, found, want)
				}
			}
			for policy, c := range policies {
				t.Run(policy, func(t *testing.T) {
					for attempt, found := range reached(t, source, c.toolset, c.agent, c.scope) {
						if want := c.spares != nil && c.spares(name, attempt); found != want {
							t.Errorf("%s: reached %t, want %t", attempt, found, want)
						}
					}
				})
			}
		})
	}
}

// lockFail writes a lock that approves the tool fail only.
func lockFail(t *testing.T, s *sitetest.Site, origin string) {
	t.Helper()
	file := s.Write("lock.caddyfile", "{\nagents {\ntoolset calc {\n"+origin+"\ninclude operation fail\nlock "+s.Dir+"/fail.lock\n}\n}\n}\n")
	if out, errs, err := sitetest.CaddyTools("lock", "--config", file, "--toolset", "calc"); err != nil {
		t.Fatal(err, out, errs)
	}
}

// writeScopes writes an overlay that requires a scope for everything but fail.
func writeScopes(s *sitetest.Site, source policySource) {
	b := "overlay: 1.0.0\ninfo: {title: Scopes, version: \"1\"}\nactions:\n" +
		"- {target: $, update: {components: {securitySchemes: {login: {type: oauth2, flows: {}}}}}}\n"
	for path := range strings.FieldsSeq(source.overlay) {
		b += fmt.Sprintf("- {target: \"$.paths['%s'].*\", update: {security: [{login: [write]}]}}\n", path)
	}
	s.Write("scopes.yaml", b)
}
