package tool

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func buildTools(t testing.TB, document string, options BuildOptions) *Toolset {
	t.Helper()
	tools, err := Build([]byte(document), options)
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

// requestText writes a request as it goes to the API.
func requestText(t *testing.T, r *http.Request) string {
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
