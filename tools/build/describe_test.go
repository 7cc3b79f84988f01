package build

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestOperation(t *testing.T) {
	for _, test := range []struct {
		summary, description string
		tokens               int
		want                 string
	}{
		{"Create an issue", "Any user with pull access can create an issue.", 0, "Create an issue\n\nAny user with pull access can create an issue."},
		{"Create an issue", "Create an issue.", 0, "Create an issue."},
		{"List items.", "list items of the user", 0, "list items of the user"},
		{"List", "Listing takes long.", 0, "List\n\nListing takes long."},
		{"", "Text", 0, "Text"},
		{"Text", "", 0, "Text"},
		{"", "", 0, ""},
		{"Sum", "First one. Second one. Third sentence is long.", 8, "Sum\n\nFirst one. Second one."},
		{"", strings.Repeat("word ", 50), 5, "word word word word…"},
		{"Sum", "<p>As it <b>is</b></p>", -1, "Sum\n\n<p>As it <b>is</b></p>"},
	} {
		if got := Describe(test.summary, test.description, test.tokens); got != test.want {
			t.Errorf("Operation(%q, %q, %d) = %q, want %q", test.summary, test.description, test.tokens, got, test.want)
		}
	}
}

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"a < b and c > d": "a < b and c > d",
		"<p>Creates a <b>customer</b> &amp; more.</p>\n<ul><li>one</li><li>two</li></ul>":            "Creates a customer & more.\n\n- one\n- two",
		"See \"[Roles](https://docs.example.com/a_(b) \"t\")\" and [this][ref].\n\n[ref]: https://x": "See \"Roles\" and this.",
		"![logo](https://x/y.png) Text": "Text",
		"Scopes:\n\n| Name | Use |\n|------|:---:|\n| `a\\|b` | first |\n| b | |\n\nEnd": "Scopes:\n\n- `a|b`: first\n- b\n\nEnd",
		"> [!NOTE]\n> Not for teams.\n> Never.":                                          "Not for teams.\nNever.",
		"Use `<b>` and `[x](y)` for /repos/<owner>/x":                                    "Use `<b>` and `[x](y)` for /repos/<owner>/x",
		"a&copy=1 &lt;tag&gt;":                                                           "a&copy=1 <tag>",
		"<!-- hidden -->Text<br>more":                                                    "Text\nmore",
		"one\n\n\n\ntwo   \n":                                                            "one\n\ntwo",
		"unclosed ` and <i>tag":                                                          "unclosed ` and tag",
	} {
		if got := plainText(text); got != want {
			t.Errorf("Plain(%q)\n got %q\nwant %q", text, got, want)
		}
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("<p>[a](b)|`x`</p>\n|-|")
	f.Add("| a | b |\n|---|---|\n| `c` |")
	f.Fuzz(func(t *testing.T, text string) {
		if plain := Describe("", text, 10); utf8.ValidString(text) && !utf8.ValidString(plain) || len(plain) > 10*bytesPerToken+len("…") {
			t.Errorf("Operation(%q) = %q", text, plain)
		}
	})
}
