package agentset

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/tools"
)

// tripTools builds a toolset whose only tool has an argument of that name.
func tripTools(t *testing.T, argument string) *tools.Toolset {
	t.Helper()
	set, err := tools.Build([]byte(`{"openapi":"3.1.0","info":{"title":"Trips","version":"1"},"paths":{"/trips":{"get":{"operationId":"getTrip",
		"parameters":[{"name":"`+argument+`","in":"query","schema":{"type":"string"}}],"responses":{"200":{"description":""}}}}}}`), tools.BuildOptions{Name: "trips"})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestLint_is_computed_once checks that the faults of a document are computed by the first call only, and again
// when the document or a toolset is another one.
func TestLint_is_computed_once(t *testing.T) {
	const wrong = `input_restriction: {assertion: 'recent["get-trip"].inputs.plase == "Bern"'}`
	withRule := func(rule string) string {
		return strings.Replace(document("one"), "capabilities: {}", "capabilities: {get-trip: {"+rule+"}}", 1)
	}
	trips := &app.Toolset{Name: "trips", Document: new(app.Document)}
	build := func(document, argument string) *Agent {
		t.Helper()
		set, err := New(read(t, document), []Tools{{trips, tripTools(t, argument), true}})
		if err != nil {
			t.Fatal(err)
		}
		return set.Agents["one"]
	}
	a := build(withRule(wrong), "place")
	first := a.Lint()
	if len(first) != 1 || !strings.Contains(first[0].Error(), "plase") {
		t.Fatalf("faults %v, want one about plase", first)
	}
	if again := a.Lint(); len(again) != 1 || again[0] != first[0] {
		t.Errorf("the second call has computed the faults again: %v", again)
	}
	for rule, other := range map[string]*Agent{
		"another document": build(withRule(""), "place"),
		"another toolset":  build(withRule(wrong), "plase"),
	} {
		if faults := other.Lint(); len(faults) != 0 {
			t.Errorf("%s: faults %v, want none", rule, faults)
		}
	}
}

// TestRenamed_of_earlier_versions checks that a former name of a tool leads to its current one.
func TestRenamed_of_earlier_versions(t *testing.T) {
	set, err := tools.Build([]byte(`{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{"/users":{
		"delete":{"operationId":"users.purge"},"get":{"operationId":"users_purge"}}}}`), tools.BuildOptions{Name: "users"})
	if err != nil {
		t.Fatal(err)
	}
	names := newNames(func(string) bool { return false }, nil)
	for _, tool := range set.Tools() {
		names.add(&Operation{Tool: tool, Toolset: &app.Toolset{Name: "users", Document: new(app.Document)}, Set: set}, true)
	}
	names.nameOperations(make(map[string]string))
	if got := names.Renamed("users-purge-2"); got != "users-purge" {
		t.Errorf("users-purge-2 is %q", got)
	}
}

// TestNames_stay_with_their_toolset links agents again and again while toolsets change.
func TestNames_stay_with_their_toolset(t *testing.T) {
	of := func(name string, foreign bool) *Operation {
		return &Operation{Tool: &tools.Tool{Name: "pay"}, Toolset: &app.Toolset{Name: name, Document: new(app.Document)}, Set: &tools.Toolset{Foreign: foreign}}
	}
	api, other, files, mail := of("api", false), of("other", false), of("files", true), of("mail", true)
	for rule, c := range map[string]struct {
		steps [][]*Operation
		agent bool
		want  string
	}{
		"a document has the name before an MCP server":       {[][]*Operation{{files, api}}, false, "api"},
		"a new tool of an MCP server does not take it":       {[][]*Operation{{files}, {mail, files}}, false, "files"},
		"nor if the first one is gone":                       {[][]*Operation{{api}, {files}}, false, ""},
		"nor if the first one is gone and a document has it": {[][]*Operation{{files}, {api}}, false, ""},
		"it comes back":                        {[][]*Operation{{api}, {files}, {files, api}}, false, "api"},
		"two documents at start":               {[][]*Operation{{api, other}}, false, ""},
		"an agent has it before an MCP server": {[][]*Operation{{files}}, true, ""},
		"a document has it before an agent":    {[][]*Operation{{api}}, true, "api"},
	} {
		owners, got := make(map[string]string), ""
		for _, step := range c.steps {
			names := newNames(func(string) bool { return c.agent }, nil)
			for _, op := range step {
				names.add(op, true)
			}
			names.nameOperations(owners)
			got, _, _ = names.Tool("pay")
		}
		if got != c.want {
			t.Errorf("%s: pay is of %q, want %q", rule, got, c.want)
		}
	}
}
