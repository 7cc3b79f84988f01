package build

import (
	"testing"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		word           string
		of, imperative Action
	}{
		{"get", Reads, Reads},
		{"lists", Reads, Reads},
		{"creating", Creates, Creates},
		{"updated", Updates, Updates},
		{"cancel", Updates | Deletes, Updates | Deletes},
		{"scale", 0, Updates},
		{"releases", 0, 0},
		{"pinned", 0, 0},
		{"table", 0, 0},
		{"", 0, 0},
	} {
		if of, imperative := VerbActions(c.word), ImperativeActions(c.word); of != c.of || imperative != c.imperative {
			t.Errorf("%q: got %b, and %b as an imperative; want %b and %b", c.word, of, imperative, c.of, c.imperative)
		}
	}
}
