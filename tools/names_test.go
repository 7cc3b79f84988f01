package tools

import (
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/tools/build"
)

// TestName_of_shared_operation_ids warns about operations that have the same operationId.
func TestName_of_shared_operation_ids(t *testing.T) {
	tools := buildTools(t, `{"openapi":"3.0.3","info":{"title":"T","version":"1"},"paths":{"/a":{"get":{"operationId":"x"}},"/b":{"get":{"operationId":"x"}},"/c":{"get":{}}}}`, BuildOptions{})
	if names := []string{tools.Tools()[0].Name, tools.Tools()[1].Name}; !slices.Equal(names, []string{"x", "x_2"}) {
		t.Errorf("names %v", names)
	}
	w := tools.Report.Warnings
	if len(w) != 1 {
		t.Fatalf("got the warnings %v, want one", w)
	}
	if w[0].Operation != "GET /b" || w[0].Lost || !strings.Contains(w[0].Reason, "x_2") {
		t.Errorf("got %+v, want a warning of GET /b that names x_2", w[0])
	}
}

// TestTokens_before_shapes checks that a tool that nothing changed has the same size before and after.
func TestTokens_before_shapes(t *testing.T) {
	for name, test := range map[string]struct {
		operation string
		isLonger  bool
	}{
		"nothing":               {`{}`, false},
		"summary":               {`{"summary":"Read"}`, false},
		"description":           {`{"description":"Reads it."}`, false},
		"both":                  {`{"summary":"Read","description":"Gives one."}`, false},
		"shortened description": {`{"summary":"Read","description":"` + strings.Repeat("Gives one. ", 400) + `"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			made := buildTools(t, `{"openapi":"3.0.3","info":{"title":"T","version":"1"},"paths":{"/a":{"get":`+test.operation+`}}}`, BuildOptions{}).Tools()[0]
			after := len(made.Name) + len(made.Definition.Title) + len(made.Definition.Description) + len(made.Definition.InputSchema)
			if before := made.Unshaped.Size; before < after || (before > after) != test.isLonger {
				t.Errorf("%d bytes, before %d", after, before)
			}
		})
	}
}

// TestName_of_paths_is_stable checks that names of operations without an
// operationId are unique, short and the same at each reading.
func TestName_of_paths_is_stable(t *testing.T) {
	long := strings.Repeat("segment/", 12)
	document := `{"openapi":"3.0.3","info":{"title":"T","version":"1"},"paths":{"/a":{"get":{}},"/a#b":{"get":{}},"/a?b":{"get":{}},"/a/b":{"get":{}},"/` +
		long + `#x":{"get":{}},"/` + long + `#y":{"get":{}}}}`
	var first []string
	for range 2 {
		tools := buildTools(t, document, BuildOptions{})
		var names []string
		for _, tool := range tools.Tools() {
			names = append(names, tool.Name)
			if !build.IsName(tool.Name) || len(tool.Name) > build.MaxName {
				t.Errorf("the name %s", tool.Name)
			}
		}
		if slices.Sort(names); len(slices.Compact(slices.Clone(names))) != 6 {
			t.Errorf("names %v", names)
		}
		if first != nil && !slices.Equal(first, names) {
			t.Errorf("names %v, then %v", first, names)
		}
		first = names
	}
}
