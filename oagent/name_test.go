package oagent_test

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/oagent"
)

func TestKebabName(t *testing.T) {
	for tool, want := range map[string]string{
		"get_trip":              "get-trip",
		"getTrip":               "get-trip",
		"getTripById":           "get-trip-by-id",
		"HTTPGet":               "http-get",
		"listV2":                "list-v2",
		"v2List":                "v2-list",
		"get_repos_owner_repo":  "get-repos-owner-repo",
		"List__all_":            "list-all",
		"refund":                "refund",
		"n2fa_enable":           "n2fa-enable",
		"":                      "",
		"___":                   "",
		"Ünïcode":               "n-code",
		strings.Repeat("aB", 9): "a-ba-ba-ba-ba-ba-ba-ba-ba-b",
	} {
		got := oagent.KebabName(tool)
		if got != want {
			t.Errorf("KebabName(%q) = %q, want %q", tool, got, want)
		}
		if got != "" && oagent.CheckName(got) != nil {
			t.Errorf("KebabName(%q) = %q: %v", tool, got, oagent.CheckName(got))
		}
	}
}

// FuzzKebabName: what it returns is a name, or nothing.
func FuzzKebabName(f *testing.F) {
	for _, seed := range []string{"getTrip", "a_b", "_", "HTTPGet2", "é"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, tool string) {
		if len(tool) > 64 {
			return
		}
		if name := oagent.KebabName(tool); name != "" && oagent.CheckName(name) != nil {
			t.Errorf("KebabName(%q) = %q: %v", tool, name, oagent.CheckName(name))
		}
	})
}
