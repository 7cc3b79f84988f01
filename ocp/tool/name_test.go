package tool

import (
	"slices"
	"strings"
	"testing"
)

func TestToolName(t *testing.T) {
	long := strings.Repeat("very_long_", 10)
	for _, test := range []struct{ id, method, path, want string }{
		{"listRepositories", "GET", "/repos", "listRepositories"},
		{"issues/list-for-repo", "GET", "/x", "issues_list_for_repo"},
		{"get-stations", "GET", "/stations", "get_stations"},
		{"2fa.enable", "POST", "/2fa", "n2fa_enable"},
		{"_private", "GET", "/x", "private"},
		{"日本", "GET", "/users", "get_users"},
		{"", "GET", "/users", "get_users"},
		{"", "GET", "/users/{id}", "get_users_id"},
		{"", "GET", "/repos/{owner}/{repo}/issues", "get_repos_owner_repo_issues"},
		{"", "GET", "/user-profiles", "get_user_profiles"},
		{"", "GET", "/users.json", "get_users_json"},
		{"", "DELETE", "/trips/{tripId}/SeatMap", "delete_trips_trip_id_seat_map"},
		{"", "GET", "/", "get"},
	} {
		if got := toolName(test.id, test.method, test.path); got != test.want {
			t.Errorf("toolName(%q, %s %s) = %q, want %q", test.id, test.method, test.path, got, test.want)
		}
	}
	for _, id := range []string{long, long + "x"} {
		got := toolName(id, "GET", "/")
		if len(got) > maxName || !isName(got) || got != toolName(id, "GET", "/") {
			t.Errorf("toolName(%q) = %q", id, got)
		}
	}
	if toolName(long, "GET", "/") == toolName(long+"x", "GET", "/") {
		t.Error("names that are cut lose their difference")
	}
}

func TestNamespace(t *testing.T) {
	names := newNamespace()
	long := strings.Repeat("a", maxName)
	got := []string{names.claim("list"), names.claim("list"), names.claim("list_2"), names.claim("list"), names.claim(long), names.claim(long)}
	want := []string{"list", "list_2", "list_2_2", "list_3", long, long[:maxName-2] + "_2"}
	if !slices.Equal(got, want) {
		t.Errorf("claimed %q, want %q", got, want)
	}
}

// TestNamespaceOfEqualNames claims one name so often that trying every suffix
// from the first would take hours.
func TestNamespaceOfEqualNames(t *testing.T) {
	const claims = 400_000
	for _, name := range []string{"same", strings.Repeat("a", maxName)} {
		names := newNamespace()
		for range claims {
			names.claim(name)
		}
		if len(names.taken) != claims {
			t.Errorf("%d names of %d claims", len(names.taken), claims)
		}
	}
}

func TestGlob(t *testing.T) {
	for _, test := range []struct {
		glob, path string
		want       bool
	}{
		{"/trips", "/trips", true},
		{"/trips", "/trips/{id}", false},
		{"/trips/*", "/trips/{id}", true},
		{"/trips/*", "/trips/{id}/seats", false},
		{"/trips/**", "/trips/{id}/seats", true},
		{"/*/seats", "/trips/seats", true},
		{"/a.b", "/axb", false},
		{"**", "/anything/at/all", true},
		{"/(+[", "/(+[", true},
	} {
		if got := compileGlob(test.glob).MatchString(test.path); got != test.want {
			t.Errorf("%q matches %q: %v, want %v", test.glob, test.path, got, test.want)
		}
	}
}

// TestName_of_paths_is_stable checks that names of operations without an
// operationId are unique, short and the same at each reading.
func TestName_of_paths_is_stable(t *testing.T) {
	long := strings.Repeat("segment/", 12)
	document := `{"openapi":"3.0.3","info":{"title":"T","version":"1"},"paths":{"/a":{"get":{}},"/a#b":{"get":{}},"/a?b":{"get":{}},"/a/b":{"get":{}},"/` +
		long + `#x":{"get":{}},"/` + long + `#y":{"get":{}}}}`
	var first []string
	for range 2 {
		tools := buildTools(t, document, BuildOptions{})
		var names []string
		for _, tool := range tools.Tools() {
			names = append(names, tool.Name)
			if !isName(tool.Name) || len(tool.Name) > maxName {
				t.Errorf("the name %s", tool.Name)
			}
		}
		if slices.Sort(names); len(slices.Compact(slices.Clone(names))) != 6 {
			t.Errorf("names %v", names)
		}
		if first != nil && !slices.Equal(first, names) {
			t.Errorf("names %v, then %v", first, names)
		}
		first = names
	}
}
