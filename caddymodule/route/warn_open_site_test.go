package route_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

const (
	adaUsers = " {\nada $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n}\n"
	adaKeys  = " {\napi_key {\nkey ada secret-of-ada\n}\n}\n"
)

func TestOpenEndpoint_with_own_credentials_is_warned_about_at_start(t *testing.T) {
	const (
		global     = "agents {\ntoolset trips TRIPS {\ncredential header Authorization \"Bearer gateway-secret\"\n}\n}"
		endpoints  = "mcp /mcp trips\notc /otc trips\n"
		answers    = "reverse_proxy 127.0.0.1:1"
		mcp, otc   = `"path":"/mcp"`, `"path":"/otc"`
		forwarding = "forward_auth 127.0.0.1:1 {\nuri /auth\n}\n"
	)
	for name, test := range map[string]struct {
		block string
		open  []string
	}{
		"nothing before":            {endpoints, []string{mcp, otc}},
		"one of two":                {"agent_auth /mcp*" + adaKeys + endpoints, []string{otc}},
		"another path":              {"basic_auth /admin/*" + adaUsers + endpoints, []string{mcp, otc}},
		"all but one":               {"@o not path /otc*\nbasic_auth @o" + adaUsers + endpoints, []string{otc}},
		"health only":               {"basic_auth /otc/health" + adaUsers + endpoints, []string{mcp, otc}},
		"reads only":                {"@get method GET\nbasic_auth @get" + adaUsers + endpoints, []string{mcp, otc}},
		"a header":                  {"@h header X-Internal 1\nbasic_auth @h" + adaUsers + endpoints, []string{mcp, otc}},
		"but for a header":          {"@h not header X-Internal 1\nbasic_auth @h" + adaUsers + endpoints, []string{mcp, otc}},
		"a query, in a block":       {"route {\n@q query key=1\nbasic_auth @q" + adaUsers + "}\nroute {\n" + endpoints + answers + "\n}\n", []string{mcp, otc}},
		"an expression of paths":    {"@p path_regexp ^/admin\nbasic_auth @p" + adaUsers + endpoints, []string{mcp, otc}},
		"same header":               {"@h header X-Internal 1\nroute @h {\nbasic_auth" + adaUsers + "}\nroute @h {\n" + endpoints + "}\n", nil},
		"path_regexp":               {"@p path_regexp ^/(mcp|otc)\nbasic_auth @p" + adaUsers + endpoints, nil},
		"optional":                  {"agent_auth {\napi_key {\nkey ada secret-of-ada\n}\noptional\n}\n" + endpoints, []string{mcp, otc}},
		"exempt":                    {"agent_auth {\napi_key {\nkey ada secret-of-ada\n}\nexempt /otc/*\n}\n" + endpoints, []string{otc}},
		"behind":                    {"route {\n" + endpoints + "agent_auth" + adaKeys + "}\n", []string{mcp, otc}},
		"between":                   {"route {\nmcp /mcp trips\nagent_auth" + adaKeys + "otc /otc trips\n}\n", []string{mcp}},
		"another block":             {"handle /v1* {\nagent_auth" + adaKeys + "respond ok\n}\nhandle {\n" + endpoints + answers + "\n}\n", []string{mcp, otc}},
		"another site":              {endpoints + answers + "\n}\nhttp://a.test:PORT {\nbasic_auth" + adaUsers, []string{mcp, otc}},
		"allow_anonymous":           {"mcp /mcp trips {\nallow_anonymous\n}\notc /otc trips\n", []string{otc}},
		"allow_anonymous, both":     {"mcp /mcp trips {\nallow_anonymous\n}\notc /otc trips {\nallow_anonymous\n}\n", nil},
		"no credential":             {"mcp /mcp TRIPS\notc /otc TRIPS\n", nil},
		"header_up":                 {"mcp /mcp TRIPS\nreverse_proxy 127.0.0.1:1 {\nheader_up Authorization \"Bearer x\"\n}\n", []string{mcp}},
		"header_up of the caller":   {"mcp /mcp TRIPS\nreverse_proxy 127.0.0.1:1 {\nheader_up Authorization {http.request.header.X-Auth}\n}\n", nil},
		"requirements off":          {"otc /otc TRIPS {\nrequirements off\n}\n", []string{otc}},
		"agent_auth":                {"agent_auth" + adaKeys + endpoints, nil},
		"agent_auth for both paths": {"@tools path /mcp* /otc*\nagent_auth @tools" + adaKeys + endpoints, nil},
		"agent_auth, health exempt": {"agent_auth {\napi_key {\nkey ada secret-of-ada\n}\nexempt /otc/health\n}\n" + endpoints, nil},
		"basic_auth":                {"basic_auth" + adaUsers + endpoints, nil},
		"forward_auth":              {forwarding + endpoints, nil},
		"forward_auth in a block":   {"handle {\n" + forwarding + endpoints + answers + "\n}\n", nil},
		"around a block":            {"basic_auth" + adaUsers + "handle {\n" + endpoints + answers + "\n}\n", nil},
		"in a route before":         {"route {\nbasic_auth" + adaUsers + "}\nroute {\n" + endpoints + answers + "\n}\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Start(global, strings.ReplaceAll(test.block, "PORT", fmt.Sprint(s.Port))+answers)
			sitetest.WantOpen(t, s, `"level":"warn"`, test.open)
		})
	}
}

func TestOpenEndpoint_on_this_machine_only_is_logged_at_level_info(t *testing.T) {
	s := sitetest.NewSite(t)
	s.Start("", "bind 127.0.0.1\nmcp /mcp TRIPS {\ncredential header X-Key secret\n}\nrespond ok")
	sitetest.WantOpen(t, s, `"level":"info"`, []string{`"path":"/mcp"`})
}

func TestOpenEndpoint_behind_client_certificates_is_not_warned_about(t *testing.T) {
	for mode, open := range map[string][]string{"require": nil, "request": {`"path":"/mcp"`}} {
		t.Run(mode, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Start("skip_install_trust", fmt.Sprintf(`respond ok
			}
			https://a.test:%d {
				tls internal {
					client_auth {
						mode %s
					}
				}
				mcp /mcp TRIPS {
					credential header X-Key secret
				}
				respond ok`, testkit.FreePort(t), mode))
			sitetest.WantOpen(t, s, `"level":"warn"`, open)
		})
	}
}
