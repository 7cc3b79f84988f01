package strictjson

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

func TestMembers(t *testing.T) {
	got, err := Members(nil, []byte(` {"b": 1e400, "a":{"x":[ 1 ]} , "\u0063":"d"} `))
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, m := range got {
		text = append(text, m.Name+"="+string(m.Value))
	}
	want := []string{"b=1e400", `a={"x":[ 1 ]}`, `c="d"`}
	if !reflect.DeepEqual(text, want) {
		t.Errorf("members = %q, want %q", text, want)
	}
}

func TestStrict(t *testing.T) {
	for name, input := range map[string]string{
		"empty":            ``,
		"not an object":    `[]`,
		"duplicate name":   `{"a":1,"a":2}`,
		"escaped twin":     `{"a":1,"\u0061":2}`,
		"invalid UTF-8":    "{\"a\":\"\xff\"}",
		"lone surrogate":   `{"a":"\ud800"}`,
		"second value":     `{} {}`,
		"trailing garbage": `{}x`,
		"truncated":        `{"a":`,
		"too deep":         `{"a":` + strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			if members, err := Members(nil, []byte(input)); err == nil {
				t.Errorf("Members(%q) = %v, want an error", input, members)
			}
			var v struct{ A any }
			if err := Unmarshal([]byte(input), &v); err == nil {
				t.Errorf("Unmarshal(%q) gave no error", input)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	got, err := Decode([]byte(`{"a":[1,2.50,12345678901234567890,"x\n",true,null],"b":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"a": []any{stdjson.Number("1"), stdjson.Number("2.50"), stdjson.Number("12345678901234567890"), "x\n", true, nil},
		"b": map[string]any{},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("decoded %#v, want %#v", got, want)
	}
	if _, err := Decode([]byte(strings.Repeat("[", 100_000))); !errors.Is(err, ErrTooDeep) {
		t.Errorf("error = %v, want ErrTooDeep", err)
	}
}

func TestValid(t *testing.T) {
	for input, want := range map[string]bool{
		`{"a":1,"a":2}`: true,
		`[1, 2]`:        true,
		`nul`:           false,
		"\"\xff\"":      false,
		`{"a":1}}`:      false,
		``:              false,
	} {
		if got := Valid([]byte(input)); got != want {
			t.Errorf("Valid(%q) = %v, want %v", input, got, want)
		}
	}
}

func TestAppendString(t *testing.T) {
	for input, want := range map[string]string{
		"":                  `""`,
		"plain":             `"plain"`,
		"a\"b\\c\n\r\t\x01": `"a\"b\\c\n\r\t\u0001"`,
		"é 日本 🚆":            `"é 日本 🚆"`,
		"\u2028\u2029":      `"\u2028\u2029"`,
		"bad \xff\xc3 end":  "\"bad \ufffd\ufffd end\"",
		"\x7f</script>":     `"\u007f</script>"`,
	} {
		if got := string(AppendString(nil, input)); got != want {
			t.Errorf("AppendString(%q) = %s, want %s", input, got, want)
		}
		if got := string(AppendString(nil, []byte(input))); got != want {
			t.Errorf("AppendString([]byte(%q)) = %s, want %s", input, got, want)
		}
	}
}

// TestAppendString_positions puts each byte at each place of a word.
func TestAppendString_positions(t *testing.T) {
	for c := range 256 {
		for at := range 17 {
			text := []byte("abcdefghijklmnopq")
			text[at] = byte(c)
			var back string
			if err := stdjson.Unmarshal(AppendString(nil, text), &back); err != nil {
				t.Fatalf("byte %#x at %d: %v", c, at, err)
			}
			if want := strings.ToValidUTF8(string(text), "\ufffd"); back != want {
				t.Errorf("byte %#x at %d: read back %q, want %q", c, at, back, want)
			}
		}
	}
}

// TestAppendString_with_room has destinations with room for no word, for some words and for all, and
// texts with two bytes that need an escape, at each place of a word.
func TestAppendString_with_room(t *testing.T) {
	for _, special := range []string{`""`, `"\`, `\"`, "\"\n", "\n\"", "\"\x7f", "\x01\x02", "\"é", "é\"", "\"\xff", "\"\u2028", `"""""""""`} {
		for at := range 17 {
			text := `"` + strings.Repeat("a", at) + special + "abcdefghijkl\"mnopqrstuvw\\xyz"
			want := []byte(`"`)
			for _, r := range text {
				quoted := AppendString(nil, string(r)) // shorter than a word
				want = append(want, quoted[1:len(quoted)-1]...)
			}
			want = append(want, '"')
			for room := range 3 * len(text) {
				if got := AppendString(make([]byte, 0, room), text); !bytes.Equal(got, want) {
					t.Fatalf("%q with room for %d bytes: %s, want %s", text, room, got, want)
				}
			}
		}
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("a\"\\\x00\xff\u2028🚆")
	f.Add(`{"id":"42","name":"a \"b\"","tags":["é","\n"]}`)
	f.Fuzz(func(t *testing.T, s string) {
		if small, large := AppendString(nil, s), AppendString(make([]byte, 0, 6*len(s)+32), s); !bytes.Equal(small, large) {
			t.Fatalf("without room: %s, with room: %s", small, large)
		}
		var back string
		if err := stdjson.Unmarshal(AppendString(nil, s), &back); err != nil {
			t.Fatalf("not JSON: %v", err)
		}
		if utf8.ValidString(s) && back != s {
			t.Fatalf("read back %q, wrote %q", back, s)
		}
	})
}

func BenchmarkAppendString(b *testing.B) {
	text := strings.Repeat(`{"id":"berlin-hbf","name":"Berlin \"Hbf\"","line":[1,2,3]}`, 350)
	var dst []byte
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendString(dst[:0], text)
	}
}

func BenchmarkMembers(b *testing.B) {
	data := []byte(`{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"get_trip","arguments":{"id":"7","fields":["a","b"]}}}`)
	var members []Member
	b.ReportAllocs()
	for b.Loop() {
		members, _ = Members(members[:0], data)
	}
}

func TestSplit(t *testing.T) {
	for text, want := range map[string]string{
		` { "a" : 1 , "b":{"c":[2]},"a":null} `: `"a"=1 "b"={"c":[2]} "a"=null `,
		`{}`:                                    "",
		`{"\u0061":"x"}`:                        `"\u0061"="x" `,
		`{"a":{"b":1,"b":2}}`:                   `"a"={"b":1,"b":2} `,
		`[1]`:                                   ErrNotObject.Error(),
		`7`:                                     ErrNotObject.Error(),
		`{"a":1`:                                "error",
		`{"a":1,}`:                              "error",
		`{"a" 1}`:                               "error",
		`{a:1}`:                                 "error",
		`{1:1}`:                                 "error",
		`{"a":1} {}`:                            "error",
		`{"a":1}}`:                              "error",
		`[1] 2`:                                 "error",
		"{\"a\":\"\xff\"}":                      "error",
		"":                                      "error",
	} {
		got := ""
		err := Split([]byte(text), func(name, value jsontext.Value) { got += string(name) + "=" + string(value) + " " })
		switch {
		case errors.Is(err, ErrNotObject):
			got = err.Error()
		case err != nil:
			got = "error"
		}
		if got != want {
			t.Errorf("%q: got %s, %v; want %s", text, got, err, want)
		}
		if (err == nil || errors.Is(err, ErrNotObject)) != Valid([]byte(text)) {
			t.Errorf("%q: %v, and Valid says %v", text, err, Valid([]byte(text)))
		}
	}
}
