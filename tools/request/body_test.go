package request_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/request"
)

const before = "before"

// must returns the Encoder of a media type.
func mustEncoder(t testing.TB, mediaType string, fields map[string]request.Field) *request.Encoder {
	t.Helper()
	e, err := request.NewEncoder(mediaType, fields)
	if err != nil {
		t.Fatalf("New(%s): %v", mediaType, err)
	}
	return e
}

// members returns the members of a JSON object.
func members(t testing.TB, object string) []strictjson.Member {
	t.Helper()
	list, err := strictjson.Members(nil, []byte(object))
	if err != nil {
		t.Fatalf("%s: %v", object, err)
	}
	return list
}

// object returns the body and Content-Type that e makes of the members of value.
func object(t testing.TB, e *request.Encoder, value string) (text, contentType string) {
	t.Helper()
	out, contentType, err := e.AppendObject([]byte(before), members(t, value))
	if err != nil {
		t.Fatalf("AppendObject(%s): %v", value, err)
	}
	return cutBefore(t, out), contentType
}

// whole returns the body and Content-Type that e makes of value.
func whole(t testing.TB, e *request.Encoder, value string) (text, contentType string) {
	t.Helper()
	out, contentType, err := e.AppendValue([]byte(before), jsontext.Value(value))
	if err != nil {
		t.Fatalf("AppendValue(%s): %v", value, err)
	}
	return cutBefore(t, out), contentType
}

func cutBefore(t testing.TB, out []byte) string {
	t.Helper()
	text, ok := strings.CutPrefix(string(out), before)
	if !ok {
		t.Fatalf("dst is overwritten: %q", out)
	}
	return text
}

// refused checks that err is about the argument name and has the words.
func refusedBody(t testing.TB, out []byte, err error, name, words string) {
	t.Helper()
	var refusal *request.Error
	if !errors.As(err, &refusal) {
		t.Fatalf("got %q, %v; want a *style.Error", out, err)
	}
	if refusal.In != request.InBody || refusal.Name != name || !testkit.ContainsAll(refusal.Problem, words) {
		t.Errorf("the error is %q, want one of the body argument %s with the words %q", refusal, name, words)
	}
	if string(out) != before {
		t.Errorf("dst came back as %q", out)
	}
}

func TestNewEncoder_refuses(t *testing.T) {
	for _, mediaType := range []string{"", "json", "multipart/mixed", "multipart/related; boundary=x", "a b/c", "/json", "text/"} {
		if _, err := request.NewEncoder(mediaType, nil); err == nil {
			t.Errorf("%q: no error", mediaType)
		}
	}
	fields := map[string]request.Field{"a": {HasStyle: true, Style: request.Matrix}}
	if _, err := request.NewEncoder("application/x-www-form-urlencoded", fields); err == nil {
		t.Error("matrix in a form: no error")
	}
	if _, err := request.NewEncoder("application/json", fields); err != nil {
		t.Errorf("encoding has no meaning in JSON: %v", err)
	}
}

func TestKind(t *testing.T) {
	for mediaType, want := range map[string]request.Kind{
		"application/json":                  request.JSON,
		"Application/JSON; charset=utf-8":   request.JSON,
		"application/merge-patch+json":      request.JSON,
		"application/*":                     request.JSON,
		"application/x-www-form-urlencoded": request.URLEncoded,
		"multipart/form-data":               request.Multipart,
		"text/plain":                        request.Text,
		"text/csv":                          request.Text,
		"text/*":                            request.Text,
		"application/yaml":                  request.Text,
		"text/xml":                          request.XML,
		"application/atom+xml":              request.XML,
		"application/octet-stream":          request.Binary,
		"image/*":                           request.Binary,
		"*/*":                               request.Binary,
		"application/zip":                   request.Binary,
	} {
		e := mustEncoder(t, mediaType, nil)
		if e.Kind() != want {
			t.Errorf("%s is of kind %d, want %d", mediaType, e.Kind(), want)
		}
		_, _, err := e.AppendObject(nil, nil)
		if (err == nil) != e.TakesObject() {
			t.Errorf("%s: TakesObject is %t, AppendObject returns %v", mediaType, e.TakesObject(), err)
		}
	}
}

func TestJSON(t *testing.T) {
	e := mustEncoder(t, "application/merge-patch+json; charset=utf-8", nil)
	text, contentType := object(t, e, `{"a": 1.10, "b\"": { "z" : [null], "a":1 } , "é":"\u00e9"}`)
	if want := `{"a":1.10,"b\"":{ "z" : [null], "a":1 },"é":"\u00e9"}`; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
	if want := "application/merge-patch+json; charset=utf-8"; contentType != want || e.ContentType() != want {
		t.Errorf("the type is %s, want %s", contentType, want)
	}
	if text, _ := object(t, e, `{}`); text != "{}" {
		t.Errorf("no members become %s", text)
	}
	if text, _ := whole(t, e, `[1, 2]`); text != "[1, 2]" {
		t.Errorf("a value becomes %s", text)
	}
	if _, contentType := whole(t, mustEncoder(t, "application/json;charset", nil), `1`); contentType != "application/json" {
		t.Errorf("a malformed parameter is sent: %s", contentType)
	}
	if _, contentType := whole(t, mustEncoder(t, "application/*", nil), `1`); contentType != "application/json" {
		t.Errorf("application/* is sent as %s", contentType)
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct{ mediaType, value, want, wantType string }{
		{"text/plain", `"a\nb"`, "a\nb", "text/plain"},
		{"text/plain", `"é"`, "é", "text/plain; charset=utf-8"},
		{"text/plain; charset=UTF-8", `"é"`, "é", "text/plain; charset=UTF-8"},
		{"text/plain; charset=iso-8859-1", `"e"`, "e", "text/plain; charset=iso-8859-1"},
		{"text/csv", ` "a,b" `, "a,b", "text/csv"},
		{"text/plain", `{"a":1}`, `{"a":1}`, "text/plain"},
		{"text/plain", `12`, `12`, "text/plain"},
		{"text/*", `""`, ``, "text/plain"},
		{"application/xml", `"<a>é</a>"`, `<a>é</a>`, "application/xml"},
	} {
		text, contentType := whole(t, mustEncoder(t, c.mediaType, nil), c.value)
		if text != c.want || contentType != c.wantType {
			t.Errorf("%s %s: got %q as %s, want %q as %s", c.mediaType, c.value, text, contentType, c.want, c.wantType)
		}
	}
	out, _, err := mustEncoder(t, "text/plain; charset=iso-8859-1", nil).AppendValue([]byte(before), jsontext.Value(`"é"`))
	refusedBody(t, out, err, "body", "ASCII")
	xml := mustEncoder(t, "application/xml", nil)
	out, _, err = xml.AppendValue([]byte(before), jsontext.Value(`{"a":1}`))
	refusedBody(t, out, err, "body", "XML")
	out, _, err = xml.AppendObject([]byte(before), members(t, `{"a":1}`))
	refusedBody(t, out, err, "body", "one argument")
}

func TestBinary(t *testing.T) {
	for _, c := range []struct{ mediaType, value, want, wantType string }{
		{"application/octet-stream", `"aGk="`, "hi", "application/octet-stream"},
		{"application/octet-stream", `"aGk"`, "hi", "application/octet-stream"},
		{"application/octet-stream", `"++//"`, "\xfb\xef\xff", "application/octet-stream"},
		{"application/octet-stream", `"+\/\u002b/"`, "\xfb\xff\xbf", "application/octet-stream"},
		{"application/octet-stream", `"--__"`, "\xfb\xef\xff", "application/octet-stream"},
		{"application/octet-stream", `"aG\nk=\r\n"`, "hi", "application/octet-stream"},
		{"application/octet-stream", `""`, "", "application/octet-stream"},
		{"application/octet-stream", `{"data":"aGk=","type":"image/png"}`, "hi", "image/png"},
		{"image/png", `{"data":"aGk=","filename":"a.png","type":null}`, "hi", "image/png"},
		{"image/*", `{"data":"aGk=","type":"Image/PNG"}`, "hi", "image/png"},
		{"*/*", `{"data":"aGk=","type":"text/plain; charset=utf-8"}`, "hi", "text/plain; charset=utf-8"},
		{"*/*", `"aGk="`, "hi", "application/octet-stream"},
	} {
		text, contentType := whole(t, mustEncoder(t, c.mediaType, nil), c.value)
		if text != c.want || contentType != c.wantType {
			t.Errorf("%s %s: got %q as %s, want %q as %s", c.mediaType, c.value, text, contentType, c.want, c.wantType)
		}
	}
	for _, c := range []struct{ mediaType, value, word string }{
		{"image/png", `"not base64!"`, "base64"},
		{"image/png", `"a"`, "base64"},
		{"image/png", `"+_+_"`, "base64"},
		{"image/png", `"aGk==="`, "base64"},
		{"image/png", `"data:image/png;base64,aGk="`, "data: prefix"},
		{"image/png", `12`, "must file"},
		{"image/png", `{"filename":"a"}`, "lacks data"},
		{"image/png", `{"data":null}`, "strings only"},
		{"image/png", `{"data":"aGk=","name":"x"}`, "unknown name"},
		{"image/png", `{"data":"aGk=","type":"image/gif"}`, "image/gif image/png"},
		{"image/*", `"aGk="`, "must type"},
		{"image/*", `{"data":"aGk=","type":"image/*"}`, "media type"},
		{"*/*", `{"data":"aGk=","type":"image/png\r\nX: 1"}`, "media type"},
		{"*/*", `{"data":"aGk=","type":"png"}`, "media type"},
		{"*/*", `"`, "valid JSON"},
		{"*/*", `{"data"`, "valid JSON"},
		{"*/*", ``, "must file"},
	} {
		out, _, err := mustEncoder(t, c.mediaType, nil).AppendValue([]byte(before), jsontext.Value(c.value))
		refusedBody(t, out, err, "body", c.word)
	}
}

func TestFileSchema(t *testing.T) {
	if !jsontext.Value(request.FileSchema).IsValid() {
		t.Error("FileSchema is not JSON")
	}
}

// TestJSONAllocates: a JSON body costs nothing but room for its bytes.
func TestJSONAllocates(t *testing.T) {
	e := mustEncoder(t, "application/json", nil)
	list := members(t, `{"name":"a","tags":["x","y"],"owner":{"id":1}}`)
	dst := make([]byte, 0, 256)
	allocs := testing.AllocsPerRun(100, func() {
		if _, _, err := e.AppendObject(dst, list); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
