package lock

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
)

const served = `{"openapi":"3.1.0","info":{"title":"Calculator","version":"1","description":"Adds numbers."},"paths":{"/calc/add":{"post":{"operationId":"add","summary":"Add",` +
	`"description":"Adds.","responses":{},"x-mcp-server-kind":"tool","x-mcp-server":{"name":"add","title":"Add","description":"Adds.","inputSchema":{"type":"object","properties":{"a":{"type":"number"}}},` +
	`"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"icons":[{"src":"https://example.com/a.png"}],"_meta":{"ui":{"resourceUri":"ui://a"}}}}}}}`

func buildForeign(t testing.TB, document string) *tools.Toolset {
	t.Helper()
	set, err := tools.Build([]byte(document), tools.BuildOptions{Foreign: true, DescriptionTokens: -1})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestCompare_finds_every_change_of_a_server changes each part of what a server says.
func TestCompare_finds_every_change_of_a_server(t *testing.T) {
	pinned, text := written(t, buildForeign(t, served))
	if changes := pinned.Compare(buildForeign(t, strings.Replace(served, `"name":"add","title":"Add"`, `"title":"Add","name":"add"`, 1))); len(changes) != 0 {
		t.Errorf("another order of members is a change: %+v", changes)
	}
	for _, change := range []struct{ was, now, lines string }{
		{`"description":"Adds.","inputSchema"`, `"description":"Adds. Evil.","inputSchema"`, "+ description Evil"},
		{`"title":"Add","description"`, `"title":"Evil","description"`, "+ title Evil"},
		{`{"type":"number"}`, `{"type":"number","description":"evil"}`, "argument inputSchema evil"},
		{`"outputSchema":{"type":"object"}`, `"outputSchema":{"type":"object","description":"evil"}`, "outputSchema evil"},
		{`{"readOnlyHint":true}`, `{"readOnlyHint":false}`, "- annotations + annotations false"},
		{`a.png`, `b.png`, "- icons + icons b.png"},
		{`"ui://a"`, `"ui://b"`, "_meta ui://b"},
		{`"_meta":{"ui"`, `"extra":{"ui"`, "- _meta + extra"},
		{`"description":"Adds numbers."`, `"description":"Evil."`, "- instructions Adds + Evil"},
		{`"title":"Calculator"`, `"title":"Evil"`, "- title Calculator + Evil"},
	} {
		set := buildForeign(t, strings.Replace(served, change.was, change.now, 1))
		changes := pinned.Compare(set)
		if len(changes) != 1 || changes[0].Kind != Changed {
			t.Errorf("%s: %+v", change.now, changes)
			continue
		}
		if lines := strings.Join(changes[0].Lines, "\n"); !testkit.ContainsAll(lines, change.lines) {
			t.Errorf("%s:\n%s\nwant %s", change.now, lines, change.lines)
		}
		if left := pinned.Approve(Of(set), []string{changes[0].Tool}).Compare(set); len(left) != 0 {
			t.Errorf("after the approval there are %+v", left)
		}
		if Of(set).Digest(changes) == Of(buildForeign(t, served)).Digest(changes) {
			t.Errorf("%s: the digest of the changes does not depend on the current text", change.now)
		}
	}
	if !strings.Contains(text, "\ninstructions: Adds numbers.\n") || !strings.Contains(text, `readOnlyHint`) {
		t.Error(text)
	}
}
