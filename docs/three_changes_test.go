package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// changes are the sections of three-changes.md, each with what names its example in the code.
var changes = []struct {
	heading string
	limit   int      // of places
	example string   // a regular expression
	folders []string // to search
	hints   []string // further files, which only make error messages better
}{
	{"An option of `mcp`", 4, `\bMaxStreams\b|\bmax_streams\b`, []string{"caddymodule", "mcpadapter"}, []string{"caddymodule/directive/subdirectives.go"}},
	{"A field of kept calls", 5, "Request +string +`json:\"request,omitzero\"`.*template of the inner|call\\.Request =|\\{\\{if \\.Request\\}\\}<dt>", []string{"caddymodule"}, nil},
	{"A method of MCP", 2, `"skills/get"|\bgetSkill\(`, []string{"mcpadapter", "caddymodule"}, nil},
	{"A guest", 2, `(?m)^package exchange$|credential/exchange"`, []string{"caddymodule", "tools", "mcpadapter"}, []string{"caddymodule/directive/packages.go"}},
}

// place is the first cell of a row.
var place = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// TestThree_changes_have_these_places compares the places of each change with the files of the product that name its example.
func TestThree_changes_have_these_places(t *testing.T) {
	text, err := os.ReadFile("three-changes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		_, section, found := strings.Cut(string(text), "\n## "+change.heading+"\n")
		if !found {
			t.Errorf("the page has no section %q", change.heading)
			continue
		}
		section, _, _ = strings.Cut(section, "\n## ")
		var places []string
		for _, row := range place.FindAllStringSubmatch(section, -1) {
			places = append(places, row[1])
		}
		if len(places) > change.limit {
			t.Errorf("%s has %d places, more than %d", change.heading, len(places), change.limit)
		}
		slices.Sort(places)
		named := filesNaming(t, change.example, change.folders)
		named = slices.DeleteFunc(named, func(file string) bool { return slices.Contains(change.hints, file) })
		for i, file := range named {
			if folder := filepath.ToSlash(filepath.Dir(file)); slices.Contains(places, folder) {
				named[i] = folder
			}
		}
		if named = slices.Compact(named); !slices.Equal(places, named) {
			t.Errorf("%s: the page has the places %v; the example is in %v", change.heading, places, named)
		}
	}
}

// filesNaming returns the files of the product with a text that matches the expression, in alphabetical order.
func filesNaming(t *testing.T, expression string, folders []string) (files []string) {
	t.Helper()
	search := regexp.MustCompile(expression)
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(at string, entry fs.DirEntry, err error) error {
			isProduct := strings.HasSuffix(at, ".html") || strings.HasSuffix(at, ".go") && !strings.HasSuffix(at, "_test.go")
			if err != nil || entry.IsDir() || !isProduct {
				return err
			}
			data, err := os.ReadFile(at)
			if err == nil && search.Match(data) {
				name, _ := filepath.Rel(root, at)
				files = append(files, filepath.ToSlash(name))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(files)
	return files
}
