package request_test

import (
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/tools/request"
)

const urlencoded = "application/x-www-form-urlencoded"

func TestForm(t *testing.T) {
	deep := request.Field{HasStyle: true, Style: request.DeepObject, Explode: true}
	for _, c := range []struct {
		rule        string
		field       request.Field // of the property a
		value, want string
	}{
		{"text", request.Field{}, `{"a":"b c&d=é","e":1.0,"f":true}`, "a=b%20c%26d%3D%C3%A9&e=1.0&f=true"},
		{"empty text", request.Field{}, `{"a":""}`, "a="},
		{"absent values", request.Field{}, `{"a":null,"b":[],"c":1,"d":null}`, "c=1"},
		{"nothing", request.Field{}, `{}`, ""},
		{"an array is a pair for each item", request.Field{}, `{"a":["x",1,null]}`, "a=x&a=1"},
		{"an object is JSON", request.Field{}, `{"a":{"b": 1}}`, "a=%7B%22b%22%3A1%7D"},
		{"an empty object is JSON", request.Field{}, `{"a":{}}`, "a=%7B%7D"},
		{"objects in an array are JSON", request.Field{}, `{"a":[{"b": 1},2]}`, "a=%7B%22b%22%3A1%7D&a=2"},
		{"contentType JSON", request.Field{ContentType: "application/json"}, `{"a":[1, "b"],"c":2}`, "a=%5B1%2C%22b%22%5D&c=2"},
		{"contentType JSON of a string", request.Field{ContentType: "application/json"}, `{"a":"b"}`, "a=%22b%22"},
		{"contentType text", request.Field{ContentType: "text/plain"}, `{"a":["b","c"]}`, "a=b&a=c"},
		{"contentType XML", request.Field{ContentType: "application/xml"}, `{"a":"<x/>"}`, "a=%3Cx%2F%3E"},
		{"style before contentType", request.Field{ContentType: "application/json", HasStyle: true}, `{"a":["b","c"]}`, "a=b,c"},
		{"style form", request.Field{HasStyle: true, Explode: true}, `{"a":{"b":1,"c":2},"d":3}`, "b=1&c=2&d=3"},
		{"pipeDelimited", request.Field{HasStyle: true, Style: request.PipeDelimited}, `{"a":["b","c"]}`, "a=b%7Cc"},
		{"allowReserved", request.Field{HasStyle: true, Explode: true, AllowReserved: true}, `{"a":"http://b/?c&d"}`, "a=http://b/?c%26d"},
		{
			"deepObject", deep, `{"a":{"b":{"c":1},"d":["x","y"]},"e":2}`,
			"a%5Bb%5D%5Bc%5D=1&a%5Bd%5D%5B0%5D=x&a%5Bd%5D%5B1%5D=y&e=2",
		},
		{"deepObject of an array", deep, `{"a":["x"]}`, "a%5B0%5D=x"},
		{"deepObject of text", deep, `{"a":""}`, "a="},
		{"names are encoded", request.Field{}, `{"b&c=d[]":1}`, "b%26c%3Dd%5B%5D=1"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			e := mustEncoder(t, urlencoded, map[string]request.Field{"a": c.field})
			text, contentType := object(t, e, c.value)
			if text != c.want || contentType != urlencoded {
				t.Errorf("got %q as %s, want %q", text, contentType, c.want)
			}
			if again, _ := whole(t, e, c.value); again != text {
				t.Errorf("as a whole it is %q, by properties %q", again, text)
			}
		})
	}
}

func TestFormRefuses(t *testing.T) {
	e := mustEncoder(t, urlencoded, map[string]request.Field{"x": {ContentType: "text/xml"}})
	for _, c := range []struct{ value, name, word string }{
		{`{"x":{"a":1}}`, "x", "XML"},
		{`{"":1}`, `""`, "name field"},
		{`{"a":[` + strings.Repeat("1,", request.MaxPairs) + `1]}`, "a", "large"},
		{`{"a":"` + strings.Repeat("é", request.MaxForm/6) + `","b":"` + strings.Repeat("é", request.MaxForm/6) + `"}`, "b", "large"},
		{`{"a":"` + strings.Repeat("é", request.MaxForm/6+1) + `"}`, "a", "long"},
	} {
		out, _, err := e.AppendObject([]byte(before), members(t, c.value))
		refusedBody(t, out, err, c.name, c.word)
	}
	out, _, err := e.AppendObject([]byte(before), members(t, `{"`+strings.Repeat("n", request.MaxName+1)+`":1}`))
	refusedBody(t, out, err, strconv.Quote(strings.Repeat("n", 40)), "name field")
	out, _, err = e.AppendValue([]byte(before), jsontext.Value(`[1]`))
	refusedBody(t, out, err, "body", "JSON object")
	out, _, err = e.AppendValue([]byte(before), jsontext.Value(`{"a":1,"a":2}`))
	refusedBody(t, out, err, "body", "valid JSON")
}

// FuzzForm checks that a form decoder gives back the properties.
func FuzzForm(f *testing.F) {
	f.Add("a", "b", "c", "d")
	f.Add("a&b", "=", "%26", "+")
	f.Add("é", "\r\n", ";", "a[b]")
	f.Add("\"", "\\", "\x00", " ")
	f.Fuzz(func(t *testing.T, name1, text1, name2, text2 string) {
		if name1 == "" || name2 == "" || name1 == name2 || len(name1) > request.MaxName || len(name2) > request.MaxName {
			return
		}
		e := mustEncoder(t, urlencoded, nil)
		list := []struct{ name, text string }{{name1, text1}, {name2, text2}}
		want := url.Values{}
		object := "{"
		for i, m := range list {
			name, err1 := jsontext.AppendQuote(nil, m.name)
			text, err2 := jsontext.AppendQuote(nil, m.text)
			if err1 != nil || err2 != nil {
				return // not UTF-8
			}
			object += fmt.Sprintf("%.*s%s:[%s,%s]", i, ",", name, text, text)
			want[m.name] = []string{m.text, m.text}
		}
		out, _, err := e.AppendObject(nil, members(t, object+"}"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := url.ParseQuery(string(out))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s becomes %q, which reads as %v, %v", object, out, got, err)
		}
	})
}
