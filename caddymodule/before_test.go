package caddymodule_test

import (
	"strings"
	"testing"
)

// TestBypassed: what guards or changes other paths in front of an endpoint does
// not see the tool calls for them, and a warning is logged.
func TestBypassed(t *testing.T) {
	const users = " {\nada $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n}\n"
	for name, test := range map[string]struct {
		block, handler string // handler is "" where nothing is wrong
	}{
		"authentication of another path": {"basic_auth /admin/*" + users, "authentication"},
		"forward_auth of another path":   {"forward_auth /admin/* 127.0.0.1:1 {\nuri /auth\n}\n", "reverse_proxy"},
		"rewrite of another path":        {"rewrite /old/* /new\n", "rewrite"},
		"authentication of the endpoint": {"basic_auth /mcp" + users, ""},
		"authentication of all":          {"basic_auth" + users, ""},
		"authentication behind":          {"handle /admin/* {\nbasic_auth" + users + "respond ok\n}\n", ""},
		"headers of another path":        {"header /static/* Cache-Control no-store\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.start("", test.block+"mcp /mcp TRIPS\nrespond ok")
			if test.handler != "" {
				s.logged("does not see tool calls", `"handler":"`+test.handler+`"`, `"handler_paths":["/`)
			} else if log := s.log(); strings.Contains(log, "does not see tool calls") {
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
			s := newSite(t)
			s.start("", test.block+"mcp /mcp TRIPS\nrespond ok")
			if test.handler != "" {
				s.logged("authenticates only some paths", `"handler":"`+test.handler+`"`)
			} else if log := s.log(); strings.Contains(log, "authenticates only some paths") {
				t.Error(log)
			}
			if test.handler != "" {
				return
			}
			for _, path := range []string{"/mcp", "/mcp/", "/mcp/sse", "/mcp/message", "/mcp%2F", "//mcp", "/x/../mcp"} {
				if got := s.ask("POST", path); got.status == 200 || got.status == 415 {
					t.Errorf("%s is open: %d", path, got.status)
				}
			}
		})
	}
}
