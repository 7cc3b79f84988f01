package docs

import (
	"cmp"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	codeSpan = regexp.MustCompile("`([^` ]+)`")
	codePath = regexp.MustCompile(`^[\w/-]+\.go$|^(caddymodule|cmd|docs|examples|integration|internal|mcpadapter|oagent|ocp|otcadapter|packaging|store|testdata|tools)(/[\w-]+)*$`)
)

// notPaths look like paths: methods of MCP, and names of files that many packages have.
var notPaths = []string{"tools/call", "tools/list", "doc.go", "handler.go", "caddyfile.go"}

// TestPages_for_contributors_name_files_that_exist checks the Go files and the packages that these pages name. A path
// is relative to the repository, or to a folder that the same line names before it.
func TestPages_for_contributors_name_files_that_exist(t *testing.T) {
	found := 0
	for _, p := range pages(t) {
		if !slices.Contains([]string{"CONTRIBUTING.md", "docs/architecture.md", "docs/three-changes.md"}, p.path) {
			continue
		}
		prose, _ := p.split()
		for i, line := range prose {
			folders := []string{"."}
			for _, span := range codeSpan.FindAllStringSubmatch(line, -1) {
				name := span[1]
				if !codePath.MatchString(name) || slices.Contains(notPaths, name) {
					continue
				}
				found++
				at := slices.IndexFunc(folders, func(folder string) bool {
					_, err := os.Stat(filepath.Join(root, folder, name))
					return err == nil
				})
				if at < 0 {
					t.Errorf("%s:%d: %s does not exist", p.path, i+1, name)
					continue
				}
				name = path.Join(folders[at], name)
				if strings.HasSuffix(name, ".go") {
					name = path.Dir(name)
				}
				folders = append(folders, name)
			}
		}
	}
	if found < 200 {
		t.Errorf("only %d files and packages were found", found)
	}
}

// TestContributing_names_each_package finds packages without a row in the tables of CONTRIBUTING.md. The guide to
// examples/extending has the packages below it.
func TestContributing_names_each_package(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{.Module.Path}}", root+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		name, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		name = strings.TrimPrefix(strings.TrimPrefix(name, module), "/")
		if name != "" && path.Dir(name) != "examples/extending" && !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("CONTRIBUTING.md does not name the package %s", name)
		}
	}
}

// goFile is the name of a Go file in a comment.
var goFile = regexp.MustCompile(`\b[a-z0-9_]+\.go\b`)

// TestPackage_comments_name_files_that_exist checks the files of its own package that a doc.go names.
func TestPackage_comments_name_files_that_exist(t *testing.T) {
	found := 0
	err := filepath.WalkDir(root, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() == "node_modules" {
			return cmp.Or(err, fs.SkipDir)
		}
		if entry.Name() != "doc.go" || at == filepath.Join(root, "caddymodule", "doc.go") { // which speaks of all directives
			return nil
		}
		text, err := os.ReadFile(at)
		for _, name := range goFile.FindAllString(string(text), -1) {
			found++
			if _, err := os.Stat(filepath.Join(filepath.Dir(at), name)); err != nil {
				t.Errorf("%s names %s, which does not exist", at, name)
			}
		}
		return err
	})
	if err != nil || found < 100 {
		t.Errorf("%d files were found: %v", found, err)
	}
}
