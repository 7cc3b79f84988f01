package request_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/tools/request"
)

// A part is one part as a server reads it.
type part struct{ name, filename, contentType, content string }

// read takes a multipart body apart.
func read(t testing.TB, text []byte, contentType string) []part {
	t.Helper()
	base, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || base != "multipart/form-data" {
		t.Fatalf("the Content-Type is %q: %v", contentType, err)
	}
	reader := multipart.NewReader(bytes.NewReader(text), parameters["boundary"])
	var parts []part
	for {
		p, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return parts
		}
		if err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		content, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		for name := range p.Header {
			if name != "Content-Disposition" && name != "Content-Type" {
				t.Errorf("a part has the header %s", name)
			}
		}
		parts = append(parts, part{p.FormName(), p.FileName(), p.Header.Get("Content-Type"), string(content)})
	}
}

func TestMultipart(t *testing.T) {
	for _, c := range []struct {
		rule  string
		field request.Field // of the property a
		value string
		want  []part
	}{
		{
			"text",
			request.Field{},
			`{"a":"b\r\n","c":1.0,"d":null,"e":true}`,
			[]part{{"a", "", "", "b\r\n"}, {"c", "", "", "1.0"}, {"e", "", "", "true"}},
		},
		{"nothing", request.Field{}, `{"a":null,"b":[]}`, nil},
		{"an object is JSON", request.Field{}, `{"a":{"b": 1}}`, []part{{"a", "", "application/json", `{"b": 1}`}}},
		{
			"an array is a part for each item",
			request.Field{},
			`{"a":["b",{"c":1}]}`,
			[]part{{"a", "", "", "b"}, {"a", "", "application/json", `{"c":1}`}},
		},
		{
			"contentType",
			request.Field{ContentType: "text/csv; header=present"},
			`{"a":"b,c"}`,
			[]part{{"a", "", "text/csv; header=present", "b,c"}},
		},
		{
			"contentType JSON",
			request.Field{ContentType: "application/json"},
			`{"a":"b"}`,
			[]part{{"a", "", "application/json", `"b"`}},
		},
		{
			"contentType in two lines",
			request.Field{ContentType: "text/csv;\r\n header=present"},
			`{"a":"b"}`,
			[]part{{"a", "", "text/csv; header=present", "b"}},
		},
		{
			"deepObject",
			request.Field{HasStyle: true, Style: request.DeepObject},
			`{"a":{"b":["c & d"]}}`,
			[]part{{"a[b][0]", "", "", "c & d"}},
		},
		{
			"exploded object",
			request.Field{HasStyle: true, Explode: true},
			`{"a":{"b":"=","c":"é"}}`,
			[]part{{"b", "", "", "="}, {"c", "", "", "é"}},
		},
		{
			"a file",
			request.Field{File: true},
			`{"a":{"data":"aGk=","filename":"a b.png","type":"image/png"}}`,
			[]part{{"a", "a b.png", "image/png", "hi"}},
		},
		{
			"a file without name",
			request.Field{File: true},
			`{"a":"aGk"}`,
			[]part{{"a", "file", "application/octet-stream", "hi"}},
		},
		{
			"files",
			request.Field{File: true, ContentType: "image/png, image/*"},
			`{"a":["aGk=",{"data":"aG8=","type":"image/gif"}]}`,
			[]part{{"a", "file", "image/png", "hi"}, {"a", "file", "image/gif", "ho"}},
		},
		{"no file", request.Field{File: true}, `{"a":null}`, nil},
		{
			"a path is no file name",
			request.Field{File: true},
			`{"a":{"data":"","filename":"/etc/..\\x/passwd"}}`,
			[]part{{"a", "passwd", "application/octet-stream", ""}},
		},
		{
			"dots are no file name",
			request.Field{File: true},
			`{"a":{"data":"","filename":"a/.."}}`,
			[]part{{"a", "file", "application/octet-stream", ""}},
		},
		{
			"a file name keeps to its line",
			request.Field{File: true},
			`{"a":{"data":"","filename":"x\"\r\nA: b\u0000;é.png"}}`,
			[]part{{"a", "x'A: b;é.png", "application/octet-stream", ""}},
		},
		{
			"a name keeps to its line",
			request.Field{},
			`{"x\"; filename=\"y\r\nA: b\\é":1}`,
			[]part{{"x%22; filename=%22y%0D%0AA: b%5Cé", "", "", "1"}},
		},
	} {
		t.Run(c.rule, func(t *testing.T) {
			e := mustEncoder(t, "multipart/form-data", map[string]request.Field{"a": c.field})
			text, contentType := object(t, e, c.value)
			if len(c.want) == 0 {
				if strings.Count(text, "\r\n") != 1 {
					t.Errorf("got %q, want the closing boundary", text)
				}
				return
			}
			if got := read(t, []byte(text), contentType); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestMultipartRefuses(t *testing.T) {
	e := mustEncoder(t, "multipart/form-data", map[string]request.Field{
		"f": {File: true, ContentType: "image/*"}, "x": {ContentType: "text/xml"},
	})
	for _, c := range []struct{ value, name, word string }{
		{`{"f":{"data":"!","type":"image/png"}}`, "f", "base64"},
		{`{"f":{"data":"aGk=","type":"text/plain"}}`, "f", "text/plain image/*"},
		{`{"f":{"data":"aGk=","type":"image/png; a=\"\r\n\""}}`, "f", "media type"},
		{`{"f":"aGk="}`, "f", "must type"},
		{`{"f":1}`, "f", "must file"},
		{`{"f":{"data":"aGk=","filename":"` + strings.Repeat("a", request.MaxFilename+1) + `"}}`, "f", "filename longer"},
		{`{"x":[{}]}`, "x", "XML"},
		{`{"":1}`, `""`, "name field"},
		{`{"a":[` + strings.Repeat("1,", request.MaxParts) + `1]}`, "a", "many parts"},
	} {
		out, _, err := e.AppendObject([]byte(before), members(t, c.value))
		refusedBody(t, out, err, c.name, c.word)
	}
}

// TestBoundary: no two bodies have the same boundary.
func TestBoundary(t *testing.T) {
	e := mustEncoder(t, "multipart/form-data; boundary=fixed", nil)
	_, first := object(t, e, `{"a":1}`)
	_, second := object(t, e, `{"a":1}`)
	if first == second || strings.Contains(first, "fixed") {
		t.Errorf("the boundaries are %s and %s", first, second)
	}
}

// FuzzMultipart checks that a server reads one text and one file, whatever their
// names and contents.
func FuzzMultipart(f *testing.F) {
	f.Add("a", "b", "c.png", "image/png", []byte("hi"))
	f.Add("a\"\r\n", "--\r\n", "..\\\"\r\nX: y", "text/plain; a=\"\r\n\"", []byte("\r\n--fairway-"))
	f.Add("é", "\x00", "\u0085/", "", []byte{})
	f.Fuzz(func(t *testing.T, name, text, filename, mediaType string, content []byte) {
		if name == "" || name == "file" || len(name) > request.MaxName {
			return
		}
		var quoted [4][]byte
		for i, s := range []string{name, text, filename, mediaType} {
			var err error
			if quoted[i], err = jsontext.AppendQuote(nil, s); err != nil {
				return // not UTF-8
			}
		}
		e := mustEncoder(t, "multipart/form-data", map[string]request.Field{"file": {File: true}})
		out, contentType, err := e.AppendObject(nil, members(t, `{`+string(quoted[0])+`:`+string(quoted[1])+
			`,"file":{"data":"`+base64.StdEncoding.EncodeToString(content)+`","filename":`+string(quoted[2])+
			`,"type":`+string(quoted[3])+`}}`))
		if err != nil {
			return
		}
		parts := read(t, out, contentType)
		if len(parts) != 2 || parts[0].content != text || parts[1].content != string(content) {
			t.Fatalf("%q reads as %q", out, parts)
		}
		if parts[0].filename != "" || parts[1].name != "file" || parts[1].filename == "" {
			t.Fatalf("%q reads as %q", out, parts)
		}
	})
}
