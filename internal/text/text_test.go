package text

import "testing"

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"abc", 3, "abc"},
		{"abcdefg", 6, "abc…"},
		{"abäcdefg", 6, "ab…"}, // the third byte would be half a character
		{"äöü", 3, "…"},
		{"abcdefg", 2, ""},
		{"abcdefg", -1, ""},
		{"", 0, ""},
	} {
		if got := Cut(c.text, c.limit); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.text, c.limit, got, c.want)
		}
	}
}

func TestHasControl(t *testing.T) {
	for text, want := range map[string]bool{
		"":           false,
		"Ada 🚂":      false,
		"a\nb":       true,
		"a\x00":      true,
		"\u0085":     true, // a C1 control: next line
		"\u00a0\xff": false,
	} {
		if got := HasControl(text); got != want {
			t.Errorf("HasControl(%q) = %v", text, got)
		}
	}
}
