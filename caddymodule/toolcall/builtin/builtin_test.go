package builtin

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/shared"
	"github.com/fairwayhq/fairway/internal/toolsearch"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// all are the kinds of built-in tools that search.
var all = []tool.Builtin{tool.SearchTools, tool.DescribeTools, tool.CallReadTool, tool.CallWriteTool}

func TestTools(t *testing.T) {
	for _, c := range []struct{ rule, operation, prefix string }{
		{"their own names", "list_items", ""},
		{"a document with a tool of such a name", "describe_tools", prefix},
	} {
		set, err := tool.Build([]byte(`{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{"/a":{"get":{"operationId":"`+c.operation+`"}}}}`), tool.BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range Tools(set, all...) {
			if b.Builtin != all[i] || b.Name != c.prefix+string(all[i]) {
				t.Errorf("%s: got tool %s of kind %q, want %s%s", c.rule, b.Name, b.Builtin, c.prefix, all[i])
			}
			if c.prefix != "" && strings.Contains(b.Description, " call_read_tool") {
				t.Errorf("%s: the description of %s names a tool without the prefix", c.rule, b.Name)
			}
			if read := b.Builtin != tool.CallWriteTool; b.ReadOnly() != read {
				t.Errorf("%s: ReadOnly of %s is %v, want %v", c.rule, b.Name, b.ReadOnly(), read)
			}
		}
	}
}

// github returns the tools of GitHub's document, with built-in ones.
func github(t *testing.T) *tool.Toolset {
	t.Helper()
	set, err := tool.Build(shared.Read(t, "openapi/github-api.github.com.json.gz"), tool.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	set.Finder = toolsearch.NewFinder(set.Tools())
	return set.With(Tools(set, all...)...)
}

func anyTool(*tool.Tool) bool { return true }

// run runs a built-in tool and decodes its answer.
func run[T any](t *testing.T, set *tool.Toolset, runs func(*tool.Toolset, *tool.Call, func(*tool.Tool) bool) *tool.Result,
	kind tool.Builtin, arguments string, allowed func(*tool.Tool) bool,
) (answer T, size int) {
	t.Helper()
	b, _ := set.Tool(string(kind))
	call, err := b.Bind([]byte(arguments))
	if err != nil {
		t.Fatalf("%s %s: %v", kind, arguments, err)
	}
	result := runs(set, call, allowed)
	if err := json.Unmarshal(result.Body, &answer); err != nil {
		t.Fatalf("%s %s: %v in %s", kind, arguments, err, result.Body)
	}
	return answer, len(result.Body)
}

type found struct {
	Tools []struct {
		Name, Kind, Summary string
		Required            []string
	}
	Hint string
}

func TestSearch(t *testing.T) {
	set := github(t)
	for _, c := range []struct {
		rule, arguments string
		allowed         func(*tool.Tool) bool
		first, kind     string
		most            int
	}{
		{"one query", `{"queries":"create an issue"}`, anyTool, "issues_create", kindWrite, defaultFound},
		{"several queries", `{"queries":["create an issue","open a new issue"],"limit":3}`, anyTool, "issues_create", kindWrite, 3},
		{"a list of one", `{"queries":["list the branches of a repository"],"limit":1}`, anyTool, "repos_list_branches", kindRead, 1},
		{"only allowed tools", `{"queries":"create an issue"}`, func(t *tool.Tool) bool { return t.ReadOnly() }, "", kindRead, defaultFound},
		{"nothing fits", `{"queries":"xyzzy"}`, anyTool, "", "", 0},
	} {
		answer, _ := run[found](t, set, Search, tool.SearchTools, c.arguments, c.allowed)
		if len(answer.Tools) > c.most || len(answer.Tools) == 0 && answer.Hint == "" {
			t.Errorf("%s: got %d tools and the hint %q, want at most %d tools", c.rule, len(answer.Tools), answer.Hint, c.most)
		}
		if c.first != "" && answer.Tools[0].Name != c.first {
			t.Errorf("%s: got %s first, want %s", c.rule, answer.Tools[0].Name, c.first)
		}
		for _, tool := range answer.Tools {
			if c.first == "" && tool.Kind != c.kind || tool.Name == c.first && tool.Kind != c.kind || tool.Summary == "" {
				t.Errorf("%s: got %+v, want the kind %s and a summary", c.rule, tool, c.kind)
			}
		}
	}
}

func TestDescribe(t *testing.T) {
	type description struct {
		Tools []struct {
			Name, Kind, Description string
			InputSchema             map[string]any
		}
		Omitted []string
		Unknown []struct {
			Name    string
			Similar []string
		}
	}
	set := github(t)
	answer, _ := run[description](t, set, Describe, tool.DescribeTools,
		`{"names":["issues_create","issue_create","repos_get","repos_get","call_read_tool"]}`, func(t *tool.Tool) bool { return t.Name != "repos_get" })
	if len(answer.Tools) != 2 || answer.Tools[0].Name != "issues_create" || answer.Tools[0].InputSchema["properties"] == nil || answer.Tools[1].Name != "call_read_tool" {
		t.Errorf("got the tools %+v, want issues_create with its schema, and call_read_tool", answer.Tools)
	}
	if len(answer.Unknown) != 3 || answer.Unknown[0].Name != "issue_create" || len(answer.Unknown[0].Similar) == 0 || answer.Unknown[0].Similar[0] != "issues_create" {
		t.Errorf("got unknown %+v, want issue_create, which is similar to issues_create, and repos_get, which is not allowed, twice", answer.Unknown)
	}

	var names []string
	for _, t := range set.Tools() {
		if len(t.InputSchema) > maxDescribed/8 {
			names = append(names, t.Name)
		}
	}
	if len(names) > 20 {
		names = names[:20]
	}
	list, _ := json.Marshal(map[string]any{"names": names})
	answer, size := run[description](t, set, Describe, tool.DescribeTools, string(list), anyTool)
	if size > maxDescribed+len(list)+100 || len(answer.Tools)+len(answer.Omitted) != len(names) {
		t.Errorf("%d tools give %d bytes, %d tools and %d omitted; want at most %d bytes and all names", len(names), size, len(answer.Tools), len(answer.Omitted), maxDescribed)
	}
	if len(answer.Tools) == 0 || len(answer.Omitted) == 0 {
		t.Errorf("%d tools are described and %d omitted, want some of both", len(answer.Tools), len(answer.Omitted))
	}
}
