package text

import "testing"

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"Lists trips.\n\tAll of\r\nthem": "Lists trips.\n\tAll of\r\nthem",
		"a\x00b\x1b[31mc\x7fd\u009be":    "ab[31mcde",
		"a\u202eb\u2066c\u2069":          "abc",
		"a\u200bb\ufeffc\u00add":         "abcd",
		"a\U000E0041\U000E0042":          "a",
		"می\u200cخواهم":                  "می\u200cخواهم", // part of the writing
		"👩\u200d💻 1\ufe0f\u20e3 ❤\ufe0f": "👩\u200d💻 1\ufe0f\u20e3 ❤\ufe0f",
		"x\u200dy":                       "xy",
		"日本語 – “é”":                      "日本語 – “é”",
	} {
		if got := Visible(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if r, hidden := Hidden(Visible(text)); hidden {
			t.Errorf("%q: %U is left", text, r)
		}
	}
}
