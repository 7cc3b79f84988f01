package directive

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/standard"
)

// TestSubdirectives_lists_are_complete compares the lists with the source of the parsers that have no table of options.
func TestSubdirectives_lists_are_complete(t *testing.T) {
	listed := make(map[string]bool)
	for _, names := range subdirectives {
		for _, name := range names {
			listed[name] = true
		}
	}
	files, err := filepath.Glob("../*/*caddyfile.go")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	parser := regexp.MustCompile(`(?ms)^func \([^)]*\) [uU]nmarshal\w*\(\w+ \*directive\.Block\).*?^}`)
	options := regexp.MustCompile(`switch b\.Val\(\) \{(?s:.*)`)
	cases := regexp.MustCompile(`(?m)^\t{1,2}case ((?:"\w+"(?:, )?)+):`)
	found := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, function := range parser.FindAllString(string(source), -1) {
			for _, match := range cases.FindAllStringSubmatch(options.FindString(function), -1) {
				for name := range strings.SplitSeq(strings.ReplaceAll(match[1], `"`, ""), ", ") {
					found++
					if !listed[name] && !slices.Contains([]string{"on", "off"}, name) {
						t.Errorf("%s: %s is in none of the lists of subdirectives.go", file, name)
					}
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("found only %d options in the source", found)
	}
}
