package tool

import (
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/ocp/internal/naming"
)

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
			if !naming.IsName(tool.Name) || len(tool.Name) > naming.MaxLength {
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
