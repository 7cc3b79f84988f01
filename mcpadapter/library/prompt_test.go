package library

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/tools"
)

func FuzzReadPrompts(f *testing.F) {
	for _, name := range []string{"trains.yaml", "trains.json"} {
		data, err := os.ReadFile("../../testdata/prompts/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		prompts, err := ReadPrompts(data, func(string) ([]byte, error) { return []byte("x"), nil })
		if err != nil {
			return
		}
		if _, err := NewLibrary(LibraryOptions{Prompts: prompts}); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzParseTemplate(f *testing.F) {
	f.Add("a {{b}} {{{{c}}", "{{b}}")
	f.Fuzz(func(t *testing.T, source, value string) {
		template, err := ParseTemplate(source)
		if err != nil {
			return
		}
		values := make(map[string]string)
		for _, name := range template.names() {
			values[name] = value
		}
		if got := template.Fill(values); len(got) != template.Size(values) {
			t.Fatalf("%q has %d bytes, not %d", got, len(got), template.Size(values))
		}
	})
}

// TestIndex_names_of_several_sources gives a prompt of an MCP server its plain name only if its tool has one, whatever the
// server lists later, and never that of a document's prompt.
func TestIndex_names_of_several_sources(t *testing.T) {
	of := func(name string, foreign bool, operations string) *tools.Toolset {
		set, err := tools.Build([]byte(`{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{`+operations+`}}`), tools.BuildOptions{Name: name, Foreign: foreign})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	const (
		document = `"/review":{"get":{"operationId":"review","x-mcp":{"prompt":{"name":"review"}}}}`
		review   = `"/1":{"post":{"operationId":"prompt_review","x-mcp-server-kind":"prompt","x-mcp-server":{"name":"review"},"x-mcp":{"tool":false,"prompt":{"name":"review"}}}}`
		plan     = `"/2":{"post":{"operationId":"prompt_plan","x-mcp-server-kind":"prompt","x-mcp-server":{"name":"plan"},"x-mcp":{"tool":false,"prompt":{"name":"plan"}}}}`
	)
	merger, err := tools.NewMerger(tools.MergeOptions{Prefixes: []string{"files", "mail", "api"}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLibrary(LibraryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mail, api := of("mail", true, plan), of("api", false, document)
	for _, c := range []struct{ files, want string }{
		{review, "files_review plan review"},
		{review + "," + plan, "files_plan files_review mail_plan review"},
	} {
		index := NewIndex(l, merger.Merge(of("files", true, c.files), mail, api), nil)
		if got := strings.Join(slices.Sorted(maps.Keys(index.ByName)), " "); got != c.want {
			t.Errorf("got the prompts %s, want %s", got, c.want)
		}
	}
}
