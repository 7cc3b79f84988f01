package tools_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/tools"
)

const shop = `{"openapi":"3.1.0","info":{"title":"Shop","version":"1"},"paths":{
	"/items":{"get":{"operationId":"list_items"},"post":{"operationId":"create_item","parameters":[{"name":"label","in":"query","required":true,"schema":{"type":"string"}}]}},
	"/items/{id}":{"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"}}],"get":{"operationId":"get_item"},"delete":{"operationId":"delete_item"}}}}`

const gateway = `{"openapi":"3.1.0","info":{"title":"Gateway","version":"1"},"paths":{
	"/next":{"get":{"operationId":"next_page"}},"/search":{"get":{"operationId":"search_tools"}},
	"/read":{"get":{"operationId":"call_read_tool","parameters":[{"name":"name","in":"query","required":true,"schema":{"type":"string"}},{"name":"arguments","in":"query","schema":{"type":"object"}}]}},
	"/write":{"post":{"operationId":"call_write_tool","parameters":[{"name":"name","in":"query","required":true,"schema":{"type":"string"}},{"name":"arguments","in":"query","schema":{"type":"object"}}]}}}}`

// withGateway returns the shop's tools with built-in tools.
func withGateway(t *testing.T) *tools.Toolset {
	t.Helper()
	set, err := tools.Build([]byte(shop), tools.BuildOptions{Name: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	builtins, err := tools.Build([]byte(gateway), tools.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range builtins.Tools() {
		b.Builtin = tools.Builtin(b.Definition.OperationID)
	}
	return set.With(builtins.Tools()...)
}

func names(toolset []*tools.Tool) string {
	var all []string
	for _, t := range toolset {
		all = append(all, t.Name)
	}
	return strings.Join(all, " ")
}

func TestToolset_lists(t *testing.T) {
	set := withGateway(t)
	brief := set.Listing("get_item", "gone", "list_items")
	for _, c := range []struct {
		rule      string
		got, want string
	}{
		{"built-in tools are not of the document", names(set.Tools()), "list_items create_item get_item delete_item"},
		{"next_page is last", names(set.Listed()), "search_tools call_read_tool call_write_tool list_items create_item get_item delete_item next_page"},
		{"chosen tools in their order", names(brief.Listed()), "search_tools call_read_tool call_write_tool get_item list_items next_page"},
		{"Only keeps built-in tools and the choice", names(brief.Only(func(t *tools.Tool) bool { return t.Name != "get_item" }).Listed()), "search_tools call_read_tool call_write_tool list_items next_page"},
		{"FilledBy keeps them", names(brief.FilledBy(func(_ *tools.Tool, a *tools.Argument) bool { return a.Name == "label" }).Listed()), "search_tools call_read_tool call_write_tool get_item list_items next_page"},
		{"nothing chosen", names(set.Listing().Listed()), "search_tools call_read_tool call_write_tool next_page"},
	} {
		if c.got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.rule, c.got, c.want)
		}
	}
	if _, ok := brief.Tool("delete_item"); !ok {
		t.Error("a tool that is not listed cannot be found by its name")
	}
	if set.Hash == brief.Hash {
		t.Error("toolsets with different lists have the same Hash")
	}
}

func TestToolset_Resolve(t *testing.T) {
	set := withGateway(t).Listing()
	allowed := func(t *tools.Tool) bool { return t.Name != "create_item" }
	for _, c := range []struct {
		rule, tool, arguments string
		called, own           string // if it is resolved
		kind                  tools.FailureKind
		mentions              string
	}{
		{rule: "an ordinary tool", tool: "get_item", arguments: `{"id":"1"}`, called: "get_item", own: `{"id":"1"}`},
		{rule: "reading", tool: "call_read_tool", arguments: `{"name":"get_item","arguments":{"id":"1"}}`, called: "get_item", own: `{"id":"1"}`},
		{rule: "no arguments", tool: "call_read_tool", arguments: `{"name":"list_items"}`, called: "list_items"},
		{rule: "writing", tool: "call_write_tool", arguments: `{"arguments":{"id":"1"},"name":"delete_item"}`, called: "delete_item", own: `{"id":"1"}`},
		{rule: "reading is allowed to writers", tool: "call_write_tool", arguments: `{"name":"list_items"}`, called: "list_items"},
		{rule: "escapes and null", tool: "call_read_tool", arguments: `{"name":"get\u005fitem","arguments":null}`, called: "get_item"},
		{rule: "another built-in tool", tool: "call_read_tool", arguments: `{"name":"search_tools"}`, called: "search_tools"},
		{rule: "writing with the tool that reads", tool: "call_read_tool", arguments: `{"name":"delete_item"}`, kind: tools.InvalidArguments, mentions: "call_write_tool"},
		{rule: "itself", tool: "call_read_tool", arguments: `{"name":"call_read_tool"}`, kind: tools.InvalidArguments, mentions: "arguments"},
		{rule: "the tool that writes", tool: "call_read_tool", arguments: `{"name":"call_write_tool","arguments":{"name":"delete_item"}}`, kind: tools.InvalidArguments, mentions: "arguments"},
		{rule: "a tool that writes and is not allowed, which the caller refuses", tool: "call_read_tool", arguments: `{"name":"create_item"}`, called: "create_item"},
		{rule: "unknown tool", tool: "call_read_tool", arguments: `{"name":"getitem"}`, kind: tools.UnknownTool, mentions: "get_item"},
		{rule: "no name", tool: "call_read_tool", arguments: `{}`, kind: tools.InvalidArguments, mentions: "name"},
		{rule: "arguments that are no object", tool: "call_read_tool", arguments: `{"name":"get_item","arguments":[]}`, kind: tools.InvalidArguments, mentions: "arguments"},
		{rule: "a list", tool: "call_read_tool", arguments: `["get_item"]`, kind: tools.InvalidArguments, mentions: "object"},
		{rule: "a list as name", tool: "call_read_tool", arguments: `{"name":[]}`, kind: tools.InvalidArguments, mentions: "name"},
		{rule: "arguments as JSON text", tool: "call_read_tool", arguments: `{"name":"get_item","arguments":"{\"id\":\"1\"}"}`, called: "get_item", own: `{"id":"1"}`},
		{rule: "arguments beside the name", tool: "call_read_tool", arguments: `{"name":"get_item","id":"1"}`, kind: tools.InvalidArguments, mentions: "id"},
	} {
		outer, _ := set.Tool(c.tool)
		called, own, failure := set.Resolve(outer, []byte(c.arguments), allowed)
		switch {
		case c.kind == "" && failure != nil:
			t.Errorf("%s: got failure %v, want %s", c.rule, failure, c.called)
		case c.kind == "" && (called.Name != c.called || string(own) != c.own):
			t.Errorf("%s: got %s %s, want %s %s", c.rule, called.Name, own, c.called, c.own)
		case c.kind != "" && failure == nil:
			t.Errorf("%s: got %s, want a failure", c.rule, called.Name)
		case c.kind != "" && (failure.Kind != c.kind || !strings.Contains(failure.Message, c.mentions)):
			t.Errorf("%s: got %s %q, want %s that mentions %q", c.rule, failure.Kind, failure.Message, c.kind, c.mentions)
		}
	}
	if similar := set.Similar("create_itm", allowed); slices.Contains(similar, "create_item") {
		t.Errorf("a tool that is not allowed is suggested: %v", similar)
	}
}

// TestToolset_Resolve_annotation checks that the annotation of a tool decides whether it only reads.
func TestToolset_Resolve_annotation(t *testing.T) {
	set := withGateway(t)
	read, _ := set.Tool("call_read_tool")
	anyTool := func(*tools.Tool) bool { return true }
	for name, reads := range map[string]bool{"create_item": true, "list_items": false} {
		annotated, _ := set.Tool(name)
		annotated.Definition.Annotations = map[string]bool{"readOnlyHint": reads}
		if _, _, failure := set.Resolve(read, []byte(`{"name":"`+name+`"}`), anyTool); (failure == nil) != reads {
			t.Errorf("%s with readOnlyHint %t: got failure %v", name, reads, failure)
		}
	}
}
