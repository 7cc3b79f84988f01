package elicit

import (
	"strings"
	"testing"
)

func TestSealed_text_is_bound(t *testing.T) {
	key := []byte(strings.Repeat("k", 32))
	s := NewSealer(key)
	sealed := s.Seal([]byte("step 2"), "ada tools/call book_trip")
	if plain, err := NewSealer(key).Unseal(sealed, "ada tools/call book_trip"); err != nil || string(plain) != "step 2" {
		t.Errorf("got %q, %v", plain, err)
	}
	newer := []byte(strings.Repeat("n", 32))
	if _, err := NewSealer(newer, key).Unseal(sealed, "ada tools/call book_trip"); err != nil {
		t.Errorf("after a rotation: %v", err)
	}
	if _, err := NewSealer(newer).Unseal(sealed, "ada tools/call book_trip"); err == nil {
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
