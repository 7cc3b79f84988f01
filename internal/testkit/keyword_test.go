package testkit_test

import (
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

func TestAll(t *testing.T) {
	for _, test := range []struct {
		text, words string
		want        bool
	}{
		{"page_size -1: not a whole number", "page_size -1", true},
		{"page_size -1: not a whole number", "number page_size", true},
		{"page_size -1: not a whole number", "page_size -2", false},
		{"unknown key idd; did you mean id?", "idd id", true},
		{"unknown key idd", "id", false},
		{"unknown key _id", "id", false},
		{"GET /trips/7", "/trips", true},
		{"GET /trips7", "/trips", false},
		{`toolset "trains"`, `toolset trains`, true},
		{"Twice", "twice", false},
		{"anything", "", true},
		{"", "a", false},
		{"größer", "gr", false},
	} {
		if got := testkit.ContainsAll(test.text, test.words); got != test.want {
			t.Errorf("All(%q, %q): got %t, want %t", test.text, test.words, got, test.want)
		}
	}
}
