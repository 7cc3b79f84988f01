package docs

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"

	_ "github.com/fairwayhq/fairway/examples/extending/chatroom"
	_ "github.com/fairwayhq/fairway/examples/extending/echo"
	_ "github.com/fairwayhq/fairway/examples/extending/memory"
	_ "github.com/fairwayhq/fairway/examples/extending/officehours"
	_ "github.com/fairwayhq/fairway/examples/extending/tokenserver"
)

// TestExtending_page checks that the page has or links the module of each package, that each Go block is the module of its
// package, that no package imports what a third party cannot, and that each Caddyfile becomes the JSON that follows it.
func TestExtending_page(t *testing.T) {
	data, err := os.ReadFile("extending.md")
	if err != nil {
		t.Fatal(err)
	}
	_, found := page{"extending.md", strings.Split(string(data), "\n")}.split()
	configurations := 0
	modules := make(map[string]bool) // by name of the package
	for _, linked := range regexp.MustCompile(`\(\.\./examples/extending/(\w+)/module\.go\)`).FindAllStringSubmatch(string(data), -1) {
		modules[linked[1]] = true
	}
	var adapted any
	for _, b := range found {
		switch b.language {
		case "go":
			name := regexp.MustCompile(`(?m)^package (\w+)$`).FindStringSubmatch(b.text)
			if name == nil {
				t.Fatalf("extending.md:%d: the code has no package", b.line)
			}
			modules[name[1]] = true
			want, err := os.ReadFile(filepath.Join(root, "examples", "extending", name[1], "module.go"))
			if err != nil || strings.TrimSpace(b.text) != strings.TrimSpace(string(want)) {
				t.Errorf("extending.md:%d: the code is not that of examples/extending/%s/module.go, %v", b.line, name[1], err)
			}
		case "caddyfile":
			text := b.text
			if !strings.HasPrefix(text, "{") {
				text = ":80 {\n" + text + "}\n"
			}
			config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
			if err != nil {
				t.Fatalf("extending.md:%d: %v", b.line, err)
			}
			if err := json.Unmarshal(config, &adapted); err != nil {
				t.Fatal(err)
			}
		case "json":
			configurations++
			var want map[string]any
			if err := json.Unmarshal([]byte(b.text), &want); err != nil {
				t.Fatal(err)
			}
			if !contains(adapted, want) {
				t.Errorf("extending.md:%d: the Caddyfile does not become this JSON", b.line)
			}
		}
	}
	packages, err := filepath.Glob(filepath.Join(root, "examples", "extending", "*", "module.go"))
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) != 5 || len(modules) != 5 || configurations != 5 {
		t.Errorf("%d packages, %d modules and %d configurations, want 5 of each", len(packages), len(modules), configurations)
	}
	files, err := filepath.Glob(filepath.Join(root, "examples", "extending", "*", "*.go"))
	if err != nil || len(files) < len(modules) {
		t.Fatalf("files %q, %v", files, err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range parsed.Imports {
			if path, _ := strconv.Unquote(imported.Path.Value); strings.Contains(path, "/internal/") {
				t.Errorf("%s imports %s, which a third party cannot", file, path)
			}
		}
	}
}

// contains reports whether a JSON tree has an object, anywhere, that has all members of want.
func contains(tree any, want map[string]any) bool {
	switch tree := tree.(type) {
	case map[string]any:
		if includes(tree, want) {
			return true
		}
		for _, member := range tree {
			if contains(member, want) {
				return true
			}
		}
	case []any:
		for _, item := range tree {
			if contains(item, want) {
				return true
			}
		}
	}
	return false
}

// includes reports whether an object has all members of want. Members of objects may be missing in want.
func includes(got, want map[string]any) bool {
	for name, value := range want {
		wanted, isObject := value.(map[string]any)
		object, _ := got[name].(map[string]any)
		if isObject && !includes(object, wanted) || !isObject && !reflect.DeepEqual(got[name], value) {
			return false
		}
	}
	return true
}
