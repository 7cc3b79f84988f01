package route_test

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestEndpoint_that_can_never_be_reached_is_a_configuration_error(t *testing.T) {
	for name, block := range map[string]string{
		"two mcp":                          "mcp /mcp TRIPS\nmcp /mcp OTHER",
		"two mcp without a path":           "mcp TRIPS\nmcp OTHER",
		"two otc":                          "otc /otc TRIPS\notc /otc OTHER",
		"with a slash at the end":          "mcp /mcp TRIPS\nmcp /mcp/ OTHER",
		"otc below otc":                    "otc /otc TRIPS\notc /otc/more OTHER",
		"mcp behind otc":                   "route {\notc /tools TRIPS\nmcp /tools OTHER\n}",
		"mcp below otc":                    "route {\notc /tools TRIPS\nmcp /tools/mcp OTHER\n}",
		"behind a subroute":                "route {\nmcp /mcp TRIPS\n}\nroute {\nmcp /mcp OTHER\n}",
		"in a block behind":                "mcp /mcp TRIPS\nhandle /mcp* {\nmcp /mcp OTHER\n}",
		"behind one with the same matcher": "@a header X-A a\nroute @a {\nmcp /mcp TRIPS\n}\nroute @a {\nmcp /mcp OTHER\n}",
		"in one block":                     "handle_path /v1/* {\nmcp /mcp TRIPS\nmcp /mcp OTHER\n}",
		"rewritten before both":            "uri strip_prefix /v1\nmcp /mcp TRIPS\nmcp /mcp OTHER",
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			other := s.Write("other.yaml", sitetest.Renamed)
			block = strings.ReplaceAll(block, "OTHER", other)
			err := s.Load("", block+"\nrespond ok")
			if err == nil || !testkit.ContainsAll(err.Error(), "never reached") {
				t.Fatalf("got %v, want an endpoint that is never reached", err)
			}
			if !strings.Contains(err.Error(), "trips.yaml") || !strings.Contains(err.Error(), "other.yaml") {
				t.Errorf("got %v, want the names of both documents", err)
			}
		})
	}
}

func TestEndpoint_that_can_be_reached_is_accepted(t *testing.T) {
	for name, block := range map[string]string{
		"two paths":             "mcp /mcp TRIPS\nmcp /other OTHER",
		"mcp below mcp":         "mcp /mcp TRIPS\nmcp /mcp/other OTHER",
		"otc behind mcp":        "mcp /tools TRIPS\notc /tools OTHER",
		"otc outside of otc":    "route {\notc /otc/more TRIPS\notc /otc OTHER\n}",
		"two matchers":          "@a header X-A a\n@b header X-A b\nmcp @a TRIPS\nmcp @b OTHER",
		"a matcher, then none":  "@a header X-A a\nmcp @a TRIPS\nmcp OTHER",
		"two not-matchers":      "@a not header X-A a\n@b not header X-A b\nmcp @a TRIPS\nmcp @b OTHER",
		"two stripped prefixes": "handle_path /a/* {\nmcp /mcp TRIPS\n}\nhandle_path /b/* {\nmcp /mcp OTHER\n}",
		"a prefix stripped":     "route {\nmcp /mcp TRIPS\nuri strip_prefix /v2\nmcp /mcp OTHER\n}",
		"a block that strips":   "mcp /mcp TRIPS\nhandle_path /v2/* {\nmcp /mcp OTHER\n}",
		"alternative blocks":    "route {\nhandle /v2* {\nheader X-A a\n}\nhandle {\nmcp /mcp TRIPS\n}\nmcp /mcp OTHER\n}",
		"another site":          "mcp /mcp TRIPS\nrespond ok\n}\nhttp://b.test:PORT {\nmcp /mcp OTHER",
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			other := s.Write("other.yaml", sitetest.Renamed)
			block = strings.NewReplacer("OTHER", other, "PORT", strings.TrimPrefix(s.URL, "http://127.0.0.1:")).Replace(block)
			s.Start("", block+"\nrespond ok")
		})
	}
}

// TestEndpoint_otc_behind_mcp_at_one_path: each protocol has paths of its own, so both
// answer.
func TestEndpoint_otc_behind_mcp_at_one_path(t *testing.T) {
	s := sitetest.Run(t, "", "mcp /mcp TRIPS\notc /mcp TRIPS\nrespond ok")
	s.WantTools("listTrips", "createTrip", "probeTrips", "getTrip", "deleteTrip")
	if a := s.Get("/mcp/tools"); a.Status != 200 || !strings.Contains(a.Body, "listTrips") {
		t.Errorf("otc: %d %s", a.Status, a.Body)
	}
}
