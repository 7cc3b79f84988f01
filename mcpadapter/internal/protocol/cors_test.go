package protocol

import (
	"strings"
	"testing"
)

// A page decides on the names of headers, which go into an answer.
func TestCORS_headers_are_names(t *testing.T) {
	got := withRequestedHeaders([]string{"x-a, ,b(c, authorization", "X-D"})
	if want := sharedHeaders + ", x-a, X-D"; got != want {
		t.Errorf("got %s", got)
	}
}

// Anyone can send a preflight: what is long is not read to its end, nor is a name
// that is cut short allowed.
func TestCORS_headers_are_bounded(t *testing.T) {
	known := strings.Repeat("accept,", maxAskedHeaders/len("accept,"))
	for rule, asked := range map[string][]string{
		"one line":      {"x-a," + known + "x-late"},
		"several lines": {"x-a", known, "x-late"},
		"a long name":   {"x-a," + strings.Repeat("y", maxAskedHeaders) + ",x-late"},
		"nothing":       {"x-a," + strings.Repeat(",", maxAskedHeaders) + "x-late"},
		"unlike names":  {"x-a", strings.Repeat(" (,", maxAskedHeaders/3), "x-late"},
	} {
		if got := withRequestedHeaders(asked); got != sharedHeaders+", x-a" {
			t.Errorf("%s: got %s", rule, got)
		}
	}
}
