package commands

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

func TestLint(t *testing.T) {
	tests := []struct {
		rule, source string
		want         []string // a part of each finding, in order
	}{
		{"conforms-3.0", `{"openapi":"3.0.3","info":{"title":"A","version":"1"},"paths":{"/a":{"get":{"responses":{"200":{"description":"A"}}}}}}`, nil},
		{"conforms-3.1", `{"openapi":"3.1.0","info":{"title":"A","version":"1"},"paths":{"/a":{"get":{"responses":{"200":{"description":"A"}}}}}}`, nil},
		{"conforms-2.0", `{"swagger":"2.0","info":{"title":"A","version":"1"},"paths":{"/a":{"get":{"responses":{"200":{"description":"A"}}}}}}`, nil},
		{"unreadable", `{"openapi":`, []string{"JSON ends"}},
		{"no-responses", `{"openapi":"3.0.3","info":{"title":"A","version":"1"},"paths":{"/a":{"get":{}}}}`, []string{"responses"}},
		{"broken-ref", `{"openapi":"3.0.3","info":{"title":"A","version":"1"},"paths":{"/a":{"$ref":"#/x"}}}`, []string{"#/x", "checked"}},
		{"ref-in-example-is-none", `{"openapi":"3.0.3","info":{"title":"A","version":"1"},"paths":{},"components":{"schemas":{"A":{"example":{"$ref":"#/x"}}}}}`, nil},
		{"recursive-schema-with-example", `{"openapi":"3.0.3","info":{"title":"A","version":"1"},"paths":{},"components":{"schemas":{"A":{"type":"array","items":{"$ref":"#/components/schemas/A"},"example":1,"default":1}}}}`, nil},
		{"deep", `{"openapi":"3.0.3","x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`, []string{"deeper"}},
	}
	for _, test := range tests {
		t.Run(test.rule, func(t *testing.T) {
			got := lintDocument(context.Background(), []byte(test.source))
			if len(got) != len(test.want) {
				t.Fatalf("got %q, want %q", got, test.want)
			}
			for i := range got {
				if !testkit.ContainsAll(got[i], test.want[i]) {
					t.Errorf("got %q, want %q", got[i], test.want[i])
				}
			}
		})
	}
}

func TestLint_reads_no_other_file(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "openapi", "multi", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if got := lintDocument(context.Background(), data); !slices.ContainsFunc(got, func(line string) bool { return testkit.ContainsAll(line, "option refs") }) {
		t.Errorf("got %q", got)
	}
}

func TestLint_swagger_names_the_place_of_a_wrong_type(t *testing.T) {
	for name, test := range map[string]struct{ document, want string }{
		"items is an array": {
			`{"swagger":"2.0","info":{"title":"A","version":"1"},"paths":{},"definitions":{"A":{"type":"array","items":[{"type":"string"}]}}}`,
			"#/definitions/A/items",
		},
		"properties is an array": {
			`{"swagger":"2.0","info":{"title":"A","version":"1"},"paths":{},"definitions":{"A":{"properties":[]}}}`,
			"#/definitions/A/properties",
		},
		"a keyword without a rule": {
			`{"swagger":"2.0","info":{"title":"A","version":"1"},"paths":{"/a":{"get":{"tags":"x","responses":{"200":{"description":"A"}}}}}}`,
			"wrong type",
		},
	} {
		findings := strings.Join(lintDocument(t.Context(), []byte(test.document)), "\n")
		if !testkit.ContainsAll(findings, test.want) || strings.Contains(findings, "unmarshal") || strings.Contains(findings, "openapi2") {
			t.Errorf("%s: %s", name, findings)
		}
	}
	named := `{"openapi":"3.0.3","info":{"title":"A","version":"1"},"paths":{},"components":{"schemas":{"description":{"type":"object","properties":{"items":{"type":"string"}}}}}}`
	if findings := lintDocument(t.Context(), []byte(named)); len(findings) != 0 {
		t.Errorf("a schema whose name is a keyword: %q", findings)
	}
}
