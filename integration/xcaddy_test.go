package integration

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestXcaddy_builds_when_sources_change runs a copy of xcaddy.sh with a Go command that notes what it
// would build.
func TestXcaddy_builds_when_sources_change(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the script is for a POSIX shell")
	}
	dir, bin, folder := t.TempDir(), t.TempDir(), t.TempDir()
	script, err := os.ReadFile("../xcaddy.sh")
	if err != nil {
		t.Fatal(err)
	}
	write := func(path, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil { //nolint:gosec // programs
			t.Fatal(err)
		}
	}
	later := func(path string) {
		t.Helper()
		at := time.Now().Add(time.Hour)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	notes := filepath.Join(bin, "notes")
	write(filepath.Join(dir, "xcaddy.sh"), string(script))
	write(filepath.Join(dir, "main.go"), "package main\n")
	sources := []string{filepath.Join(dir, "main.go"), filepath.Join(folder, "guest.go")}
	for _, path := range embeddedFiles(t) {
		path = filepath.Join(dir, path)
		write(path, "")
		sources = append(sources, path)
	}
	write(filepath.Join(folder, "guest.go"), "package guest\n")
	write(filepath.Join(bin, "go"), `#!/bin/sh
case $1 in list) echo v2.0.0; exit ;; esac
echo "$*" >>'`+notes+`'
while [ "$1" != --output ]; do shift; done
printf '#!/bin/sh\n' >"$2" && chmod +x "$2"
`)
	run := func(arguments ...string) (built string) {
		t.Helper()
		if err := os.RemoveAll(notes); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", append([]string{filepath.Join(dir, "xcaddy.sh")}, arguments...)...)
		cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "OUTPUT=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", arguments, err, out)
		}
		text, _ := os.ReadFile(notes)
		return string(text)
	}
	mustBuild := func(what, built string, with ...string) {
		t.Helper()
		if built == "" {
			t.Errorf("%s: not built", what)
		}
		if n := strings.Count(built, "--with "); n != 1+len(with) {
			t.Errorf("%s: %d modules: %s", what, n, built)
		}
		for _, module := range with {
			if !strings.Contains(built, "--with "+module) {
				t.Errorf("%s: built without %s: %s", what, module, built)
			}
		}
	}
	mustNotBuild := func(what, built string) {
		t.Helper()
		if built != "" {
			t.Errorf("%s: built again: %s", what, built)
		}
	}

	mustBuild("first command", run("version"))
	mustNotBuild("second command", run("version"))
	mustBuild("another module", run("--with", "example.com/limit@v1.2.0", "--with", "example.com/guest@v0.0.0="+folder, "version"), "example.com/limit@v1.2.0", "example.com/guest")
	mustNotBuild("a command after --with", run("list-modules"))

	write(filepath.Join(dir, "myconf", "Caddyfile"), "")
	write(filepath.Join(dir, "README.md"), "")
	write(filepath.Join(dir, "main_test.go"), "package main\n")
	write(filepath.Join(dir, "docs", "docs_test.go"), "package docs\n")
	later(filepath.Join(dir, "main_test.go"))
	mustNotBuild("files that are not sources", run("version"))

	write(filepath.Join(dir, "more", "more.go"), "package more\n")
	mustBuild("a new Go file", run("version"), "example.com/limit@v1.2.0", "example.com/guest")
	if err := os.Remove(filepath.Join(dir, "more", "more.go")); err != nil {
		t.Fatal(err)
	}
	mustBuild("a removed Go file", run("version"), "example.com/limit@v1.2.0", "example.com/guest")
	for _, path := range sources {
		later(path)
		mustBuild("changed "+path, run("version"), "example.com/limit@v1.2.0", "example.com/guest")
		now := time.Now().Add(-time.Hour)
		if err := os.Chtimes(path, now, now); err != nil {
			t.Fatal(err)
		}
	}
	mustNotBuild("nothing changed", run("version"))
	mustBuild("without arguments", run())
	mustNotBuild("a command after that", run("version"))
}

// embeddedFiles returns one path for each pattern of go:embed in the product, relative to the repository.
func embeddedFiles(t *testing.T) (paths []string) {
	t.Helper()
	pattern := regexp.MustCompile(`(?m)^//go:embed (\S+)$`)
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			switch entry.Name() {
			case ".git", "testdata", "node_modules", "benchmarks", "docs", "integration", "examples":
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		data, err := fs.ReadFile(root, name)
		for _, match := range pattern.FindAllSubmatch(data, -1) {
			file := strings.ReplaceAll(string(match[1]), "*", "any")
			if filepath.Ext(file) == "" {
				file += "/any.js" // a folder
			}
			paths = append(paths, filepath.Join(filepath.Dir(filepath.FromSlash(name)), filepath.FromSlash(file)))
		}
		return err
	})
	if err != nil || len(paths) == 0 {
		t.Fatalf("embedded files: %v, %v", paths, err)
	}
	return paths
}
