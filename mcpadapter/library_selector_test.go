package mcpadapter

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// A selector that matches nothing is reported, with the nearest match.
func TestSelectorsThatChooseNothingAreWarnedAbout(t *testing.T) {
	const document = `
openapi: 3.1.0
info: {title: Stations, version: "1"}
paths:
  /stations:
    get: {operationId: list_stations, tags: [stations], responses: {'200': {description: all}}}
    post: {operationId: add_station, tags: [changes], responses: {'200': {description: added}}}
`
	tools := build(t, document, tool.BuildOptions{Name: "stations"})
	page := filepath.Join(writeFiles(t, map[string]string{"a.html": "x"}), "a.html")
	library, err := library.NewLibrary(library.LibraryOptions{
		Operations: []tool.Selector{
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
	server.SetLibrary(library)
	var got []string
	for _, w := range server.Warnings(tools) {
		got = append(got, w.Reason)
	}
	want := []string{
		"resources: tag station chooses no GET operation of the document; did you mean stations?",
		"resources: tag changes chooses no GET operation of the document",
		"resources: operation list_station chooses no GET operation of the document; did you mean list_stations?",
		"resources: path /sations chooses no GET operation of the document; did you mean /stations?",
		"resources: method PUT chooses no GET operation of the document",
		"app ui://a/a.html is for the tool list_station, which the document does not have; did you mean list_stations?",
		"app ui://a/a.html is for the tool zzzzzzzzzzzz, which the document does not have",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
