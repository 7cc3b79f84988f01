package seal

import (
	"strings"
	"testing"
)

func TestSealer_binds_text(t *testing.T) {
	key := []byte(strings.Repeat("k", 32))
	s := New(key)
	sealed := s.Seal([]byte("step 2"), "ada tools/call book_trip")
	if plain, err := New(key).Unseal(sealed, "ada tools/call book_trip"); err != nil || string(plain) != "step 2" {
		t.Errorf("got %q, %v", plain, err)
	}
	newer := []byte(strings.Repeat("n", 32))
	if _, err := New(newer, key).Unseal(sealed, "ada tools/call book_trip"); err != nil {
		t.Errorf("after a rotation: %v", err)
	}
	if _, err := New(newer).Unseal(sealed, "ada tools/call book_trip"); err == nil {
		t.Error("unsealed without its key")
	}
	if strings.Contains(sealed, "step") {
		t.Error("it can be read")
	}
	flipped := []byte(sealed)
	flipped[len(flipped)/2] ^= 1
	for rule, c := range map[string][2]string{
		"other-binding": {sealed, "bob tools/call book_trip"},
		"changed":       {string(flipped), "ada tools/call book_trip"},
		"empty":         {"", "ada tools/call book_trip"},
		"not-base64":    {"!", "ada tools/call book_trip"},
	} {
		if _, err := s.Unseal(c[0], c[1]); err == nil {
			t.Errorf("%s: unsealed", rule)
		}
	}
}

func TestSealer_IsCurrent_is_false_after_a_rotation(t *testing.T) {
	old, both := Derive([]string{"old"}, "test"), Derive([]string{"new", "old"}, "test")
	sealed := old.Seal([]byte("a"), "b")
	if !old.IsCurrent(sealed) || both.IsCurrent(sealed) || !both.IsCurrent(both.Seal([]byte("a"), "b")) {
		t.Error("the key of a text is not recognized")
	}
	if _, err := both.Unseal(sealed, "b"); err != nil {
		t.Errorf("the previous key: %v", err)
	}
	if _, err := Derive([]string{"old"}, "other").Unseal(sealed, "b"); err == nil {
		t.Error("unsealed with a key for another purpose")
	}
}
