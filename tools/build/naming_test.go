package build

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
		if got := NameForOperation(test.id, test.method, test.path); got != test.want {
			t.Errorf("ForOperation(%q, %s %s) = %q, want %q", test.id, test.method, test.path, got, test.want)
		}
	}
	for _, id := range []string{long, long + "x"} {
		got := NameForOperation(id, "GET", "/")
		if len(got) > MaxName || !IsName(got) || got != NameForOperation(id, "GET", "/") {
			t.Errorf("ForOperation(%q) = %q", id, got)
		}
	}
	if NameForOperation(long, "GET", "/") == NameForOperation(long+"x", "GET", "/") {
		t.Error("names that are cut lose their difference")
	}
}

func TestNamespace(t *testing.T) {
	names := NewNameSet()
	long := strings.Repeat("a", MaxName)
	got := []string{names.Claim("list"), names.Claim("list"), names.Claim("list_2"), names.Claim("list"), names.Claim(long), names.Claim(long)}
	want := []string{"list", "list_2", "list_2_2", "list_3", long, long[:MaxName-2] + "_2"}
	if !slices.Equal(got, want) {
		t.Errorf("claimed %q, want %q", got, want)
	}
}

// TestNamespace_of_equal_names claims one name so often that trying every suffix
// from the first would take hours.
func TestNamespace_of_equal_names(t *testing.T) {
	const claims = 400_000
	for _, name := range []string{"same", strings.Repeat("a", MaxName)} {
		names := NewNameSet()
		for range claims {
			names.Claim(name)
		}
		if len(names.Taken) != claims {
			t.Errorf("%d names of %d claims", len(names.Taken), claims)
		}
	}
}
