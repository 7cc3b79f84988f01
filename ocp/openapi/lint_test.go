package openapi

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLint(t *testing.T) {
	tests := []struct {
		rule, source string
		want         []string // a part of each finding, in order
	}{
		{"conforms-3.0", `{"openapi":"3.0.3","info":{"title":"A","version":"1"},"paths":{"/a":{"get":{"responses":{"200":{"description":"A"}}}}}}`, nil},
		{"conforms-3.1", `{"openapi":"3.1.0","info":{"title":"A","version":"1"},"paths":{"/a":{"get":{"responses":{"200":{"description":"A"}}}}}}`, nil},
		{"conforms-2.0", `{"swagger":"2.0","info":{"title":"A","version":"1"},"paths":{"/a":{"get":{"responses":{"200":{"description":"A"}}}}}}`, nil},
		{"unreadable", `{"openapi":`, []string{"ends in the middle"}},
		{"no-responses", `{"openapi":"3.0.3","info":{"title":"A","version":"1"},"paths":{"/a":{"get":{}}}}`, []string{"responses"}},
		{"broken-ref", `{"openapi":"3.0.3","info":{"title":"A","version":"1"},"paths":{"/a":{"$ref":"#/x"}}}`, []string{`"#/x"`, "not checked"}},
		{"ref-in-example-is-none", `{"openapi":"3.0.3","info":{"title":"A","version":"1"},"paths":{},"components":{"schemas":{"A":{"example":{"$ref":"#/x"}}}}}`, nil},
		{"recursive-schema-with-example", `{"openapi":"3.0.3","info":{"title":"A","version":"1"},"paths":{},"components":{"schemas":{"A":{"type":"array","items":{"$ref":"#/components/schemas/A"},"example":1,"default":1}}}}`, nil},
		{"deep", `{"openapi":"3.0.3","x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`, []string{"nest deeper"}},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			got := Lint(context.Background(), []byte(test.source))
			if len(got) != len(test.want) {
				t.Fatalf("got %q, want %q", got, test.want)
			}
			for i := range got {
				if !strings.Contains(got[i], test.want[i]) {
					t.Errorf("got %q, want %q", got[i], test.want[i])
				}
			}
		})
	}
}

func TestLintReadsNoOtherFile(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(testdata, "multi", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if got := Lint(context.Background(), data); !hasText(got, "the option refs") {
		t.Errorf("got %q", got)
	}
}
