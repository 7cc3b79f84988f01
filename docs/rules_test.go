package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// ruleRow is a row of the rules of OpenAgentSpec: a number, and the test that has a case for it.
var ruleRow = regexp.MustCompile("(?m)^\\| `((?:names|agent|engagement|server)/[0-9.]+)` \\| .+ \\| `(Test\\w+)` \\|$")

// testRow is a row of these tests: the name, and the folder of the package.
var testRow = regexp.MustCompile("(?m)^\\| `(Test\\w+)` \\| `([a-z/]+)` \\|")

// TestRules_have_the_tests_that_the_page_names also checks that the page has all rules that the tests have.
func TestRules_have_the_tests_that_the_page_names(t *testing.T) {
	data, err := os.ReadFile("agent-documents.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	sources := make(map[string]string) // of the tests of the package, by name of the test
	all := ""
	for _, row := range testRow.FindAllStringSubmatch(page, -1) {
		files, err := filepath.Glob(filepath.Join(root, row[2], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sources[row[1]] += string(source)
		}
		if !strings.Contains(sources[row[1]], "func "+row[1]+"(t *testing.T)") {
			t.Errorf("there is no test %s in %s", row[1], row[2])
		}
		all += sources[row[1]]
	}
	named := make(map[string]bool)
	for _, row := range ruleRow.FindAllStringSubmatch(page, -1) {
		named[row[1]] = true
		if !strings.Contains(sources[row[2]], `"`+row[1]+" ") {
			t.Errorf("%s has no case for the rule %s", row[2], row[1])
		}
	}
	for _, used := range regexp.MustCompile(`"((?:names|agent|engagement|server)/[0-9.]+) `).FindAllStringSubmatch(all, -1) {
		if !named[used[1]] {
			t.Errorf("the page has no rule %s, which a test has", used[1])
			named[used[1]] = true
		}
	}
	if len(named) < 40 {
		t.Errorf("the page has only %d rules", len(named))
	}
}
