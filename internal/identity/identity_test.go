package identity

import "testing"

func TestIsIn_takes_ids_and_groups(t *testing.T) {
	member, other := &User{ID: "ada", Groups: []string{"audit"}}, &User{ID: "group:audit", Groups: []string{"ada"}}
	list := []string{"eve", "group:audit"}
	for user, want := range map[*User]bool{member: true, other: false, {ID: "eve"}: true, {}: false, Unknown("ada"): false} {
		if got := user.IsIn(list); got != want {
			t.Errorf("%+v: got %t, want %t", user, got, want)
		}
	}
}
