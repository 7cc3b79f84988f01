package request_test

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/tools/request"
)

var fuzzStyles = []request.Style{
	request.Matrix, request.Label, request.Simple, request.Form, request.SpaceDelimited, request.PipeDelimited, request.DeepObject,
}

// FuzzAppend gives any JSON to any parameter and checks that what comes out
// stays in its place.
func FuzzAppend(f *testing.F) {
	for _, value := range []string{
		empty, blue, colors, rgb, `null`, `true`, `-1.5e+3`, `".."`, `"%2e%2e"`, `"a/../b"`, `["",""]`, `["",".."]`,
		`"a\r\nb: c"`, `"\u0085"`, `"é😀"`, `"a;b&c#d+e=f"`, `{"a":{"b":[1,{"c":"d"}]}}`, `{"a][b":1}`, `{"&x=":"%26"}`,
		`"\ud83d\ude00\/\\\""`, `[[1, 2],{"a" : "b c"}]`, `{"":""}`, `"%C2%85"`, `["/"]`, `";.."`, ` "x" `, `"a`, `[1`, `{"a"`,
	} {
		for i := range fuzzStyles {
			f.Add([]byte(value), byte(i), byte(i), "", i%2 == 0, i%3 == 0)
		}
		f.Add([]byte(value), byte(3), byte(1), "application/json", true, false)
	}
	places := []request.In{request.Path, request.Query, request.Header, request.Cookie, request.InBody}
	f.Fuzz(func(t *testing.T, value []byte, place, form byte, contentType string, explode, reserved bool) {
		p := request.Param{
			Name: "p", In: places[int(place)%len(places)], Style: fuzzStyles[int(form)%len(fuzzStyles)],
			Explode: explode, AllowReserved: reserved, ContentType: contentType,
		}
		s, err := request.NewSerializer(p)
		if err != nil {
			return
		}
		out, err := s.Append([]byte("before"), value)
		if err != nil {
			var refusal *request.Error
			if !errors.As(err, &refusal) || string(out) != "before" {
				t.Fatalf("%q, %v", out, err)
			}
			return
		}
		if !jsontext.Value(value).IsValid() {
			return // the caller's fault; it is enough that nothing panics
		}
		text := strings.TrimPrefix(string(out), "before")
		switch p.In {
		case request.Path:
			checkPath(t, text)
		case request.Header:
			for i := range len(text) {
				if text[i] < ' ' || text[i] >= 0x7f {
					t.Fatalf("header %q has the byte %#x", text, text[i])
				}
			}
		case request.Cookie:
			if strings.ContainsAny(strings.ReplaceAll(text, "; ", ""), "; \"\\\r\n\t\x00") {
				t.Fatalf("cookie %q", text)
			}
		case request.Query, request.InBody:
			checkQuery(t, p, value, text)
		}
	})
}

// checkPath checks a path value as upstreams see it that decode paths up to
// twice.
func checkPath(t *testing.T, text string) {
	t.Helper()
	if strings.ContainsAny(text, "/?#\\ ") || text == "" {
		t.Fatalf("path value %q", text)
	}
	for range 2 {
		for segment := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '/' || r == '\\' }) {
			if segment == "." || segment == ".." {
				t.Fatalf("path value %q has a dot segment", text)
			}
		}
		if strings.ContainsAny(text, "\r\n\x00\x7f") {
			t.Fatalf("path value %q has control characters", text)
		}
		decoded, err := url.PathUnescape(text)
		if err != nil {
			return // only after the first round, where a "%" was the caller's own
		}
		text = decoded
	}
}

// checkQuery checks that a form decoder gives back the value.
func checkQuery(t *testing.T, p request.Param, value []byte, text string) {
	t.Helper()
	got, err := url.ParseQuery(text)
	if err != nil || strings.ContainsAny(text, "#+ []") {
		t.Fatalf("query %q: %v", text, err)
	}
	if p.AllowReserved && strings.Contains(string(value), "%") || p.ContentType != "" {
		return // triples are decoded, JSON is whole
	}
	var decoded any
	if err := json.Unmarshal(value, &decoded); err != nil {
		t.Fatal(err)
	}
	want := url.Values{}
	switch decoded := decoded.(type) {
	case string:
		want.Set("p", decoded)
	case []any:
		if !p.Explode || p.Style == request.DeepObject || !allStrings(decoded) {
			return
		}
		for _, item := range decoded {
			want.Add("p", item.(string))
		}
	case map[string]any:
		for name, item := range decoded {
			text, ok := item.(string)
			switch {
			case !ok || !p.Explode:
				return
			case p.Style == request.DeepObject:
				want.Set("p["+name+"]", text)
			default:
				want.Set(name, text)
			}
		}
	default:
		return
	}
	if len(got) != len(want) {
		t.Fatalf("%s becomes %q, which reads as %v", value, text, got)
	}
	for name := range want {
		if !slices.Equal(got[name], want[name]) {
			t.Fatalf("%s becomes %q, which reads as %v", value, text, got)
		}
	}
}

func allStrings(items []any) bool {
	return !slices.ContainsFunc(items, func(item any) bool {
		_, ok := item.(string)
		return !ok
	})
}
