package request_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/yosida95/uritemplate/v3"

	"github.com/fairwayhq/fairway/tools/request"
)

// oracleTexts are values and names that every place takes.
var oracleTexts = []string{
	"blue", "light blue", "a,b", "a=b", "a&b", "a;b", "a+b", "a/b", "a?b", "a#b", "a:b@c", "[x]", "{x}", "(x)!", "$'*",
	"100%", "50% off", "%41", "%zz", "a|b", "a\"b", "<a>", "a\\b", "^`~", "é", "日本語", "😀", "a\u00a0b", "x.y-z_0", "....",
}

// latin returns text with each byte of its UTF-8 as a character of its own. The
// oracle writes code points where RFC 6570 section 1.6 wants the bytes of UTF-8,
// and so is given the bytes as code points.
func latin(text string) string {
	runes := make([]rune, 0, len(text))
	for _, b := range []byte(text) {
		runes = append(runes, rune(b))
	}
	return string(runes)
}

// TestRFC6570 compares the cells that RFC 6570 defines with an implementation of
// it: every text alone, in an array and in an object.
func TestRFC6570(t *testing.T) {
	for _, cell := range []struct {
		in       request.In
		style    request.Style
		operator string
	}{
		{request.Path, request.Simple, ""},
		{request.Path, request.Label, "."},
		{request.Path, request.Matrix, ";"},
		{request.Query, request.Form, "?"},
		{request.InBody, request.Form, "?"},
	} {
		for _, explode := range []bool{false, true} {
			expression := "{" + cell.operator + "color}"
			if explode {
				expression = "{" + cell.operator + "color*}"
			}
			template := uritemplate.MustNew(expression)
			p := request.Param{Name: "color", In: cell.in, Style: cell.style, Explode: explode}
			check := func(value any, oracle uritemplate.Value) {
				t.Helper()
				raw, err := json.Marshal(value)
				if err != nil {
					t.Fatal(err)
				}
				want, err := template.Expand(uritemplate.Values{"color": oracle})
				if err != nil {
					t.Fatal(err)
				}
				if got := appended(t, p, string(raw)); got != strings.TrimPrefix(want, "?") {
					t.Errorf("%s %s: got %q, want %q", expression, raw, got, want)
				}
			}
			for i, text := range oracleTexts {
				other := oracleTexts[(i+1)%len(oracleTexts)]
				check(text, uritemplate.String(latin(text)))
				check([]string{text, other, text}, uritemplate.List(latin(text), latin(other), latin(text)))
				name := text
				if explode && cell.style != request.Simple && cell.style != request.Label {
					name = "R" // RFC 6570 lets reserved characters of such a name pass, which would break the pair
				}
				check(map[string]string{name: other}, uritemplate.KV(latin(name), latin(other)))
			}
			check([]string{"a", ""}, uritemplate.List("a", ""))
			if cell.in == request.Query {
				check("", uritemplate.String(""))
			}
		}
	}
}

// TestReservedExpansion compares allowReserved with {+color} of RFC 6570, but
// for the characters that a query needs encoded.
func TestReservedExpansion(t *testing.T) {
	template := uritemplate.MustNew("{+color}")
	encoded := strings.NewReplacer("&", "%26", "#", "%23", "+", "%2B", ";", "%3B", "[", "%5B", "]", "%5D")
	p := request.Param{Name: "color", In: request.Query, AllowReserved: true}
	for _, text := range oracleTexts {
		if text == "%41" {
			continue // RFC 6570 section 3.2.3 lets triples pass, the oracle does not
		}
		raw, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		want, err := template.Expand(uritemplate.Values{"color": uritemplate.String(latin(text))})
		if err != nil {
			t.Fatal(err)
		}
		if got := appended(t, p, string(raw)); got != "color="+encoded.Replace(want) {
			t.Errorf("%s: got %q, want %q", raw, got, "color="+encoded.Replace(want))
		}
	}
}
