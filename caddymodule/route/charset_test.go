package route

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/buffer"
)

func TestDecodeText(t *testing.T) {
	for _, test := range []struct{ name, contentType, body, want string }{
		{"utf-8", "application/json; charset=utf-8", `{"a":"é"}`, `{"a":"é"}`},
		{"no charset", "application/json", `{"a":"é"}`, `{"a":"é"}`},
		{"byte order mark", "application/problem+json", "\xef\xbb\xbf{}", "{}"},
		{"latin-1", "text/plain; charset=ISO-8859-1", "caf\xe9", "café"},
		{"utf-16", "application/json; charset=utf-16le", "{\x00}\x00", "{}"},
		{"unknown charset", "text/plain; charset=klingon", "caf\xe9", "caf\xe9"},
		{"broken type", "text/plain; charset", "caf\xe9", "caf\xe9"},
		{"no text", "image/png; charset=utf-16le", "\xef\xbb\xbfab", "\xef\xbb\xbfab"},
	} {
		t.Run(test.name, func(t *testing.T) {
			header := http.Header{"Content-Type": {test.contentType}}
			body, err := DecodeText(header, asBuffer([]byte(test.body)), 1000)
			if err != nil {
				t.Fatal(err)
			}
			if string(body.B) != test.want {
				t.Errorf("body %q, want %q", body.B, test.want)
			}
		})
	}
	long := asBuffer([]byte(strings.Repeat("\xe9", 900)))
	if _, err := DecodeText(http.Header{"Content-Type": {"text/plain; charset=latin1"}}, long, 1000); !errors.Is(err, buffer.ErrTooLarge) {
		t.Errorf("error %v, want ErrTooLarge", err)
	}
}
