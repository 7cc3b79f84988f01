package route_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// ordersDocument has a tool that reads, and one that writes and takes an amount. Both are MCP resources.
const ordersDocument = `openapi: 3.1.0
info: {title: Orders, version: "1"}
paths:
  /orders/{id}:
    get:
      operationId: getOrder
      tags: [orders]
      x-mcp: {resource: {uri: "orders://one/{id}"}}
      parameters: [{name: id, in: path, required: true, schema: {type: string, enum: [a, b]}}]
      responses: {"200": {description: ok}}
  /refunds/{amount}:
    get:
      operationId: getRefund
      tags: [money]
      x-mcp: {resource: {uri: "refunds://one/{amount}"}}
      parameters: [{name: amount, in: path, required: true, schema: {type: integer, enum: [1, 1000]}}]
      responses: {"200": {description: ok}}
`

// ruleSite is a site whose API answers with the tool that was called.
type ruleSite struct {
	*sitetest.Site
	token string
}

func (s *ruleSite) mcp(path, method, params string) sitetest.Response {
	return s.Post(path, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params),
		map[string]string{"Authorization": "Bearer " + s.token, "MCP-Protocol-Version": "2025-06-18"})
}

func (s *ruleSite) ask(method, path, body string) sitetest.Response {
	return s.Request(method, path, body, "Authorization", "Bearer "+s.token)
}

// shows are the paths by which a client learns of the tool getRefund.
var shows = map[string]func(s *ruleSite) string{
	"MCP list":              func(s *ruleSite) string { return s.mcp("/mcp", "tools/list", `{}`).Body },
	"MCP list of a session": func(s *ruleSite) string { return s.mcp("/mcp?tools=all", "tools/list", `{}`).Body },
	"MCP search": func(s *ruleSite) string {
		return s.mcp("/mcp?tools=search", "tools/call", `{"name":"search_tools","arguments":{"queries":["getRefund"]}}`).Body
	},
	"MCP describe": func(s *ruleSite) string {
		return s.mcp("/mcp?tools=search", "tools/call", `{"name":"describe_tools","arguments":{"names":["getRefund","getOrder"]}}`).Body
	},
	"MCP resource templates": func(s *ruleSite) string { return s.mcp("/mcp", "resources/templates/list", `{}`).Body },
	"MCP completion": func(s *ruleSite) string {
		return s.mcp("/mcp", "completion/complete", `{"ref":{"type":"ref/resource","uri":"refunds://one/{amount}"},"argument":{"name":"amount","value":""}}`).Body
	},
	"MCP pair of toolsets": func(s *ruleSite) string { return s.mcp("/pair", "tools/list", `{}`).Body },
	"MCP similar names": func(s *ruleSite) string {
		return strings.ReplaceAll(s.mcp("/mcp", "tools/call", `{"name":"getRefunt","arguments":{}}`).Body, "getRefunt", "")
	},
	"OTC list":       func(s *ruleSite) string { return s.ask("GET", "/otc/tools", "").Body },
	"OTC query":      func(s *ruleSite) string { return s.ask("GET", "/otc/tools?query=refund", "").Body },
	"console":        func(s *ruleSite) string { return s.ask("GET", "/console/api/tools", "").Body },
	"console search": func(s *ruleSite) string { return s.ask("GET", "/console/api/tools?q=refund", "").Body },
	"console tool":   func(s *ruleSite) string { return s.ask("GET", "/console/api/tools/mcp/getRefund", "").Body },
}

// calls are the paths by which a client calls getRefund with an amount.
var calls = map[string]func(s *ruleSite, amount string) string{
	"MCP call": func(s *ruleSite, amount string) string {
		return s.mcp("/mcp", "tools/call", `{"name":"getRefund","arguments":{"amount":`+amount+`}}`).Body
	},
	"MCP call_write_tool": func(s *ruleSite, amount string) string {
		return s.mcp("/mcp?tools=search", "tools/call", `{"name":"call_write_tool","arguments":{"name":"getRefund","arguments":{"amount":`+amount+`}}}`).Body
	},
	"MCP call_read_tool": func(s *ruleSite, amount string) string {
		return s.mcp("/mcp?tools=search", "tools/call", `{"name":"call_read_tool","arguments":{"name":"getRefund","arguments":{"amount":`+amount+`}}}`).Body
	},
	"MCP resource": func(s *ruleSite, amount string) string {
		return s.mcp("/mcp", "resources/read", `{"uri":"refunds://one/`+amount+`"}`).Body
	},
	"MCP pair of toolsets": func(s *ruleSite, amount string) string {
		return s.mcp("/pair", "tools/call", `{"name":"getRefund","arguments":{"amount":`+amount+`}}`).Body
	},
	"MCP batch": func(s *ruleSite, amount string) string {
		return s.Post("/mcp", `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"getRefund","arguments":{"amount":`+amount+`}}}]`,
			map[string]string{"Authorization": "Bearer " + s.token, "MCP-Protocol-Version": "2025-03-26"}).Body
	},
	"OTC call": func(s *ruleSite, amount string) string {
		return s.ask("POST", "/otc/tools/call", `{"request":{"tool_id":"Orders.getRefund","input":{"amount":`+amount+`}}}`).Body
	},
	"console call": func(s *ruleSite, amount string) string {
		return s.ask("POST", "/console/api/tools/mcp/getRefund", `{"arguments":{"amount":`+amount+`}}`).Body
	},
}

// TestRule_holds_on_every_path evaluates each rule by each way to learn of a tool and to call it.
func TestRule_holds_on_every_path(t *testing.T) {
	const marker = "RAN getRefund"
	for rule, c := range map[string]struct {
		allow                string
		claims               []any
		listed, small, large bool
	}{
		"true":                      {`true`, nil, true, true, true},
		"false":                     {`false`, nil, false, false, false},
		"tag":                       {`!("money" in tool.tags)`, nil, false, false, false},
		"reads":                     {`tool.readOnly`, nil, false, false, false},
		"name":                      {`tool.name == "getRefund" && tool.method == "GET" && tool.path == "/refunds/{amount}" && tool.operationId == "getRefund" && tool.toolset == "orders"`, nil, true, true, true},
		"user":                      {`user.id == "ada"`, nil, true, true, true},
		"another user":              {`user.id == "bob"`, nil, false, false, false},
		"group":                     {`"ops" in user.groups`, []any{"groups", []string{"ops"}}, true, true, true},
		"not in the group":          {`"ops" in user.groups`, []any{"groups", []string{"dev"}}, false, false, false},
		"groups left out":           {`!("contractors" in user.groups)`, []any{"hasgroups", true}, false, false, false},
		"groups left out, not read": {`user.id == "ada" || "ops" in user.groups`, []any{"hasgroups", true}, true, true, true},
		"claim":                     {`user.claims.department.name == "money"`, []any{"department", map[string]any{"name": "money"}}, true, true, true},
		"missing claim":             {`user.claims.department != "money"`, nil, false, false, false},
		"arguments":                 {`tool.name != "getRefund" || arguments.amount < 100`, nil, true, true, false},
		"arguments and group":       {`"money" in tool.tags ? ("ops" in user.groups && arguments.amount < 100) : true`, []any{"groups", "ops"}, true, true, false},
		"arguments, false anyway":   {`arguments.amount < 100 && "ops" in user.groups`, nil, false, false, false},
		"presence of an argument":   {`has(arguments.amount) && size(arguments) == 1`, nil, true, true, true},
		"missing argument":          {`arguments.other == 1`, nil, true, false, false},
		"loop over arguments":       {`arguments.map(k, arguments[k]).all(v, v < 100)`, nil, true, true, false},
		"not a bool":                {`user.claims.scope`, nil, false, false, false},
		"too costly":                {`lists.range(1000).all(a, lists.range(1000).all(b, a * b >= 0))`, nil, false, false, false},
	} {
		t.Run(rule, func(t *testing.T) {
			i := sitetest.NewIssuer(t)
			site := sitetest.NewSite(t)
			site.Write("orders.yaml", ordersDocument)
			site.Start("agents {\ntoolset orders DIR/orders.yaml {\nallow `"+c.allow+"`\ntool getRefund {\nannotation readOnlyHint false\n}\n}\ntoolset trips TRIPS\n}", `
				agent_auth {
					issuer `+i.URL+`
					audience test
					pass_token # for the console
				}
				mcp /mcp orders
				mcp /pair orders trips
				otc /otc orders
				agents_console
				respond "RAN {http.tool.name}"`)
			s := &ruleSite{site, i.Token(t, "test", c.claims...)}
			for path, show := range shows {
				word := map[string]string{"MCP completion": "1000", "MCP describe": `\"kind\":\"write\"`}[path]
				if word == "" {
					word = "getRefund"
				}
				got := show(s)
				// A call of a listed tool has no names that are similar to it.
				if listed := strings.Contains(got, word); listed != c.listed && (listed || path != "MCP similar names") {
					t.Errorf("%s: listed %t, want %t: %s", path, listed, c.listed, got)
				}
			}
			for path, call := range calls {
				for amount, want := range map[string]bool{"1": c.small, "1000": c.large, `"1000"`: c.large, "1e3": c.large} {
					if path == "MCP resource" && amount != "1" && amount != "1000" {
						continue // a URI has no JSON types
					}
					want = want && path != "MCP call_read_tool" // the tool does not only read
					if got := call(s, amount); strings.Contains(got, marker) != want {
						t.Errorf("%s with %s: ran %t, want %t: %s", path, amount, !want, want, got)
					}
				}
			}
		})
	}
}

// TestRule_in_log_only_is_reported makes the calls of each path with a rule that allows none of the large amounts.
func TestRule_in_log_only_is_reported(t *testing.T) {
	i := sitetest.NewIssuer(t)
	site := sitetest.NewSite(t)
	site.Write("orders.yaml", ordersDocument)
	site.Start("agents {\ntoolset orders DIR/orders.yaml {\nallow `tool.name != \"getOrder\"`\nallow_log_only `arguments.amount < 100 && \"ops\" in user.groups`\ncredential header X-Key k1\n}\ntoolset trips TRIPS\n}", `
		agent_auth {
			issuer `+i.URL+`
			audience test
			pass_token # for the console
		}
		mcp /mcp orders
		mcp /pair orders trips
		otc /otc orders
		agents_console {
			auditors ada
		}
		respond "RAN {http.tool.name}"`)
	s := &ruleSite{site, i.Token(t, "test", "groups", []string{"ops"})}
	for path, show := range shows {
		if got := show(s); path != "MCP completion" && path != "MCP similar names" && !strings.Contains(got, "getRefund") {
			t.Errorf("%s: the tool is not listed: %s", path, got)
		}
	}
	reported := func() int {
		return strings.Count(s.ask("GET", "/console/api/calls?would=refuse&limit=1000", "").Body, `"rule":"orders.allow_log_only"`)
	}
	for path, call := range calls {
		if path == "MCP call_write_tool" {
			continue // the tool only reads
		}
		for amount, want := range map[string]int{"1": 0, "1000": 1} {
			before := reported()
			if got := call(s, amount); !strings.Contains(got, "RAN getRefund") || strings.Contains(got, "would") {
				t.Errorf("%s with %s: %s", path, amount, got)
			}
			if n := reported() - before; n != want {
				t.Errorf("%s with %s: %d reports, want %d", path, amount, n, want)
			}
		}
	}
	before := reported()
	s.mcp("/mcp", "tools/call", `{"name":"getOrder","arguments":{"id":"a"}}`) // refused by the rule that is enforced
	if n := reported() - before; n != 0 {
		t.Errorf("%d reports of a call that was refused", n)
	}
	s.Logged("a call went through that would have been refused", "orders.allow_log_only")
	s.Logged("log only: calls go on", "allow_log_only")
	s.Logged("in log only carry credentials of the gateway")
	if a := s.Get("/metrics"); a.Status == http.StatusOK && !strings.Contains(a.Body, `fairway_would_refuse_total{agent="",rule="orders.allow_log_only"}`) {
		t.Errorf("no metric: %s", a.Body)
	}
}

// TestRule_users_have_lists_of_their_own asks by turns, so that what is cached for one user would reach the other.
func TestRule_users_have_lists_of_their_own(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Start("agents {\ntoolset t TRIPS {\nallow `tool.readOnly || user.id == \"boss\"`\nsearch on\n}\n}", "route {\ntest_user\nmcp /mcp t {\npublic_lists\n}\notc /otc t\nrespond ok\n}")
	for range 3 {
		for user, sees := range map[string]bool{"boss": true, "ada": false, "": false} {
			for name, got := range map[string]sitetest.Response{
				"MCP": s.Post("/mcp?tools=all", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, map[string]string{"X-Test-User": user}),
				"OTC": s.Request(http.MethodGet, "/otc/tools", "", "X-Test-User", user),
			} {
				if strings.Contains(got.Body, "deleteTrip") != sees || !strings.Contains(got.Body, "getTrip") {
					t.Errorf("%s: %q sees deleteTrip: %t, want %t: %.300s", name, user, !sees, sees, got.Body)
				}
				if strings.Contains(got.Body, `"cacheScope":"public"`) {
					t.Errorf("%s: a list that depends on the user may be cached for all", name)
				}
			}
		}
	}
}
