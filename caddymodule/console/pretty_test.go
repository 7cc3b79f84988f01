package console

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestPretty(t *testing.T) {
	for _, test := range []struct {
		name  string
		value any
		want  string
	}{
		{"object", jsontext.Value(`{"b":[1,2],"a":{},"c":"\u003cb>"}`), "{\n  \"b\": [\n    1,\n    2\n  ],\n  \"a\": {},\n  \"c\": \"\\u003cb>\"\n}"},
		{"repeated name", []byte(`{"a":1.0,"a":1e400}`), "{\n  \"a\": 1.0,\n  \"a\": 1e400\n}"},
		{"number", "12", "12"},
		{"plain text", "no JSON", "no JSON"},
		{"two values", "1 2", "1 2"},
		{"three values", "[1] 2 3", "[1] 2 3"},
		{"incomplete", `{"a":`, `{"a":`},
		{"nothing", jsontext.Value(nil), ""},
		{"empty text", "", ""},
	} {
		if got := pretty(test.value); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// TestPretty_is_bounded checks that deeply nested JSON is shown as it is. Indented, it would have many
// times its size.
func TestPretty_is_bounded(t *testing.T) {
	const depth, items = 2000, 20_000
	nested := strings.Repeat("[", depth) + strings.TrimSuffix(strings.Repeat("1,", items), ",") + strings.Repeat("]", depth)
	if got := pretty(nested); got != nested {
		t.Errorf("%d bytes become %d", len(nested), len(got))
	}
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			pretty(nested)
		}
	}).AllocedBytesPerOp()
	if most := int64(100 * len(nested)); allocated > most {
		t.Errorf("showing %d bytes allocates %d, more than %d", len(nested), allocated, most)
	}
}
