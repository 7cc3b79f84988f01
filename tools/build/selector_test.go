package build

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/tools/openapi"
)

func TestGlob(t *testing.T) {
	for _, test := range []struct {
		glob, path string
		want       bool
	}{
		{"/trips", "/trips", true},
		{"/trips", "/trips/{id}", false},
		{"/trips/*", "/trips/{id}", true},
		{"/trips/*", "/trips/{id}/seats", false},
		{"/trips/**", "/trips/{id}/seats", true},
		{"/*/seats", "/trips/seats", true},
		{"/a.b", "/axb", false},
		{"**", "/anything/at/all", true},
		{"/(+[", "/(+[", true},
	} {
		if got := compileGlob(test.glob).MatchString(test.path); got != test.want {
			t.Errorf("%q matches %q: %v, want %v", test.glob, test.path, got, test.want)
		}
	}
}

// TestUnmatched_many checks that suggestions are computed only for the selectors that the
// error names, since each is compared with all operations.
func TestUnmatched_many(t *testing.T) {
	var exclude []Selector
	for i := range 1000 {
		exclude = append(exclude, Selector{By: "operation", Value: "listIssue" + strings.Repeat("s", 2+i)})
	}
	compiled, err := CompileSelectors(exclude)
	if err != nil {
		t.Fatal(err)
	}
	operations := []Candidate{{Operation: &openapi.Operation{ID: "listIssues", Method: "GET", Path: "/issues"}, Tool: "listIssues"}}
	unmatched := compiled.Unmatched("exclude", operations)
	if unmatched == nil || len(unmatched.Selectors) != len(exclude) || len(unmatched.near) != maxNamedSelectors {
		t.Fatalf("got %v", unmatched)
	}
	if text := unmatched.Error(); !strings.Contains(text, "992 more") || !strings.Contains(text, "listIssues?") {
		t.Errorf("got %q", text)
	}
}
