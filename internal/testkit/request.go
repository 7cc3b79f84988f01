package testkit

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// RequestText returns a request as it goes to the API, in one line: method and URI, then some
// headers and the body.
func RequestText(t testing.TB, r *http.Request) string {
	t.Helper()
	var text strings.Builder
	text.WriteString(r.Method + " " + r.URL.RequestURI())
	for _, name := range []string{"X-Trace-Id", "Cookie", "Content-Type"} {
		if value := r.Header.Get(name); value != "" {
			text.WriteString(" | " + name + ": " + value)
		}
	}
	content, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if len(content) > 0 {
		text.WriteString(" | " + string(content))
	}
	if int64(len(content)) != r.ContentLength {
		t.Errorf("Content-Length is %d for %d bytes", r.ContentLength, len(content))
	}
	return text.String()
}
