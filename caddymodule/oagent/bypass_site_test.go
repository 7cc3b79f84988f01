package oagent_test

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestBypassed: what guards or changes other paths in front of an endpoint does
// not see the tool calls for them, and a warning is logged.
func TestBypassed(t *testing.T) {
	const users = " {\nada $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n}\n"
	for name, test := range map[string]struct {
		block, handler string // handler is "" where nothing is wrong
	}{
		"authentication of another path": {"basic_auth /trips/*" + users, "authentication"},
		"forward_auth of another path":   {"forward_auth /trips/* 127.0.0.1:1 {\nuri /auth\n}\n", "reverse_proxy"},
		"rewrite of another path":        {"rewrite /trips/* /new\n", "rewrite"},
		"authentication of the endpoint": {"basic_auth /mcp" + users, ""},
		"authentication of all":          {"basic_auth" + users, ""},
		"authentication behind":          {"handle /trips/* {\nbasic_auth" + users + "respond ok\n}\n", ""},
		"a path without an operation":    {"basic_auth /admin/*" + users, ""},
		"headers of another path":        {"header /static/* Cache-Control no-store\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Start("", test.block+"mcp /mcp TRIPS\nrespond ok")
			if test.handler != "" {
				s.Logged("does not see tool calls", `"handler":"`+test.handler+`"`, `"handler_paths":["/`)
			} else if log := s.Log(); strings.Contains(log, "does not see tool calls") {
				t.Error(log)
			}
		})
	}
}

// TestOAgent_warns_of_changed_requests: a handler between the guard and the API that changes requests causes a
// warning.
func TestOAgent_warns_of_changed_requests(t *testing.T) {
	const guard, proxy = "mcp TRIPS\noagent DIR/agent.yaml\n", "reverse_proxy 127.0.0.1:1\n"
	for name, test := range map[string]struct {
		block, handler string // handler is "" where nothing is wrong
	}{
		"rewrite":                        {"route {\n" + guard + "rewrite * /secret\n" + proxy + "}", "rewrite"},
		"method":                         {"route {\n" + guard + "method DELETE\n" + proxy + "}", "rewrite"},
		"uri replace":                    {"route {\n" + guard + "uri replace /items /secret\n" + proxy + "}", "rewrite"},
		"uri query":                      {"route {\n" + guard + "uri query admin 1\n" + proxy + "}", "rewrite"},
		"request_header":                 {"route {\n" + guard + "request_header X-HTTP-Method-Override DELETE\n" + proxy + "}", "headers"},
		"a handle block inside":          {"route {\n" + guard + "handle /a/* {\nrewrite * /secret\n" + proxy + "}\n}", "rewrite"},
		"after the route of the guard":   {"route {\nroute {\n" + guard + "}\nmethod DELETE\n" + proxy + "}", "rewrite"},
		"rewrite in reverse_proxy":       {"route {\n" + guard + "reverse_proxy 127.0.0.1:1 {\nrewrite /secret\n}\n}", "reverse_proxy"},
		"before the guard":               {"route {\nrewrite * /trips\nrequest_header X-A b\n" + guard + proxy + "}", ""},
		"no route":                       {guard + "rewrite * /trips\nmethod GET\nrequest_header X-A b\n" + proxy, ""},
		"another handle block":           {"route {\nhandle /a/* {\n" + guard + proxy + "}\nhandle {\nrewrite * /secret\n" + proxy + "}\n}", ""},
		"handle_path":                    {"route {\n" + guard + "handle_path /trips/* {\n" + proxy + "}\n}", "rewrite"},
		"uri strip_prefix":               {"route {\n" + guard + "uri strip_prefix /trips\n" + proxy + "}", "rewrite"},
		"the base_path of the site":      {"route {\n" + strings.Replace(guard, "mcp TRIPS", "mcp TRIPS {\nbase_path /api\n}", 1) + "handle_path /api/* {\n" + proxy + "}\n}", ""},
		"credentials, and no header":     {"route {\n" + guard + "request_header Authorization secret\nrequest_header -Cookie\n" + proxy + "}", ""},
		"headers of the response":        {"route {\n" + guard + "header X-A b\n" + proxy + "}", ""},
		"forward_auth after the guard":   {"route {\n" + guard + "forward_auth 127.0.0.1:1 {\nuri /auth\n}\n" + proxy + "}", ""},
		"another site of the same Caddy": {guard + proxy + "}\nhttp://127.0.0.2:{$OTHER_PORT:20001} {\nrewrite * /x\n" + proxy, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Write("agent.yaml", sitetest.AgentDocument("desk", "  list-trips: {user_identity: false}\n"))
			s.Start("agents {\n\tstore bolt DIR/store.db\n}", test.block)
			if test.handler != "" {
				s.Logged("after they are checked", `"handler":"`+test.handler+`"`, `"directive":"oagent"`)
			} else if log := s.Log(); strings.Contains(log, "after they are checked") {
				t.Error(log)
			}
		})
	}
}

// TestHalfGuarded: authentication that asks at some of the paths of an endpoint
// only causes a warning, and agent_auth with a path selects what is below it too.
func TestHalfGuarded(t *testing.T) {
	const users = " {\nada $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n}\n"
	const keys = " {\napi_key {\nkey ada secret-of-ada\n}\n}\n"
	for name, test := range map[string]struct {
		block, handler string // handler is "" where nothing is wrong
	}{
		"exact":                   {"basic_auth /mcp" + users, "authentication"},
		"below":                   {"basic_auth /mcp/*" + users, "authentication"},
		"all":                     {"basic_auth /mcp*" + users, ""},
		"two paths":               {"@mcp path /mcp /mcp/*\nbasic_auth @mcp" + users, ""},
		"agent_auth":              {"agent_auth /mcp" + keys, ""},
		"agent_auth with a slash": {"agent_auth /mcp/" + keys, ""},
		"agent_auth, named":       {"@mcp path /mcp\nagent_auth @mcp" + keys, "agent_auth"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Start("", test.block+"mcp /mcp TRIPS\nrespond ok")
			if test.handler != "" {
				s.Logged("authenticates only some paths", `"handler":"`+test.handler+`"`)
			} else if log := s.Log(); strings.Contains(log, "authenticates only some paths") {
				t.Error(log)
			}
			if test.handler != "" {
				return
			}
			for _, path := range []string{"/mcp", "/mcp/", "/mcp/sse", "/mcp/message", "/mcp%2F", "//mcp", "/x/../mcp"} {
				if got := s.Ask("POST", path); got.Status == 200 || got.Status == 415 {
					t.Errorf("%s is open: %d", path, got.Status)
				}
			}
		})
	}
}
