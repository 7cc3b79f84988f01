package caddymodule_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestMistakes_in_Caddyfiles wants errors that say where something belongs.
func TestMistakes_in_Caddyfiles(t *testing.T) {
	for name, c := range map[string]struct{ caddyfile, want string }{
		"a toolset in a site":          {":80 {\n\ttoolset buses buses.yaml\n}\n", "agents { toolset Caddyfile:2"},
		"agents in a site":             {":80 {\n\thandle {\n\t\tagents {\n\t\t\ttoolset buses buses.yaml\n\t\t}\n\t}\n}\n", "global Caddyfile:3"},
		"a toolset outside of agents":  {"{\n\ttoolset buses buses.yaml\n}\n", "agents { toolset Caddyfile:2"},
		"an option of mcp in otc":      {":80 {\n\totc /otc buses.yaml {\n\t\tpage_size 5\n\t}\n}\n", "page_size option of mcp"},
		"an option of otc in mcp":      {":80 {\n\tmcp /mcp buses.yaml {\n\t\ttoolkit Trips\n\t}\n}\n", "toolkit option of otc"},
		"an option of agents in mcp":   {":80 {\n\tmcp /mcp buses.yaml {\n\t\taudit\n\t}\n}\n", "audit option of agents"},
		"metadata as issuer":           {":80 {\n\tagent_auth {\n\t\tissuer https://id.example.com/realm/.well-known/oauth-authorization-server\n\t}\n}\n", "write https://id.example.com/realm"},
		"metadata as provider":         {":80 {\n\tagent_login {\n\t\tprovider keycloak https://id.example.com/.well-known/openid-configuration\n\t}\n}\n", "write https://id.example.com"},
		"a credential of ocp":          {":80 {\n\tocp {\n\t\tcredential query key x\n\t}\n}\n", "unrecognized credential"},
		"a header of each message":     {":80 {\n\tmcp /mcp buses.yaml {\n\t\tforward_headers Content-Type\n\t}\n}\n", "Content-Type never forwarded"},
		"a header of an MCP session":   {"{\n\tagents {\n\t\ttoolset a a.yaml {\n\t\t\tforward_headers mcp-session-id\n\t\t}\n\t}\n}\n", "mcp-session-id never forwarded"},
		"a webhook without a host":     {":80 {\n\toagent a.yaml {\n\t\treviewer ada {\n\t\t\task https://:8443/reviews\n\t\t}\n\t}\n}\n", "host"},
		"a model's port without host":  {":80 {\n\toagent a.yaml {\n\t\tmodel openai {\n\t\t\tbase_url http://:8000/v1\n\t\t}\n\t}\n}\n", "base_url host"},
		"an origin of agents: no host": {":80 {\n\tmcp /mcp a.yaml {\n\t\tdiscovery {\n\t\t\turl https://:443/mcp\n\t\t}\n\t}\n}\n", "absolute URL"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := sitetest.Adapt(c.caddyfile)
			if err == nil || !sitetest.ContainsAll(err.Error(), strings.Fields(c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestMistakes_options_of_other_directives checks that each option is one of the directive that the error names.
func TestMistakes_options_of_other_directives(t *testing.T) {
	known := func(directive string) []string {
		_, _, err := sitetest.Adapt(":80 {\n\t" + directive + " {\n\t\tqqqqqqqqqqqqqqqq\n\t}\n}\n")
		_, list, _ := strings.Cut(err.Error(), "known are ")
		list, _, _ = strings.Cut(list, ", at Caddyfile")
		return strings.Split(list, ", ")
	}
	mcp, otc := known("mcp"), known("otc")
	for owner, other := range map[string]string{"mcp": "otc", "otc": "mcp"} {
		own, others := mcp, otc
		if owner == "otc" {
			own, others = otc, mcp
		}
		for _, option := range own {
			if slices.Contains(others, option) {
				continue
			}
			if _, _, err := sitetest.Adapt(":80 {\n\t" + other + " {\n\t\t" + option + "\n\t}\n}\n"); err == nil || !strings.Contains(err.Error(), "an option of "+owner) {
				t.Errorf("%s in %s: %v", option, other, err)
			}
		}
	}
}

// TestMistakes_found_at_start wants configurations rejected whose values are known only at start.
func TestMistakes_found_at_start(t *testing.T) {
	for name, c := range map[string]struct{ global, block, want string }{
		"an address of Redis without slashes": {"agents {\nstore redis redis:6379\n}", "respond ok", "redis://redis:6379"},
		"a variable without a value":          {"", "mcp /mcp {$FAIRWAY_TEST_UNSET}\nrespond ok", "not set"},
		"a header that oagent cannot forward": {"", "mcp /mcp TRIPS\noagent DIR/clerk.yaml {\nforward_headers accept-language\n}\nrespond ok", "toolset lists it"},
		"a document that is compressed":       {"agents {\ntoolset packed DIR/packed.yaml.gz\n}", "mcp /mcp packed\nrespond ok", "compressed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Write("packed.yaml.gz", "\x1f\x8b\x08\x00")
			s.Write("clerk.yaml", sitetest.AgentDocument("clerk", "  list-trips: {}\n"))
			if err := s.Load("", "respond ok"); err != nil {
				t.Fatal(err)
			}
			if err := s.Load(c.global, c.block); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestWarnings_about_calls_that_reach_no_API wants one warning for each mistake, and none for sites that work.
func TestWarnings_about_calls_that_reach_no_API(t *testing.T) {
	const circle, unanswered, moved = "to no address, or to this site itself", "responds to these tool calls", "at another path than its own"
	t.Setenv("FAIRWAY_TEST_API", "127.0.0.1:1")
	for name, c := range map[string]struct{ block, want string }{
		"no address":                        {"mcp /mcp TRIPS\notc /otc TRIPS\nreverse_proxy {$FAIRWAY_TEST_UNSET}", circle},
		"no host":                           {"mcp /mcp TRIPS\nreverse_proxy {env.FAIRWAY_TEST_UNSET}:80", circle},
		"an address":                        {"mcp /mcp TRIPS\nreverse_proxy {env.FAIRWAY_TEST_API}", ""},
		"an address of the request":         {"mcp /mcp TRIPS\nreverse_proxy {http.request.host}:80", ""},
		"the site itself":                   {"mcp /mcp TRIPS\nreverse_proxy SELF", circle},
		"another host of the same listener": {"mcp /mcp TRIPS\nreverse_proxy SELF {\nheader_up Host api.test\n}", ""},
		"another part of the site":          {"handle /mcp* {\nmcp /mcp TRIPS\nreverse_proxy SELF\n}\nhandle {\nrespond ok\n}", ""},
		"forward_auth of the site itself":   {"mcp /mcp TRIPS\nforward_auth SELF {\nuri /who\n}\nrespond ok", ""},
		"other paths":                       {"mcp /mcp TRIPS\nreverse_proxy /v1/* 127.0.0.1:1", unanswered},
		"other paths, in a block":           {"handle {\nmcp /mcp TRIPS\nreverse_proxy /v1/* 127.0.0.1:1\n}", unanswered},
		"paths of some tools":               {"mcp /mcp TRIPS\nreverse_proxy /trips/* 127.0.0.1:1", unanswered},
		"paths after a rewrite":             {"route {\nmcp /mcp TRIPS\nrewrite * /v1{uri}\nreverse_proxy /v1/* 127.0.0.1:1\n}", ""},
		"the endpoint's own matcher":        {"handle /mcp* {\nmcp /mcp TRIPS\nreverse_proxy 127.0.0.1:1\n}", ""},
		"inside of handle_path":             {"handle_path /v1/* {\nmcp /mcp TRIPS\nreverse_proxy 127.0.0.1:1\n}", moved},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			self := strings.TrimPrefix(s.URL, "http://")
			s.Start("", strings.ReplaceAll(c.block, "SELF", self))
			for _, warning := range []string{circle, unanswered, moved} {
				want := 0
				if warning == c.want {
					want = 1
				}
				if got := strings.Count(s.Log(), warning); got != want {
					t.Errorf("%d warnings %q, want %d\n%s", got, warning, want, s.Log())
				}
			}
		})
	}
}
