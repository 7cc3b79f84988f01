package mcpadapter

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/build"
)

// A selector that matches nothing is reported, with the nearest match.
func TestSelectorWarnings(t *testing.T) {
	const document = `
openapi: 3.1.0
info: {title: Stations, version: "1"}
paths:
  /stations:
    get: {operationId: list_stations, tags: [stations], responses: {'200': {description: all}}}
    post: {operationId: add_station, tags: [changes], responses: {'200': {description: added}}}
`
	toolset := buildTools(t, document, tools.BuildOptions{Name: "stations"})
	page := filepath.Join(writeFiles(t, map[string]string{"a.html": "x"}), "a.html")
	lib, err := library.NewLibrary(library.LibraryOptions{
		Operations: []build.Selector{
			{By: "tag", Value: "stations"},
			{By: "tag", Value: "station"},
			{By: "tag", Value: "changes"},
			{By: "operation", Value: "list_station"},
			{By: "path", Value: "/sations"},
			{By: "path", Value: "/*"},
			{By: "method", Value: "PUT"},
		},
		Apps: []library.App{{URI: "ui://a/a.html", File: page, Tools: []string{"list_station", "zzzzzzzzzzzz"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := New(Options{})
	server.SetLibrary(lib)
	var got []string
	for _, w := range server.Warnings(toolset) {
		got = append(got, w.Reason)
	}
	want := []struct{ words, nearest string }{
		{"resources: tag station", "stations"},
		{"resources: tag changes", ""},
		{"resources: operation list_station", "list_stations"},
		{"resources: path /sations", "/stations"},
		{"resources: method PUT", "GET"},
		{"app ui://a/a.html list_station", "list_stations"},
		{"app ui://a/a.html zzzzzzzzzzzz", ""},
	}
	if len(got) != len(want) {
		t.Fatalf("got %d warnings, want %d: %q", len(got), len(want), got)
	}
	for i, c := range want {
		if !testkit.ContainsAll(got[i], c.words+" "+c.nearest) || strings.HasSuffix(got[i], "?") != (c.nearest != "") {
			t.Errorf("got %q, want the words %s and the suggestion %q", got[i], c.words, c.nearest)
		}
	}
}
