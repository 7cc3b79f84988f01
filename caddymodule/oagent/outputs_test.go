package oagent

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/klauspost/compress/gzip"
)

func TestOutputs(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write([]byte(`{"a":1}`))
	_ = w.Close()
	for name, test := range map[string]struct {
		contentType, coding, body string
		status                    int
		want                      string
	}{
		"none":                   {"application/json", "", "", 200, ""},
		"JSON":                   {"application/json", "", `{"a": 1}`, 200, `{"a": 1}`},
		"JSON of another name":   {"application/problem+json; charset=utf-8", "", `{"a":1}`, 404, `{"a":1}`},
		"JSON behind a mark":     {"application/json", "", "\xef\xbb\xbf[]", 200, `[]`},
		"JSON without a type":    {"", "", `{"a":1}`, 200, `{"a":1}`},
		"text without a type":    {"", "", `{"a":`, 200, `"{\"a\":"`},
		"JSON that is none":      {"application/json", "", `{"a":1,"a":2}`, 200, `{"a":1,"a":2}`}, // which the guard omits
		"text":                   {"text/plain", "", "say \"hi\"", 200, `"say \"hi\""`},
		"HTML":                   {"text/html; charset=utf-8", "", "<p>", 200, `"<p>"`},
		"Latin-1":                {"text/plain; charset=iso-8859-1", "", "caf\xe9", 200, `"café"`},
		"text in no charset":     {"text/plain; charset=klingon", "", "x", 200, `{"_shed":1,"_why":"encoding"}`},
		"text that is no UTF-8":  {"text/plain", "", "\xff", 200, `{"_media_type":"text/plain","_bytes":1}`},
		"picture":                {"image/PNG", "", "\x89PNG", 200, `{"_media_type":"image/png","_bytes":4}`},
		"bytes without a type":   {"", "", "\x00\xff", 200, `{"_media_type":"","_bytes":2}`},
		"a part":                 {"application/json", "", `{"a":1}`, 206, `{"_shed":7,"_why":"part"}`},
		"gzip":                   {"application/json", "gzip", zipped.String(), 200, `{"a":1}`},
		"gzip that is none":      {"application/json", "gzip", "{}", 200, `{"_shed":2,"_why":"encoding"}`},
		"an unknown coding":      {"application/json", "br", "{}", 200, `{"_shed":2,"_why":"encoding"}`},
		"gzip beyond all limits": {"text/plain", "gzip", zippedZeros(2 << 20), 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			header := http.Header{}
			if test.contentType != "" {
				header.Set("Content-Type", test.contentType)
			}
			if test.coding != "" {
				header.Set("Content-Encoding", test.coding)
			}
			got := string(outputsOf(header, test.status, []byte(test.body), 1<<20))
			if name == "gzip beyond all limits" {
				test.want = fmt.Sprintf(`{"_shed":%d,"_why":"max_output","_limit":1048576}`, len(test.body))
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func zippedZeros(n int) string {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write(make([]byte, n))
	_ = w.Close()
	return zipped.String()
}

func TestASCIIJSON(t *testing.T) {
	if got := string(asciiJSON([]byte("{\"a\":\n\"é€😀\"}"))); got != `{"a": "\u00e9\u20ac\ud83d\ude00"}` {
		t.Error(got)
	}
}
