package identity

import (
	"errors"
	"testing"

	"github.com/go-json-experiment/json"
)

func TestIsIn_takes_ids_and_groups(t *testing.T) {
	member, other := &User{ID: "ada", Groups: []string{"audit"}}, &User{ID: "group:audit", Groups: []string{"ada"}}
	list := []string{"eve", "group:audit"}
	for user, want := range map[*User]bool{member: true, other: false, {ID: "eve"}: true, {}: false, Unknown("ada"): false} {
		if got := user.IsIn(list); got != want {
			t.Errorf("%+v: got %t, want %t", user, got, want)
		}
	}
}

// TestFields_of_a_stored_user checks that what is unknown of a user stays unknown, so that no rule takes it for empty.
func TestFields_of_a_stored_user(t *testing.T) {
	data, err := json.Marshal(Unknown("ada"))
	if err != nil {
		t.Fatal(err)
	}
	var read User
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	for name, value := range read.Fields() {
		if err, ok := value.(error); !ok || !errors.Is(err, ErrUnknown) {
			t.Errorf("%s of %s: %v", name, data, value)
		}
	}
}
