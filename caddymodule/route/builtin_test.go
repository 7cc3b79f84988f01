package route

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/search"
)

// all are the kinds of built-in tools that search.
var all = []tools.Builtin{tools.SearchTools, tools.DescribeTools, tools.CallReadTool, tools.CallWriteTool}

func TestTools(t *testing.T) {
	for _, c := range []struct{ rule, operation, prefix string }{
		{"their own names", "list_items", ""},
		{"a document with a tool of such a name", "describe_tools", tools.BuiltinPrefix},
	} {
		set, err := tools.Build([]byte(`{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{"/a":{"get":{"operationId":"`+c.operation+`"}}}}`), tools.BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range BuiltinTools(set, all...) {
			if b.Builtin != all[i] || b.Name != c.prefix+string(all[i]) {
				t.Errorf("%s: got tool %s of kind %q, want %s%s", c.rule, b.Name, b.Builtin, c.prefix, all[i])
			}
			if c.prefix != "" && strings.Contains(b.Definition.Description, " call_read_tool") {
				t.Errorf("%s: the description of %s names a tool without the prefix", c.rule, b.Name)
			}
			if read := b.Builtin != tools.CallWriteTool; b.ReadOnly() != read {
				t.Errorf("%s: ReadOnly of %s is %v, want %v", c.rule, b.Name, b.ReadOnly(), read)
			}
		}
	}
}

// github returns the tools of GitHub's document, with built-in ones.
func github(t *testing.T) *tools.Toolset {
	t.Helper()
	set, err := tools.Build(testkit.ReadDocument(t, "openapi/github-api.github.com.json.gz"), tools.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	set.Finder = search.NewFinder(set.Tools())
	return set.With(BuiltinTools(set, all...)...)
}

func anyTool(*tools.Tool) bool { return true }

// run runs a built-in tool and decodes its answer.
func run[T any](t *testing.T, set *tools.Toolset, runs func(*tools.Toolset, *tools.Call, func(*tools.Tool) bool) *tools.Result,
	kind tools.Builtin, arguments string, allowed func(*tools.Tool) bool,
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

// describe runs describe_tools with a token of any scopes. It hides tools that are not allowed.
func describe(set *tools.Toolset, call *tools.Call, allowed func(*tools.Tool) bool) *tools.Result {
	return RunDescribe(set, call, nil, func(t *tools.Tool) bool { return !allowed(t) })
}

type found struct {
	Tools []struct {
		Name, Kind, Summary string
		API, Query          string
		Required            []string
		InputSchema         json.RawMessage
	}
	Hint string
}

func TestSearch(t *testing.T) {
	set := github(t)
	for _, c := range []struct {
		rule, arguments string
		allowed         func(*tools.Tool) bool
		first, kind     string
		most            int
	}{
		{"one query", `{"queries":"create an issue"}`, anyTool, "issues_create", kindWrite, defaultFound},
		{"several queries", `{"queries":["create an issue","merge a pull request"],"limit":3}`, anyTool, "issues_create", kindWrite, 3},
		{"a list of one", `{"queries":["list the branches of a repository"],"limit":1}`, anyTool, "repos_list_branches", kindRead, 1},
		{"only allowed tools", `{"queries":"create an issue"}`, func(t *tools.Tool) bool { return t.ReadOnly() }, "", kindRead, defaultFound},
		{"nothing fits", `{"queries":"xyzzy"}`, anyTool, "", "", 0},
	} {
		answer, _ := run[found](t, set, RunSearch, tools.SearchTools, c.arguments, c.allowed)
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

// TestSearch_several checks that the tools of several queries take turns, and that the best one of each
// has its schema.
func TestSearch_several(t *testing.T) {
	set := github(t)
	queries := []string{"close an issue", "list the commits of a branch", "merge a pull request", "star a repository"}
	list, _ := json.Marshal(map[string]any{"queries": queries})
	answer, _ := run[found](t, set, RunSearch, tools.SearchTools, string(list), anyTool)
	if len(answer.Tools) != defaultFound {
		t.Fatalf("got %d tools, want %d", len(answer.Tools), defaultFound)
	}
	for i, got := range answer.Tools {
		if i < len(queries) && got.Query != queries[i] {
			t.Errorf("tool %d is for %q, want %q", i, got.Query, queries[i])
		}
		best := i < len(queries)
		if small := len(got.InputSchema) <= maxBestSchema; got.InputSchema != nil != best || !small {
			t.Errorf("tool %d, %s: has a schema of %d bytes, want one for the best tools only, of at most %d bytes", i, got.Name, len(got.InputSchema), maxBestSchema)
		}
	}
}

// TestSearch_too_many_queries checks that the error names the limit only.
func TestSearch_too_many_queries(t *testing.T) {
	_, err := plain()[tools.SearchTools].Bind([]byte(`{"queries":["a","b","c","d","e","f"]}`))
	if err == nil || !strings.Contains(err.Error(), "5") || strings.Contains(err.Error(), "alternatives") {
		t.Errorf("got %v, want an error about the limit of 5, without the other alternative", err)
	}
}

// TestSearch_apis checks that each tool names its API if there are several.
func TestSearch_apis(t *testing.T) {
	part := func(name string) *tools.Toolset {
		set, err := tools.Build([]byte(`{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{"/secrets":{"post":{"operationId":"create_secret"}}}}`), tools.BuildOptions{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	set := tools.Join([]*tools.Toolset{part("vault"), part("cluster")}, [][]string{{"vault_create_secret"}, {"create_secret"}})
	set.Finder = search.NewJoinedFinder(set)
	set = set.With(BuiltinTools(set, all...)...)
	for _, api := range []string{"vault", "cluster"} {
		answer, _ := run[found](t, set, RunSearch, tools.SearchTools, `{"queries":"create a secret in `+api+`"}`, anyTool)
		if len(answer.Tools) != 2 || answer.Tools[0].API != api {
			t.Errorf("got %+v, want two tools, and first the one of %s", answer.Tools, api)
		}
	}
}

// TestDescribe_parts checks that a large schema is shortened, and that its parts are found by path.
func TestDescribe_parts(t *testing.T) {
	set, err := tools.Build(testkit.ReadDocument(t, "openapi/kubernetes-1.33-swagger-2.0.json.gz"), tools.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	set = set.With(BuiltinTools(set, all...)...)
	type description struct {
		Tools []struct {
			InputSchema, Schema json.RawMessage
			Shortened           bool
			Error               string
			Properties          []string
		}
	}
	describePart := func(path string) (first description) {
		arguments, _ := json.Marshal(map[string]any{"names": []string{"createAppsV1NamespacedDeployment"}, "path": path})
		answer, _ := run[description](t, set, describe, tools.DescribeTools, string(arguments), anyTool)
		if len(answer.Tools) != 1 {
			t.Fatalf("%s: got %d tools, want 1", path, len(answer.Tools))
		}
		return answer
	}
	if whole := describePart("").Tools[0]; !whole.Shortened || len(whole.InputSchema) > maxSchema {
		t.Errorf("the whole schema has %d bytes, shortened: %v; want at most %d, shortened", len(whole.InputSchema), whole.Shortened, maxSchema)
	}
	for path, property := range map[string]string{"spec/template/spec/containers": "imagePullPolicy", "spec/strategy/rollingUpdate": "maxSurge"} {
		if part := describePart(path).Tools[0]; !strings.Contains(string(part.Schema), `"`+property+`"`) || len(part.Schema) > maxSchema {
			t.Errorf("%s: got %.200s of %d bytes, want a schema with %s", path, part.Schema, len(part.Schema), property)
		}
	}
	if part := describePart("spec/templte").Tools[0]; part.Error == "" || !slices.Contains(part.Properties, "template") {
		t.Errorf("an unknown path: got the error %q and the properties %v, want template among them", part.Error, part.Properties)
	}
}

// TestDescribe_missing_scopes checks that describe_tools names the scopes that a token lacks, and does not
// describe the tool.
func TestDescribe_missing_scopes(t *testing.T) {
	set, err := tools.Build([]byte(`{"openapi":"3.1.0","info":{"title":"T","version":"1"},
		"components":{"securitySchemes":{"login":{"type":"oauth2","flows":{"clientCredentials":{"tokenUrl":"https://a.example","scopes":{"r":"","w":""}}}}}},
		"paths":{"/a":{"get":{"operationId":"read","security":[{"login":["r"]}]},"post":{"operationId":"write","security":[{"login":["r","w"]}]},
		"put":{"operationId":"hidden","security":[{"login":["w"]}]}}}}`), tools.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	set = set.With(BuiltinTools(set, all...)...)
	hidden := func(t *tools.Tool) bool { return t.Name == "hidden" }
	describe := func(set *tools.Toolset, call *tools.Call, _ func(*tools.Tool) bool) *tools.Result {
		return RunDescribe(set, call, &tools.Access{Scopes: []string{"r"}}, hidden)
	}
	type description struct {
		Tools, Unknown []struct{ Name string }
		Forbidden      []struct {
			Name          string
			MissingScopes []string
		}
	}
	answer, _ := run[description](t, set, describe, tools.DescribeTools, `{"names":["read","write","hidden"]}`, anyTool)
	if len(answer.Tools) != 1 || answer.Tools[0].Name != "read" {
		t.Errorf("got the tools %v, want read", answer.Tools)
	}
	if len(answer.Forbidden) != 1 || answer.Forbidden[0].Name != "write" || !slices.Equal(answer.Forbidden[0].MissingScopes, []string{"w"}) {
		t.Errorf("got forbidden %v, want write with the scope w", answer.Forbidden)
	}
	if len(answer.Unknown) != 1 || answer.Unknown[0].Name != "hidden" {
		t.Errorf("got unknown %v, want hidden", answer.Unknown)
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
	answer, _ := run[description](t, set, describe, tools.DescribeTools,
		`{"names":["issues_create","issue_create","repos_get","repos_get","call_read_tool"]}`, func(t *tools.Tool) bool { return t.Name != "repos_get" })
	if len(answer.Tools) != 2 {
		t.Fatalf("got the tools %+v, want 2", answer.Tools)
	}
	if first, second := answer.Tools[0], answer.Tools[1]; first.Name != "issues_create" || first.InputSchema["properties"] == nil || second.Name != "call_read_tool" {
		t.Errorf("got the tools %+v, want issues_create with its schema, and call_read_tool", answer.Tools)
	}
	if len(answer.Unknown) != 3 {
		t.Fatalf("got unknown %+v, want issue_create, and repos_get, which is not allowed, twice", answer.Unknown)
	}
	if u := answer.Unknown[0]; u.Name != "issue_create" || len(u.Similar) == 0 || u.Similar[0] != "issues_create" {
		t.Errorf("got unknown %+v, want issue_create, which is similar to issues_create", u)
	}

	var names []string
	for _, t := range set.Tools() {
		if len(t.Definition.InputSchema) > maxDescribed/16 {
			names = append(names, t.Name)
		}
	}
	if len(names) > 20 {
		names = names[:20]
	}
	list, _ := json.Marshal(map[string]any{"names": names})
	answer, size := run[description](t, set, describe, tools.DescribeTools, string(list), anyTool)
	if size > maxDescribed+len(list)+100 || len(answer.Tools)+len(answer.Omitted) != len(names) {
		t.Errorf("%d tools give %d bytes, %d tools and %d omitted; want at most %d bytes and all names", len(names), size, len(answer.Tools), len(answer.Omitted), maxDescribed)
	}
	if len(answer.Tools) == 0 || len(answer.Omitted) == 0 {
		t.Errorf("%d tools are described and %d omitted, want some of both", len(answer.Tools), len(answer.Omitted))
	}
}
