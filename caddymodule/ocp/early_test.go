package ocp_test

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestOCPEarly wants a warning at start for each handler that uses a placeholder of ocp
// before it has a value, and for no other.
func TestOCPEarly(t *testing.T) {
	const warning = "handler before ocp uses an OCP placeholder"
	a := sitetest.NewAPI(t, nil)
	for name, c := range map[string]struct {
		block, handler string // handler is "" if nothing is wrong
	}{
		"header":                 {"header X-Goal {http.ocp.current_goal}\nocp", "headers"},
		"header with a matcher":  {"header /trips* X-Goal \"goal: {http.ocp.current_goal}\"\nocp", "headers"},
		"request_header":         {"request_header X-Goal {http.ocp.current_goal}\nocp", "headers"},
		"rewrite":                {"rewrite /{http.ocp.user}\nocp", "rewrite"},
		"vars":                   {"vars goal {http.ocp.session.current_file}\nocp", "vars"},
		"in a handle block":      {"handle /trips* {\nheader X-Goal {http.ocp.user}\nocp\nreverse_proxy API\n}", "headers"},
		"before a handle block":  {"header X-Goal {http.ocp.user}\nhandle {\nocp\nreverse_proxy API\n}", "headers"},
		"route block before ocp": {"route {\nroute /x {\nheader X-Goal {http.ocp.user}\n}\nocp\n}", "headers"},
		"deferred header":        {"header >X-Goal {http.ocp.current_goal}\nocp", ""},
		"log_append":             {"log_append goal {http.ocp.current_goal}\nocp", ""},
		"map":                    {"map {http.ocp.agent_type} {kind} {\ndefault x\n}\nocp", ""},
		"behind ocp":             {"route {\nocp\nheader X-Goal {http.ocp.current_goal}\n}", ""},
		"another placeholder":    {"header X-Method {http.request.method}\nocp", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := ocpSite(t, a, c.block+"\nreverse_proxy API")
			if c.handler != "" {
				s.Logged(warning, `"handler":"`+c.handler+`"`, "{http.ocp.")
			} else if log := s.Log(); strings.Contains(log, warning) {
				t.Error(log)
			}
		})
	}
}

// TestOCP_deferred_header wants the header that the documentation recommends to have the value.
func TestOCP_deferred_header(t *testing.T) {
	a := sitetest.NewAPI(t, nil)
	s := ocpSite(t, a, "header >X-Goal {http.ocp.current_goal}\nocp\nreverse_proxy API")
	if got := s.Do(agent(s, "GET", "/trips", "OCP-Current-Goal", "debug")); got.Header.Get("X-Goal") != "debug" {
		t.Errorf("got %v", got.Header)
	}
}
