package result

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
)

func TestFields(t *testing.T) {
	const list = `{"total": 2, "items": [{"id": 1, "title": "One", "user": {"login": "ann", "id": 7}}, {"id": 2.50, "title": "T\u0077o", "user": null}], "empty": []}`
	for _, c := range []struct{ fields, body, want, note string }{
		{"items.title,total", list, `{"total":2,"items":[{"title":"One"},{"title":"T\u0077o"}]}`, ""},
		{" items.user.login , items.id ", list, `{"items":[{"id":1,"user":{"login":"ann"}},{"id":2.50,"user":null}]}`, ""},
		{"items,items.id", list, `{"items":[{"id": 1, "title": "One", "user": {"login": "ann", "id": 7}}, {"id": 2.50, "title": "T\u0077o", "user": null}]}`, ""},
		{"items.id,items", list, `{"items":[{"id": 1, "title": "One", "user": {"login": "ann", "id": 7}}, {"id": 2.50, "title": "T\u0077o", "user": null}]}`, ""},
		{"items.titel,total", list, `{"total":2,"items":[{},{}]}`, "items.titel title id user"},
		{"nosuch", list, `{}`, "nosuch total items empty"},
		{"total.x", list, `{"total":2}`, "total.x total"},
		{"empty.id", list, `{"empty":[]}`, ""},
		{"items.user.nosuch", list, `{"items":[{"user":{}},{"user":null}]}`, "items.user.nosuch items.user login"},
		{"a", `[[{"a":1}],[{"b":2}]]`, `[[{"a":1}],[{}]]`, ""},
		{"a", `[]`, `[]`, ""},
		{"a", `"text"`, `"text"`, "a no fields"},
		{"a", `{"\u0061":1,"b":2}`, `{"\u0061":1}`, ""},
	} {
		f, err := ParseFields(c.fields)
		if err != nil {
			t.Errorf("%s: %v", c.fields, err)
			continue
		}
		got, note, err := f.Append(nil, []byte(c.body))
		if err != nil || string(got) != c.want {
			t.Errorf("%s of %s:\ngot  %s, %v\nwant %s", c.fields, c.body, got, err, c.want)
		}
		if (note == "") != (c.note == "") || !testkit.ContainsAll(note, c.note) {
			t.Errorf("%s of %s: got the note %q, want %q", c.fields, c.body, note, c.note)
		}
	}
}

func TestFields_note_is_bounded(t *testing.T) {
	object := make(map[string]int)
	for i := range 500 {
		object[strings.Repeat("n", 200)+string(rune('a'+i%26))+strings.Repeat("x", i)] = i
	}
	body, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	f, err := ParseFields("a,b,c,d,e,f,g,h,i,j,k,l")
	if err != nil {
		t.Fatal(err)
	}
	_, note, err := f.Append(nil, body)
	if limit := maxFieldNotes * (maxNamesShown + 3) * 120; err != nil || note == "" || len(note) > limit {
		t.Errorf("a note of %d bytes, %v; want at most %d", len(note), err, limit)
	}
}

func TestFields_rejects(t *testing.T) {
	for list, words := range map[string]string{
		"":                        "empty",
		" , ":                     "empty",
		"a..b":                    "a..b empty",
		".a":                      ".a",
		strings.Repeat("a,", 3e3): "4096",
		strings.Repeat("a.", 100): "64",
	} {
		if _, err := ParseFields(list); err == nil || !testkit.ContainsAll(err.Error(), words) {
			t.Errorf("%.20q: %v; want %q", list, err, words)
		}
	}
	f, err := ParseFields("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Append(nil, []byte("{")); !errors.Is(err, ErrNotJSON) {
		t.Errorf("got %v; want ErrNotJSON", err)
	}
}

func FuzzFields(f *testing.F) {
	f.Add("items.title,total", []byte(`{"total":2,"items":[{"title":"x","id":1},null,[{"title":{}}]]}`))
	f.Add("a.b,a,c.d.e", []byte(`[{"a":1,"a":{"b":[{}]}},"x",1e9,{"c":[[],{"d":{"e":true}}]}]`))
	f.Fuzz(func(t *testing.T, list string, body []byte) {
		fields, err := ParseFields(list)
		if err != nil {
			return
		}
		got, _, err := fields.Append(nil, body)
		if err != nil {
			return
		}
		if !strictjson.Valid(got) {
			t.Fatalf("%q of %s is no JSON: %s", list, body, got)
		}
		if len(got) > len(body) {
			t.Fatalf("%q of %s is longer than the body: %s", list, body, got)
		}
	})
}
