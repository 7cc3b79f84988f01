package client

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools"
)

// TestDocument_has_one_tool_for_each_name: a second one could not be called.
func TestDocument_has_one_tool_for_each_name(t *testing.T) {
	d := &discovery{Warnings: []string{"earlier"}}
	for _, definition := range []string{
		`{"name":"a","description":"first"}`, `{"name":"a","description":"second"}`, `{"name":""}`, `{"description":"none"}`, `{"name":null}`, `5`, `{"name":"A"}`,
	} {
		d.Tools = append(d.Tools, jsontext.Value(definition))
	}
	document := jsontext.Value(d.Document("s", false))
	var names []string
	for walk := strictjson.Into(strictjson.MemberOf(document, "paths")); walk.Next(); {
		names = append(names, strictjson.Text(strictjson.MemberOf(strictjson.MemberOf(walk.Value, "post"), "operationId")))
	}
	if got := strings.Join(names, " "); got != "a A" || strings.Contains(string(document), "second") {
		t.Errorf("the document has the tools %s", got)
	}
	warnings := 0
	for walk := strictjson.Into(strictjson.MemberOf(document, tools.ExtensionForeignWarnings)); walk.Next(); {
		warnings++
	}
	if warnings != 6 {
		t.Errorf("got %d warnings", warnings)
	}
}
