package strictjson

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// compareScans compares the one pass of the scanner with separate passes: CheckDepth, the reader
// of jsontext, and AppendString.
func compareScans(t *testing.T, data []byte) {
	t.Helper()
	shallow := CheckDepth(data, maxPassedDepth) == nil
	unique := shallow && jsontext.Value(data).IsValid()
	if got := Unambiguous(data); got != unique {
		t.Errorf("Unambiguous(%.200q) = %t, want %t", data, got, unique)
	}
	if got, want := Valid(data), shallow && jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true)); got != want {
		t.Errorf("Valid(%.200q) = %t, want %t", data, got, want)
	}
	if got, want := Check(data) == nil, CheckDepth(data, MaxDepth) == nil && jsontext.Value(data).IsValid(); got != want {
		t.Errorf("Check(%.200q) accepts it: %t, want %t", data, got, want)
	}
	const before = "before"
	appended, ok := AppendChecked([]byte(before), data)
	if ok != unique {
		t.Errorf("AppendChecked(%.200q) = %t, want %t", data, ok, unique)
	}
	want := []byte(before)
	if unique {
		want = AppendString(want, data)
	}
	if !bytes.Equal(appended, want) {
		t.Errorf("AppendChecked(%.200q) = %.200q, want %.200q", data, appended, want)
	}
}

// scanned are inputs of the scanner, valid and not.
var scanned = []string{
	``, ` `, `nul`, `null`, `true`, `false`, `truefalse`, `nullx`, `"`, `"a`, `""`, `"a" b`, `{`, `[`, `]`, `}`, `[]`, `{}`, ` [ ] `, " {\n\t\"a\" :\r\n 1 } ",
	`0`, `-0`, `-`, `00`, `01`, `1.`, `.1`, `1.5`, `1e`, `1e+`, `1e+5`, `1E-05`, `-1.25e3`, `+1`, `1_000`, `0x1`, `NaN`, `Infinity`, `1 2`, `1,2`,
	`[1,]`, `[,1]`, `[1 2]`, `[1,2]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,"a":1}`, `{"a":1 "b":2}`, `{a:1}`, `{'a':1}`, `{1:1}`, `{"a":1,"b":2}`, `[[1],{"a":[{"b":null}]}]`,
	`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"\u0061":1,"\u0061":2}`, `{"a":{"a":1},"b":{"a":1}}`, `{"a":{"b":1,"b":2}}`, `[{"a":1},{"a":1}]`, `{"a\n":1,"a\u000a":2}`,
	`{"":1,"":2}`, `{"é":1,"\u00e9":2}`, `{"😀":1,"\ud83d\ude00":2}`,
	`"\"\\\/\b\f\n\r\t"`, `"\x"`, `"\u"`, `"\u12"`, `"\u12g4"`, `"\u1234"`, `"\uABCD"`, `"\ud800"`, `"\udc00"`, `"\ud800\ud800"`, `"\ud800\udc00"`, `"\ud83d\ude00"`, `"\ud800x"`, `"\ud800\n"`, `"\ud800\`,
	"\"\x00\"", "\"\x1f\"", "\"\n\"", "\"\t\"", "\"\x7f\"", "\"\xff\"", "\"\xc3\"", "\"\xed\xa0\x80\"", "\"é 日本 🚆\"", "\"\u2028\u2029\"", "\xef\xbb\xbf{}", "\x00", "[\x00]", "[\v1]", "{}\x00", "[1\u2028]",
	"\xff", "// comment\n1", `{"a":1}}`, `[1]]`, `{} {}`,
}

// TestScan also puts each input at each offset of a word, and cuts it off at each byte.
func TestScan(t *testing.T) {
	for _, input := range scanned {
		compareScans(t, []byte(input))
		for n := range 17 {
			compareScans(t, []byte(`["`+strings.Repeat("x", n)+`",`+input+`]`))
			compareScans(t, []byte(`{"`+strings.Repeat("x", n)+`":`+input+`, "y": "`+input+`"}`))
		}
		for n := range len(input) {
			compareScans(t, []byte(input[:n]))
		}
	}
}

func TestScanDepth(t *testing.T) {
	for _, depth := range []int{1, MaxDepth - 1, MaxDepth, MaxDepth + 1, maxPassedDepth - 1, maxPassedDepth, maxPassedDepth + 1, 5000} {
		compareScans(t, []byte(strings.Repeat("[", depth)+strings.Repeat("]", depth)))
		compareScans(t, []byte(strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth)))
		compareScans(t, []byte(strings.Repeat("[", depth)))
	}
}

// TestScan_many_names has objects with fewer and more names than are compared one by one, and with
// one of the names twice.
func TestScan_many_names(t *testing.T) {
	for _, count := range []int{2, namesInList - 1, namesInList, namesInList + 1, 3 * namesInList, maxKeptNames + 1} {
		for _, twin := range []int{-1, 0, 1, count / 2, count - 1} {
			b := []byte(`{"outer":{`)
			for i := range count {
				b = fmt.Appendf(b, `"name%d":{"name1":%d},`, i, i)
			}
			b = fmt.Appendf(b, `"n\u0061me%d":0},"name1":1}`, twin)
			compareScans(t, b)
		}
	}
}

// TestScanner_keeps_nothing checks that a scanner in the pool refers to nothing of what it scanned.
func TestScanner_keeps_nothing(t *testing.T) {
	for _, input := range []string{`{"a":{"b":1},"\u0063":2}`, `{"a":{"b":`} {
		s := newScanner([]byte(input), MaxDepth, true)
		s.escape = true
		s.scan()
		s.free()
		for i, name := range s.names[:cap(s.names)] {
			if name != nil {
				t.Errorf("after %s, name %d is %q", input, i, name)
			}
		}
		if len(s.names) != 0 || s.data != nil || s.out != nil {
			t.Errorf("after %s, the scanner has %d names, %d bytes of data, %d of output", input, len(s.names), len(s.data), len(s.out))
		}
	}
}

// TestAppendChecked_without_room has destinations that are too small for the result.
func TestAppendChecked_without_room(t *testing.T) {
	data := []byte(`{"a":"x\ny","b":[1,2,"some text that is longer than a word","\\"],"c":"end"}`)
	want := AppendString(nil, data)
	for room := range 2 * len(want) {
		got, ok := AppendChecked(make([]byte, 0, room), data)
		if !ok || !bytes.Equal(got, want) {
			t.Fatalf("with room for %d bytes: %s (%t), want %s", room, got, ok, want)
		}
	}
}

func FuzzScan(f *testing.F) {
	for _, input := range scanned {
		f.Add([]byte(input))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		compareScans(t, data)
		back, err := jsontext.AppendUnquote(nil, AppendString(nil, data))
		if want := strings.ToValidUTF8(string(data), "\ufffd"); err != nil || len(bytes.ReplaceAll(back, []byte("\ufffd"), nil)) != len(strings.ReplaceAll(want, "\ufffd", "")) {
			t.Errorf("AppendString(%.200q) reads back as %.200q (%v)", data, back, err)
		}
	})
}

// list is a JSON response of 141 KB with 1,000 items.
var list = func() []byte {
	b := []byte(`{"items":[`)
	for i := range 1000 {
		b = fmt.Appendf(b, `{"id":"item-%04d","name":"Folding chair","price":{"amount":%d,"currency":"CHF"},"tags":["garden","wood"],"stock":17,"note":"A chair that folds."},`, i, 4000+i)
	}
	return append(b[:len(b)-1], "]}"...)
}()

func BenchmarkLarge(b *testing.B) {
	dst := make([]byte, 0, 2*len(list))
	for name, run := range map[string]func() bool{
		"AppendChecked": func() bool { _, ok := AppendChecked(dst, list); return ok },
		"Unambiguous":   func() bool { return Unambiguous(list) },
		"Valid":         func() bool { return Valid(list) },
		"AppendString":  func() bool { return len(AppendString(dst, list)) > 0 },
		"jsontext":      func() bool { return jsontext.Value(list).IsValid() },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(list)))
			b.ReportAllocs()
			for b.Loop() {
				if !run() {
					b.Fatal("not valid")
				}
			}
		})
	}
}
