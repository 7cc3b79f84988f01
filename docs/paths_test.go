package docs

import (
	"os"
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
		if p.path != "CONTRIBUTING.md" && p.path != "docs/architecture.md" {
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
