package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
)

// list returns an array of n objects.
func listOf(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(`{"id":%d,"labels":["a","b"],"text":"%s"}`, i, strings.Repeat("x", 50))
	}
	return "[" + strings.Join(items, ",") + "]"
}

func TestCut_small(t *testing.T) {
	body := []byte(listOf(2))
	if pages := CutPages(body, true, len(body)+MinCut); pages != nil {
		t.Errorf("got %d pages; want nil", len(pages))
	}
}

func TestCut_white_space(t *testing.T) {
	body := []byte(`{"a":` + strings.Repeat(" ", 1000) + `"b  c"}`)
	pages := CutPages(body, true, MinCut)
	if len(pages) != 1 || string(pages[0].Body) != `{"a":"b  c"}` || pages[0].Note != "" {
		t.Errorf("got %+v", pages)
	}
}

// TestCut_list covers responses in the shapes of common APIs: the items of all pages are those of the
// response, in order, and the first page has everything else.
func TestCut_list(t *testing.T) {
	const n, limit = 512, 4000
	items := listOf(n)
	for name, c := range map[string]struct {
		body string
		list func(map[string]any) any // of the first page
		note string
	}{
		"array":         {items, nil, "of 512 items"},
		"object":        {`{"total_count":512,"incomplete_results":false,"items":` + items + `}`, func(o map[string]any) any { return o["items"] }, "of 512 items of items"},
		"nested":        {`{"ok":true,"data":{"items":` + items + `,"cursor":"x"}}`, func(o map[string]any) any { return o["data"].(map[string]any)["items"] }, "of 512 items of data.items"},
		"one container": {`{"list":[{"messages":` + items + `}]}`, func(o map[string]any) any { return o["list"].([]any)[0].(map[string]any)["messages"] }, "of 512 items of list[0].messages"},
	} {
		pages := CutPages([]byte(c.body), true, limit)
		if len(pages) < 2 || !testkit.ContainsAll(pages[0].Note, c.note) {
			t.Errorf("%s: %d pages, note %q; want %q", name, len(pages), pages[0].Note, c.note)
			continue
		}
		var all []any
		for i, page := range pages {
			if !page.JSON || !strictjson.Valid(page.Body) || len(page.Body) > limit {
				t.Fatalf("%s: page %d has %d bytes: %s", name, i, len(page.Body), page.Body)
			}
			v := decodedJSON(t, page.Body)
			if i == 0 && c.list != nil {
				first, whole := v.(map[string]any), decodedJSON(t, []byte(c.body)).(map[string]any)
				v = c.list(first)
				if len(first) != len(whole) {
					t.Errorf("%s: the first page has %d members; want %d", name, len(first), len(whole))
				}
			}
			all = append(all, v.([]any)...)
			if i > 0 && len(page.Body) < limit-200 && i < len(pages)-1 {
				t.Errorf("%s: page %d has %d bytes only", name, i, len(page.Body))
			}
		}
		if got, want := fmt.Sprint(all), fmt.Sprint(decodedJSON(t, []byte(items))); got != want {
			t.Errorf("%s: the items of the pages are not those of the response", name)
		}
		if last := pages[len(pages)-1].Note; !testkit.ContainsAll(last, "512 items of") {
			t.Errorf("%s: last note %q", name, last)
		}
	}
}

func TestCut_several_places(t *testing.T) {
	const limit = 4000
	long := strings.Repeat("word ", 4000)
	for name, c := range map[string]struct {
		body  string
		notes string // words of the first note
		rests []string
	}{
		"two arrays": {`{"a":` + listOf(400) + `,"b":` + listOf(300) + `}`, "of 400 items of a, of 300 items of b", []string{"items of 400 of a", "items of 300 of b"}},
		"one string": {`{"name":"x","content":"` + long + `","labels":["a","b"]}`, "bytes of 20000 content", []string{"bytes of 20000 content"}},
		"big items": {
			`{"items":[{"id":1,"body":"` + long + `"},{"id":2,"body":"` + long + `"}]}`, "1 of 2 items, bytes items[0].body",
			[]string{"items[0].body", "items[1].body"},
		},
		"map":    {`{"users":{` + strings.TrimSuffix(strings.Repeat(`"u1":{"name":"n","roles":["a"]},`, 500), ",") + `}}`, "500 members of users", []string{"members 500 users"}},
		"string": {`"` + long + `"`, "bytes of 20000", []string{"bytes 20000"}},
	} {
		body := []byte(c.body)
		pages := CutPages(body, true, limit)
		if len(pages) < 2 || !testkit.ContainsAll(pages[0].Note, strings.ReplaceAll(c.notes, ",", "")) || !pages[0].JSON {
			t.Errorf("%s: %d pages, first note %q; want %q", name, len(pages), pages[0].Note, c.notes)
			continue
		}
		var notes []string
		for i, page := range pages {
			notes = append(notes, page.Note)
			if len(page.Body) > limit || page.JSON && !strictjson.Valid(page.Body) || page.Note == "" {
				t.Errorf("%s: page %d (%q) has %d bytes", name, i, page.Note, len(page.Body))
			}
		}
		for _, words := range c.rests {
			found := false
			for _, note := range notes[1:] {
				found = found || testkit.ContainsAll(note, words)
			}
			if !found {
				t.Errorf("%s: no note has %q: %q", name, words, notes)
			}
		}
	}
}

func TestCut_string_at_characters(t *testing.T) {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "é😀\\\"\n%d", i)
	}
	for _, escaped := range []bool{false, true} {
		encoded, err := json.Marshal(map[string]any{"a": text.String()})
		if err != nil {
			t.Fatal(err)
		}
		if escaped {
			var b []byte
			for _, r := range string(encoded) {
				if r > 0xffff {
					b = fmt.Appendf(b, `\ud83d\ude00`)
				} else if r > 127 {
					b = fmt.Appendf(b, `\u%04x`, r)
				} else {
					b = append(b, byte(r))
				}
			}
			encoded = b
		}
		for limit := MinCut; limit < MinCut+30; limit++ {
			pages := CutPages(encoded, true, limit)
			got := decodedJSON(t, pages[0].Body).(map[string]any)["a"].(string)
			for _, page := range pages[1:] {
				if page.JSON || !utf8.Valid(page.Body) {
					t.Fatalf("limit %d: page %q is no text", limit, page.Body)
				}
				got += string(page.Body)
			}
			if got != text.String() {
				t.Fatalf("limit %d, escaped %v: the pages are not the string", limit, escaped)
			}
		}
	}
}

func TestCut_text(t *testing.T) {
	log := strings.Repeat("2026-01-01 something happened\n", 1000)
	ndjson := strings.Repeat(`{"id":1,"name":"é"}`+"\n", 1000)
	for name, c := range map[string]struct {
		body  string
		lines bool
	}{
		"log": {log, true}, "without last line end": {strings.TrimSuffix(log, "\n"), true}, "NDJSON": {ndjson, true},
		"one line": {strings.Repeat("é", 10000), false}, "no UTF-8": {strings.Repeat("\xe9\x80", 10000), false},
		"cut-off JSON": {`{"a":"` + strings.Repeat("é", 10000), false},
	} {
		pages := CutPages([]byte(c.body), true, 1000)
		var all []byte
		for i, page := range pages {
			if page.JSON || len(page.Body) > 1000 {
				t.Errorf("%s: page %d has %d bytes", name, i, len(page.Body))
			}
			if words := map[bool]string{true: "lines of 1000", false: "bytes of"}[c.lines]; !testkit.ContainsAll(page.Note, words) {
				t.Errorf("%s: note %q; want %q", name, page.Note, words)
			}
			if c.lines && i < len(pages)-1 && page.Body[len(page.Body)-1] != '\n' {
				t.Errorf("%s: page %d ends within a line", name, i)
			}
			if utf8.ValidString(c.body) && !utf8.Valid(page.Body) {
				t.Errorf("%s: page %d ends within a character", name, i)
			}
			all = append(all, page.Body...)
		}
		if string(all) != c.body {
			t.Errorf("%s: the pages are not the text", name)
		}
	}
}

func TestCut_keeps_nothing_of_the_body(t *testing.T) {
	for _, body := range [][]byte{[]byte(listOf(500)), []byte(strings.Repeat("line\n", 1000))} {
		whole := string(body)
		pages := CutPages(body, true, 1000)
		var before []string
		for _, page := range pages {
			before = append(before, string(page.Body))
		}
		clear(body)
		for i, page := range pages {
			if string(page.Body) != before[i] {
				t.Fatalf("page %d of %.20q… changed with the body", i, whole)
			}
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add([]byte(listOf(30)), true, 0)
	f.Add([]byte(`{"a":[`+strings.Repeat(`"xy",`, 200)+`1],"b":"`+strings.Repeat(`\u00e9\ud83d\ude00`, 100)+`"}`), true, 100)
	f.Add([]byte(strings.Repeat("[", 900)+strings.Repeat("]", 900)), true, 0)
	f.Add([]byte(`{"a":{`+strings.Repeat(`"k":{"x":[1,2]},`, 60)+`"z":0}}`), true, 7)
	f.Add([]byte(strings.Repeat("é\n\n", 300)), false, 3)
	f.Fuzz(func(t *testing.T, body []byte, isJSON bool, more int) {
		limit := MinCut + max(more%1000, 0)
		before := bytes.Clone(body)
		pages := CutPages(body, isJSON, limit)
		if !bytes.Equal(body, before) {
			t.Fatal("the body was changed")
		}
		if pages == nil {
			if len(body) > limit {
				t.Fatalf("no pages of %d bytes", len(body))
			}
			return
		}
		total := 0
		for i, page := range pages {
			total += len(page.Body)
			if len(page.Body) > limit || len(page.Body) == 0 {
				t.Fatalf("page %d has %d bytes; the limit is %d", i, len(page.Body), limit)
			}
			if page.JSON && !strictjson.Valid(page.Body) {
				t.Fatalf("page %d is no JSON: %s", i, page.Body)
			}
			if page.Note == "" && len(pages) > 1 {
				t.Fatalf("page %d has no note", i)
			}
		}
		if isJSON && strictjson.Valid(body) {
			// White space may go, and what was left out of strings is not escaped; nothing else goes.
			kept := 0
			for _, page := range pages {
				kept += bytes.Count(page.Body, []byte("x"))
			}
			if kept < bytes.Count(body, []byte("x")) {
				t.Fatal("a part of the response is missing")
			}
			return
		}
		if total != len(body) {
			t.Fatalf("pages of %d bytes; the text has %d", total, len(body))
		}
	})
}

func BenchmarkCut(b *testing.B) {
	body := issuesBody(1 << 20)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		CutPages(body, true, 80_000)
	}
}

// TestCut_deeply_nested checks that items within items are cut in a time that grows with the size of the
// response only, not with its depth.
func TestCut_deeply_nested(t *testing.T) {
	const depth, limit = 900, 4000
	text := strings.Repeat("y", 1<<20)
	for name, body := range map[string]string{
		"arrays":  strings.Repeat("[1,", depth) + `"` + text + `"` + strings.Repeat("]", depth),
		"objects": strings.Repeat(`{"b":`, depth) + `"` + text + `"` + strings.Repeat(`,"a":1}`, depth),
	} {
		pages := CutPages([]byte(body), true, limit)
		left := 0
		for _, page := range pages {
			if page.JSON && !strictjson.Valid(page.Body) {
				t.Errorf("%s: a page is not valid JSON: %.60s", name, page.Body)
			}
			if len(page.Body) > limit {
				t.Errorf("%s: a page has %d bytes; want at most %d", name, len(page.Body), limit)
			}
			if len(page.Note) > 2*maxPlaces*maxPath {
				t.Errorf("%s: a note has %d bytes", name, len(page.Note))
			}
			left += bytes.Count(page.Body, []byte("y"))
		}
		if want := len(text); left != want {
			t.Errorf("%s: the pages have %d bytes of the texts; want all %d", name, left, want)
		}
		if len(pages) >= depth {
			t.Errorf("%s: %d pages, so that each level was cut; want fewer than %d", name, len(pages), depth)
		}
	}
}

func TestPathTo(t *testing.T) {
	const data = `{"a":{"x":[1,2,{"b":3}]}, "items" : [ [], {"c":"]"}, "s,", [0,{"la\u0062el":[7]}]]}`
	for value, want := range map[string]string{"{": "", "3": "a.x[2].b", "7": "items[3][1].label[0]", `"s,"`: "items[2]", `"]"`: "items[1].c", "[ []": "items"} {
		if got := pathTo([]byte(data), strings.Index(data, value)); got != want {
			t.Errorf("%s: got %q; want %q", value, got, want)
		}
	}
}
