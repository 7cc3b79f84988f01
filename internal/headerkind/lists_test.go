package headerkind

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestNamesUser_lists checks that NamesUser finds each name and prefix of its lists.
func TestNamesUser_lists(t *testing.T) {
	for _, name := range append(slices.Collect(maps.Keys(userHeaders)), userPrefixes[:]...) {
		for _, form := range []string{name, strings.ToLower(name), strings.ReplaceAll(name, "-", "_")} {
			if !NamesUser(form) {
				t.Errorf("%q does not name a user", form)
			}
		}
	}
}
