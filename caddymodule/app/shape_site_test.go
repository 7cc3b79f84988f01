package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestShape_site checks what a configured shape does on each protocol, to rules and to plain requests.
func TestShape_site(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("orders.yaml", sitetest.ShapedDocument)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "  list-orders:\n    user_identity: false\n"+
		"    input_restriction: {assertion: \"recent.list-orders.inputs.account == \\\"acme\\\" && recent.list-orders.inputs.page_size < 50 && !has(recent.list-orders.inputs.debug)\"}\n"))
	s.Start(`agents {
		store bolt DIR/store.db
		toolset orders DIR/orders.yaml {
			`+sitetest.ShapedBlock+`
		}
	}`, `agent_auth {
			optional
			api_key {
				key grace k1
			}
		}
		vars tenant blue
		mcp /mcp orders
		otc /otc orders
		oagent DIR/agent.yaml {
			toolset orders
		}
		reverse_proxy `+sitetest.Upstream(t, sitetest.Echo))
	call := func(arguments string) *http.Request {
		r := s.CallRequest("list_orders", arguments)
		r.Header.Set("X-Api-Key", "k1")
		return r
	}
	list := s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, map[string]string{"MCP-Protocol-Version": "2025-11-25", "X-Api-Key": "k1"}).Body
	for _, text := range []string{
		`"name":"list_orders"`, `"title":"Orders of the account"`, `"description":"Lists orders, newest first."`, `"idempotentHint":false`,
		`"page_size":`, `"default":20`, "At most 50.",
	} {
		if !strings.Contains(list, text) {
			t.Errorf("the list lacks %s: %s", text, list)
		}
	}
	otc := s.Request("GET", "/otc/tools", "").Body
	for _, text := range []string{"acme", "per_page", `"account"`, `"owner"`, `"debug"`, "X-Tenant", "X_Tenant", "orders_list"} {
		if strings.Contains(list, text) || strings.Contains(otc, text) {
			t.Errorf("%s is listed:\n%s\n%s", text, list, otc)
		}
	}
	for arguments, want := range map[string]string{
		`{}`:               "/accounts/acme/orders?owner=grace&per_page=20 t-blue",
		`{"page_size":30}`: "/accounts/acme/orders?owner=grace&per_page=30 t-blue",
	} {
		r := call(arguments)
		r.Header.Set("X-Tenant", "red") // the caller's own header does not replace the fixed one
		if e := s.Echo(r); e.URI+" "+e.Header.Get("X-Tenant") != want {
			t.Errorf("%s sends %s %s, want %s", arguments, e.URI, e.Header.Get("X-Tenant"), want)
		}
	}
	a := s.Post("/otc/call", `{"request":{"tool_id":"Orders.list_orders","input":{"page_size":10}}}`, map[string]string{"X-Api-Key": "k1"})
	if a.Status != http.StatusOK || !strings.Contains(a.Body, `owner=grace\u0026per_page=10`) {
		t.Errorf("otc: %d %s", a.Status, a.Body)
	}
	for _, refused := range []string{`{"account":"other"}`, `{"per_page":5}`, `{"debug":true}`, `{"owner":"grace"}`, `{"page_size":60}`} {
		if r := s.Result(s.Do(call(refused))); !r.IsError {
			t.Errorf("%s is accepted: %s", refused, r.Text())
		}
	}
	// Without a user, the fixed value is empty, so nothing is sent.
	if r := s.Call("list_orders", "{}"); !r.IsError || strings.Contains(r.Text(), "http.auth") {
		t.Errorf("without a user: %s", r.Text())
	}
	s.Logged("fixed value", "http.auth.user.id")
	// Rules see what a plain request gives for fixed and hidden arguments.
	for path, status := range map[string]int{
		"/accounts/acme/orders?per_page=5":            http.StatusOK,
		"/accounts/other/orders?per_page=5":           http.StatusForbidden,
		"/accounts/acme/orders?per_page=5&debug=true": http.StatusForbidden,
		"/accounts/acme/orders?per_page=5&DEBUG=true": http.StatusForbidden,
	} {
		if a := s.Request("GET", path, ""); a.Status != status {
			t.Errorf("plain request %s: %d %s, want %d", path, a.Status, a.Body, status)
		}
	}
}

// TestShape_reload_of_a_document checks that a document which loses a fixed argument is not used.
func TestShape_reload_of_a_document(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Write("orders.yaml", sitetest.ShapedDocument)
	s.Start("", "vars tenant blue\nmcp /mcp DIR/orders.yaml {\n"+strings.ReplaceAll(sitetest.ShapedBlock, "{http.auth.user.id}", "me")+"\n}\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
	s.Write("orders.yaml", strings.ReplaceAll(sitetest.ShapedDocument, "name: owner,", "name: user,"))
	s.Logged("previous tools stay in use", "owner")
	if e := s.Echo(s.CallRequest("list_orders", `{}`)); e.URI != "/accounts/acme/orders?owner=me&per_page=20" {
		t.Errorf("got %s", e.URI)
	}
}

// TestShape_configuration_errors checks that mistakes are found at start, with the word of the Caddyfile.
func TestShape_configuration_errors(t *testing.T) {
	for block, words := range map[string][]string{
		"tool order_list {\n\trename x\n}":                                             {"order_list", "orders_list"},
		"tool orders_list":                                                             {"tool orders_list changes nothing"},
		"tool orders_list {\n\trenam x\n}":                                             {"renam", "rename"},
		"tool orders_list {\n\targument perpage {\n\t\thide\n\t}\n}":                   {"perpage", "per_page"},
		"tool orders_list {\n\targument account {\n\t\thide\n\t}\n}":                   {"account", "hide"},
		"tool orders_list {\n\targument per_page {\n\t\tdefault 500\n\t}\n}":           {"per_page", "default"},
		"tool orders_list {\n\targument per_page {\n\t\tfixd 5\n\t}\n}":                {"fixd", "fixed"},
		"tool orders_list {\n\targument owner {\n\t\tfixed {http.request.uri}\n\t}\n}": {"owner", "{http.request.uri}"},
		"tool orders_list {\n\tannotation readonlyHint true\n}":                        {"readOnlyHint"},
		"tool orders_list {\n\tmax_tokens few\n}":                                      {"max_tokens"},
		"tool orders_list {\n\tselect .[\n}":                                           {"select"},
		"tool * {\n\trename x\n}":                                                      {"rename"},
		"tool orders_list {\n\ttitle x\n}\ntool orders_list {\n\ttitle y\n}":           {"twice"},
	} {
		s := sitetest.NewSite(t)
		s.Write("orders.yaml", sitetest.ShapedDocument)
		_, _, err := sitetest.Adapt("localhost {\nmcp orders.yaml {\n" + block + "\n}\n}")
		if err == nil {
			err = s.Load("", "mcp DIR/orders.yaml {\n"+block+"\n}")
		}
		if err == nil || !sitetest.ContainsAll(err.Error(), words) {
			t.Errorf("%s: got error %v, want %q", block, err, words)
		}
	}
}

// TestShape_real_documents checks shapes on documents as they are.
func TestShape_real_documents(t *testing.T) {
	for document, test := range map[string]struct{ block, tool, arguments, uri string }{
		"github-api.github.com.json.gz": {
			"readonly\ntool issues_list_for_repo {\n\trename list_issues\n\targument owner {\n\t\tfixed acme\n\t}\n\targument per_page {\n\t\trename page_size\n\t\tdefault 20\n\t}\n}",
			"list_issues", `{"repo":"site","state":"open"}`, "/repos/acme/site/issues?state=open&sort=created&direction=desc&per_page=20&page=1",
		},
		"stripe.json.gz": {
			"tool GetCustomers {\n\trename list_customers\n\targument limit {\n\t\tdefault 5\n\t}\n\targument expand {\n\t\thide\n\t}\n}",
			"list_customers", `{"email":"a@b.c"}`, "/v1/customers?email=a%40b.c&limit=5",
		},
		"slack-web-v2.json.gz": {
			"tool * {\n\targument token {\n\t\tfixed xoxb\n\t}\n}\ntool conversations_list {\n\trename channels\n\targument limit {\n\t\tdefault 100\n\t}\n}",
			"channels", `{}`, "/api/conversations.list?token=xoxb&limit=100",
		},
	} {
		t.Run(document, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Write("api.json", string(testkit.ReadDocument(t, "openapi/"+document)))
			s.Start("", "mcp DIR/api.json {\n"+test.block+"\n}\nreverse_proxy "+sitetest.Upstream(t, sitetest.Echo))
			if e := s.Echo(s.CallRequest(test.tool, test.arguments)); e.URI != test.uri {
				t.Errorf("got %s, want %s", e.URI, test.uri)
			}
		})
	}
}
