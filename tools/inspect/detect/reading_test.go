package detect_test

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/inspect"
)

func TestDetect_reads_what_a_reader_sees(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"spaces that do not break":               {"card 5555\u00a05555\u202f5555\u20094444 now", "card [card] now"},
		"hyphens that do not break":              {"5555\u20115555\u20135555\u22124444", "[card]"},
		"dots":                                   {"5555.5555.5555.4444.", "[card]."},
		"a space of no width":                    {"5555 55\u200b55 5555 4444\u200b!", "[card]!"},
		"a control character":                    {"5555 55\x0055 5555 4444", "[card]"},
		"a soft hyphen in a key":                 {"use AKIA\u00adQYLPMN5HHHFPZAM2.", "use [aws-access-key]."},
		"references of HTML":                     {"mail grace&#64;navy&period;example &amp; wait", "mail [email] &amp; wait"},
		"hexadecimal references":                 {"grace&#x40;navy.example", "masked@email.invalid"},
		"a reference in an address":              {"andr&eacute;&commat;navy.example", "masked@email.invalid"},
		"spaces as references":                   {"5555&nbsp;5555&#160;5555&ensp;4444", "[card]"},
		"full width":                             {"\uff47race\uff20navy\uff0eexample", "masked@email.invalid"},
		"full-width digits":                      {"Nr. \uff15\uff15\uff15\uff15 5555 5555 4444", "Nr. [card]"},
		"digits of another script":               {"٥٥٥٥ ٥٥٥٥ ٥٥٥٥ ٤٤٤٤", "[card]"},
		"an IBAN with other spaces":              {"NL91\u00a0ABNA\u202f0417 1643\u200700", "[iban]"},
		"an IBAN with hyphens":                   {"NL91-ABNA-0417-1643-00", "[iban]"},
		"a telephone number":                     {"+49\u00a030\u00a01234567 ext", "[phone] ext"},
		"a quoted local part":                    {`to "grace hopper"@navy.example or`, `to [email] or`},
		"a number with an exponent":              {"card=5.555555555554444E15;", "card=[card];"},
		"text before and after":                  {"äöü … ” 5555\u00a05555\u00a05555\u00a04444 … “ ß", "äöü … ” [card] … “ ß"},
		"two values":                             {"5555\u00a05555\u00a05555\u00a04444\u200b \u200bgrace\u200b@navy.example", "[card] [email]"},
		"a value as it is written":               {"5555 5555 5555 4444² and \u00a0", "[card]² and \u00a0"},
		"emoji, entities and other numbers stay": {"a\u00a0b \u2764\ufe0f \U0001f469\u200d\U0001f680 &lt;b&gt; ½ № 7", ""},
		"a decimal number stays":                 {"5555.555555554444 and 5.555.555.555.554.444", ""},
		"names after @ stay":                     {`{"a","@scope.name"} "x"@b "a" @b.cd`, ""},
		"an exponent of another stays":           {"5.555555555554444E14 6.02214076E23 1E99 5.5E-15", ""},
		"superscripts stay":                      {"5555 5555 5555 444⁴", ""},
		"references that are not all one":        {"R&D; a&b;c &bogus; &", ""},
	} {
		for _, isJSON := range []bool{false, true} {
			body, want := c.text, c.want
			if want == "" {
				want = c.text
			}
			if isJSON {
				body = string(strictjson.AppendString(nil, c.text))
			} else {
				want = strings.ReplaceAll(want, "masked@email.invalid", "[email]")
				body, want = body+"\n", want+"\n"
			}
			got, _ := mask(t, body, isJSON)
			if isJSON {
				got = strictjson.Text([]byte(got))
			}
			if got != want {
				t.Errorf("%s, JSON %v:\n got %q\nwant %q", name, isJSON, got, want)
			}
		}
	}
}

func TestDetect_reads_numbers_by_value(t *testing.T) {
	for body, want := range map[string]string{
		`{"n":5.555555555554444E15}`:         `{"n":0}`,
		`{"n":5555555555554444.0e0,"m":1}`:   `{"n":0,"m":1}`,
		`{"n":55555555555544440e-1}`:         `{"n":0}`,
		`{"phone":4.930123456e10}`:           `{"phone":0}`,
		`{"n":5.555555555554445E15}`:         `{"n":5.555555555554445E15}`,
		`{"n":5.5555555555544E15,"m":1E400}`: `{"n":5.5555555555544E15,"m":1E400}`,
	} {
		if got, _ := mask(t, body, true); got != want {
			t.Errorf("%s became %s, not %s", body, got, want)
		}
	}
}

func TestDetect_masks_headers_as_texts(t *testing.T) {
	chain := chainOf(t, false)
	for text, want := range map[string]bool{"5555\u00a05555\u00a05555\u00a04444": true, "/next?page=2": false} {
		if got := chain.FindsIn(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// broken returns base64 in lines.
func broken(encoded string, width int, lineBreak string) string {
	var lines []string
	for ; len(encoded) > width; encoded = encoded[width:] {
		lines = append(lines, encoded[:width])
	}
	return strings.Join(append(lines, encoded), lineBreak)
}

func TestDetect_joins_lines_of_base64(t *testing.T) {
	secret := "Dear all, " + strings.Repeat("the parcel waits at the depot. ", 4) + "Write to " + email + " or pay with " + card + ". "
	secret += strings.Repeat("Yours, the staff of the depot. ", 5)
	want := strings.NewReplacer(email, "[email]", card, "[card]").Replace(secret)
	for shift := range 60 { // values at all positions of a line
		plain, want := secret[shift:], want[shift:]
		for name, c := range map[string]struct {
			coding    *base64.Encoding
			width     int
			lineBreak string
			before    string
			after     string
		}{
			"MIME":               {base64.StdEncoding, 76, "\r\n", "Content-Transfer-Encoding: base64\r\n\r\n", "\r\n--next--"},
			"the API of GitHub":  {base64.StdEncoding, 60, "\n", "", "\n"},
			"PEM":                {base64.StdEncoding, 64, "\n", "-----BEGIN MESSAGE-----\n", "\n-----END MESSAGE-----\n"},
			"no padding":         {base64.RawURLEncoding, 50, "\n", "", ""},
			"indented":           {base64.StdEncoding, 70, "\n    ", "data: |\n    ", "\nkind: Secret\n"},
			"a word after it":    {base64.RawStdEncoding, 76, "\n", "", "\nRegards, Bob"},
			"a label before it":  {base64.StdEncoding, 76, "\n", "mail:\n", "\n"},
			"another run before": {base64.StdEncoding, 76, "\n", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX ", "\n"},
		} {
			encoded := broken(c.coding.EncodeToString([]byte(plain)), c.width, c.lineBreak)
			got, labels := mask(t, string(strictjson.AppendString(nil, c.before+encoded+c.after)), true)
			got = strictjson.Text([]byte(got))
			if !strings.HasPrefix(got, c.before) || !strings.HasSuffix(got, c.after) || len(labels) != 2 {
				t.Fatalf("%s, shift %d: %v, %s", name, shift, labels, got)
			}
			got = strings.TrimSuffix(strings.TrimPrefix(got, c.before), c.after)
			decoded, err := c.coding.DecodeString(strings.Join(strings.Fields(got), ""))
			if err != nil || string(decoded) != want {
				t.Fatalf("%s, shift %d: %v, %v\n%s\ndecodes to %q", name, shift, labels, err, got, decoded)
			}
			if lines := strings.Split(got, c.lineBreak); len(lines[0]) != c.width || len(lines) < 4 {
				t.Fatalf("%s: the lines are\n%s", name, got)
			}
		}
	}
}

func TestDetect_keeps_lines_of_base64_decodable(t *testing.T) {
	plain := append([]byte("From: "+email+", who sends a picture with a frame.  "), bytes.Repeat([]byte{0xff, 0, 0x80}, 60)...)
	got, labels := mask(t, broken(base64.StdEncoding.EncodeToString(plain), 60, "\n"), false)
	decoded, err := base64.StdEncoding.DecodeString(got)
	if err != nil || bytes.Contains(decoded, []byte("ada")) || !bytes.HasSuffix(decoded, plain[45:]) {
		t.Errorf("%v, %v: %q", labels, err, decoded)
	}
	none := broken(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("The parcel waits at the depot. "), 9)), 60, "\n")
	if got, _ := mask(t, none, false); got != none {
		t.Errorf("without a value: %s", got)
	}
}

func TestDetect_joins_events(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"members":               {`{"id":"a","text":"key gh"}` + "\n" + `{"id":"b","text":"` + githubKey[2:20] + `"}` + "\n" + `{"id":"c","text":"` + githubKey[20:] + ` ok"}`, `{"id":"a","text":"key [github-token]"}` + "\n" + `{"id":"b","text":""}` + "\n" + `{"id":"c","text":" ok"}`},
		"deltas":                {`{"choices":[{"delta":{"content":"ada.love"}}]}` + "\n" + `{"choices":[{"delta":{"content":"lace@example.com"}}]}`, `{"choices":[{"delta":{"content":"[email]"}}]}` + "\n" + `{"choices":[{"delta":{"content":""}}]}`},
		"texts":                 {"ada.\nlove\nlace@exa\nmple.com\n bye", "[email]\n\n\n\n bye"},
		"strings":               {`"4111 11"` + "\n" + `"11 1111 1111"`, `"[card]"` + "\n" + `""`},
		"numbers":               {"4111\n1111\n1111\n1111", "[card]\n\n\n"},
		"escapes":               {`{"t":"ada\u0040exam"}` + "\n" + `{"t":"ple.com"}`, `{"t":"[email]"}` + "\n" + `{"t":""}`},
		"JSON in pieces":        {`{"arguments":"{\"to\":\"ada@exa"}` + "\n" + `{"arguments":"mple.com\"}"}`, `{"arguments":"{\"to\":\"[email]"}` + "\n" + `{"arguments":"\"}"}`},
		"the content of MCP":    {`{"content":[{"type":"text","text":"4111 1111"},` + "\n" + `{"type":"text","text":" 1111 1111."}]}`, `{"content":[{"type":"text","text":"[card]"},` + "\n" + `{"type":"text","text":"."}]}`},
		"one event":             {`{"a":"ada@exa","b":"mple.com"}`, `{"a":"ada@exa","b":"mple.com"}`},
		"other members":         {`{"a":"ada@exa"}` + "\n" + `{"b":"mple.com"}`, `{"a":"ada@exa"}` + "\n" + `{"b":"mple.com"}`},
		"numbers of records":    {`{"id":41111111}` + "\n" + `{"id":11111111}`, `{"id":41111111}` + "\n" + `{"id":11111111}`},
		"dates of records":      {`{"at":"2026-11-28","n":"07"}` + "\n\n" + `{"at":"2026-11-29","n":"08"}`, `{"at":"2026-11-28","n":"07"}` + "\n\n" + `{"at":"2026-11-29","n":"08"}`},
		"a list is no stream":   {`["ada@exa","mple.com"]`, `["ada@exa","mple.com"]`},
		"values in a line":      {`4111 "ada@exa"` + "\n" + `"mple.com"` + "\n\n" + ` true "x"`, `4111 "ada@exa"` + "\n" + `"mple.com"` + "\n\n" + ` true "x"`},
		"what is no JSON stays": {"{\"a\n{\n[1,\n\n", "{\"a\n{\n[1,\n\n"},
	} {
		for _, reject := range []bool{false, true} {
			got, labels, err := chainOf(t, reject).Inspect(t.Context(), inspect.Message{Phase: inspect.Result, Body: []byte(c.body), JSON: c.body[2:9] == "content", Text: true, Events: true})
			switch {
			case reject && (err != nil) != (c.body != c.want):
				t.Errorf("%s: rejected %v", name, err)
			case !reject && (string(got) != c.want || err != nil || (len(labels) == 0) != (c.body == c.want)):
				t.Errorf("%s: %v, %v\n got %s\nwant %s", name, labels, err, got, c.want)
			}
		}
	}
}

// TestDetect_reads_hostile_texts_quickly: what a text costs does not grow with the square of its length.
func TestDetect_reads_hostile_texts_quickly(t *testing.T) {
	const size = inspect.MaxBody - 1000
	fill := func(unit string) string { return strings.Repeat(unit, size/len(unit)) }
	for name, body := range map[string]string{
		"deep events":           strings.Repeat("[", 5000) + strings.Repeat(`"a",`, (size-10000)/4) + `"a"` + strings.Repeat("]", 5000) + "\n\"b\"",
		"a long name":           `{"` + strings.Repeat("n", size/2) + `":[` + strings.Repeat(`"a",`, size/8) + `"a"]}` + "\n\"b\"",
		"lines of base64":       strings.Repeat("VGhlIHBhcmNlbCB3YWl0cyBhdCB0aGUgZGVw\n", size/37-1) + "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBka",
		"references":            fill("&a"),
		"invisible characters":  fill("1\u200b"),
		"texts of many events":  fill("\"4111\"\n"),
		"lines of many events":  fill("a@\n"),
		"addresses over events": fill("\"a@b\"\n\".de \"\n"),
	} {
		start := time.Now()
		_, _, _ = chainOf(t, false).Inspect(t.Context(), inspect.Message{Phase: inspect.Result, Body: []byte(body), Text: true, Events: true})
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: %v", name, took)
		} else {
			t.Logf("%s: %v", name, took)
		}
	}
}
