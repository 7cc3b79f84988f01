package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestGoBlocks compiles the Go code of all pages. A block is a whole file; it may leave out the package clause. The
// modules of extending.md are parts of packages that TestExtending_page compares them with.
func TestGoBlocks(t *testing.T) {
	packageClause := regexp.MustCompile(`(?m)^package \w+$`)
	replaced := map[string]string{} // files that do not exist in the repository, and their content
	build := []string{"build", "-o", os.DevNull, "-overlay"}
	packages, place := []string{}, map[string]string{}
	for _, b := range blocks(t, "go") {
		text := b.text
		if packageClause.MatchString(text) && b.page == "docs/extending.md" {
			continue
		}
		if !packageClause.MatchString(text) {
			text = "package example\n" + text
		}
		name := fmt.Sprintf("block%d", len(packages)+1)
		file := filepath.Join(t.TempDir(), name+".go")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		virtual, err := filepath.Abs(filepath.Join("markdown", name, "example.go"))
		if err != nil {
			t.Fatal(err)
		}
		replaced[virtual] = file
		packages = append(packages, "./markdown/"+name)
		place[name] = fmt.Sprintf("%s:%d", b.page, b.line)
	}
	if len(packages) == 0 {
		t.Fatal("no page has Go code")
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), "go", append(append(build, file), packages...)...).CombinedOutput()
	if err != nil {
		t.Errorf("the code of pages does not compile: %v\n%s\nblocks: %v", err, output, place)
	}
}
