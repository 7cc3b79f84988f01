package structure_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// linkedLimits are the most lines of this repository that a build with one directive may link. A company that builds one directive, to
// review what it runs, has that much to read. Each limit is the goal; if a change needs more, look first for what can register itself.
var linkedLimits = map[string]int{
	"auth":   8_000,
	"login":  16_000,
	"otc":    52_000,
	"ocp":    56_000,
	"mcp":    60_000,
	"oagent": 74_000,
}

// linkedPages have a table with these lines, in rows that begin with the name of the directive's package.
var linkedPages = []string{"../../docs/decisions.md", "../../docs/install.md"}

// tolerance is by how much a figure of a page may be wrong, so that not each change of the code changes the pages.
const tolerance = 0.03

// linkedLines returns how many lines of code of this repository a build with the package links.
func linkedLines(t *testing.T, name string, lines map[string]int) (n int) {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "../../caddymodule/"+name).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if folder, own := strings.CutPrefix(path, module); own {
			n += lines[folder]
		}
	}
	return n
}

func TestDirectives_link_few_lines(t *testing.T) {
	lines := make(map[string]int)
	for _, s := range sources(t) {
		lines[s.folder] += s.code
	}
	pages := make([]string, len(linkedPages))
	for i, name := range linkedPages {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		pages[i] = string(text)
	}
	for name, limit := range linkedLimits {
		linked := linkedLines(t, name, lines)
		if linked > limit || linked < limit/4 {
			t.Errorf("%s links %d lines alone; the limit is %d", name, linked, limit)
		}
		row := regexp.MustCompile("(?m)^\\| `" + name + "` \\| ([0-9,]+) \\|")
		for i, page := range pages {
			found := row.FindStringSubmatch(page)
			if found == nil {
				t.Errorf("%s has no row of %s with its lines", linkedPages[i], name)
				continue
			}
			shown, _ := strconv.Atoi(strings.ReplaceAll(found[1], ",", ""))
			if difference := float64(shown-linked) / float64(linked); difference > tolerance || difference < -tolerance {
				t.Errorf("%s says that %s links %d lines; it links %d", linkedPages[i], name, shown, linked)
			}
		}
	}
}
