package mcpservers_test

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

const global = "agents {\ntoolset calc {\nmcp_server http://127.0.0.1:1\n}\n}"

// TestStart_requires_mcp_servers rejects sites on which nothing can answer the calls of a server's tools.
func TestStart_requires_mcp_servers(t *testing.T) {
	for name, test := range map[string]struct {
		block string
		fails bool
	}{
		"none":                  {"mcp\nrespond ok", true},
		"several toolsets":      {"mcp /mcp trips calc\nrespond ok", true},
		"otc":                   {"otc\nrespond ok", true},
		"before the endpoint":   {"route {\nmcp_servers\nmcp\nrespond ok\n}", true},
		"in another block":      {"handle /mcp* {\nmcp\nrespond ok\n}\nhandle {\nmcp_servers\n}", true},
		"behind":                {"mcp\nmcp_servers", false},
		"in a block behind":     {"route {\nmcp\nhandle /calc/* {\nmcp_servers\n}\nrespond ok\n}", false},
		"behind in outer block": {"route {\nroute {\nmcp\n}\nmcp_servers\n}", false},
		"an API only":           {"mcp /mcp trips\nrespond ok", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			options := global
			if strings.Contains(test.block, "trips") {
				options = strings.Replace(global, "agents {", "agents {\ntoolset trips TRIPS", 1)
			}
			err := s.Load(options, test.block)
			if (err != nil) != test.fails || err != nil && !testkit.ContainsAll(err.Error(), "calc mcp_servers directive") {
				t.Errorf("got %v", err)
			}
			if strings.Contains(s.Log(), "responds to requests") {
				t.Errorf("there is a warning that nothing responds: %s", s.Log())
			}
		})
	}
}

// TestStart_reports_servers logs which servers are used, and what is wrong with them.
func TestStart_reports_servers(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Start("agents {\ntoolset local {\nmcp_server command /bin/false --secret\n}\ntoolset plain {\nmcp_server http://mcp.invalid/mcp?key=secret {\nheader Authorization secret\n}\n}\n"+
		"toolset near {\nmcp_server http://127.0.0.1:1 {\nheader Authorization secret\n}\n}\n}", "mcp /mcp local plain near\nmcp_servers")
	s.Logged(`"level":"info"`, "local", "/bin/false", "rights of the gateway")
	s.Logged(`"level":"warn"`, "plain", "plain text", "https")
	if log := s.Log(); strings.Count(log, "sent in plain text") != 1 || strings.Contains(log, "secret") {
		t.Errorf("the log is %s", log)
	}
}
