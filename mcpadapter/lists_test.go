package mcpadapter

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

type listedTool struct {
	Name, Title, Description string
	InputSchema              json.RawMessage
	Annotations              struct {
		Title                         string
		ReadOnlyHint, DestructiveHint bool
		IdempotentHint, OpenWorldHint bool
	}
}

type toolList struct {
	ResultType string
	Tools      []listedTool
	NextCursor *string
}

func TestList_tools_has_the_fields_of_its_revision(t *testing.T) {
	for _, v := range revisions {
		t.Run(v.String(), func(t *testing.T) {
			var got toolList
			conformant(v, "tools/list", "").result(t, "ListToolsResult", &got)
			if len(got.Tools) != 5 || got.NextCursor != nil {
				t.Fatalf("got %d tools", len(got.Tools))
			}
			trip := got.Tools[0]
			if trip.Name != "get_trip" || trip.Description != "Returns one trip." || !strings.Contains(string(trip.InputSchema), `"required":["id"]`) {
				t.Errorf("got %+v", trip)
			}
			if (trip.Title == "Get a trip") != (v >= protocol.V20250618) || (trip.Annotations.Title == "Get a trip") != (v == protocol.V20250326) {
				t.Errorf("titles %q and %q", trip.Title, trip.Annotations.Title)
			}
			if (got.ResultType == "complete") != (v >= protocol.V20260728) {
				t.Errorf("resultType %q", got.ResultType)
			}
			if string(got.Tools[1].InputSchema) != `{"type":"object"}` {
				t.Errorf("schema %s of a tool without arguments", got.Tools[1].InputSchema)
			}
		})
	}
}

func TestAnnotations_follow_the_method(t *testing.T) {
	for method, want := range map[string][3]bool{ // read-only, destructive, idempotent
		"GET": {true, false, true}, "HEAD": {true, false, true}, "OPTIONS": {true, false, true},
		"POST": {false, true, false}, "PATCH": {false, true, false},
		"PUT": {false, true, true}, "DELETE": {false, true, true},
	} {
		t.Run(method, func(t *testing.T) {
			var got listedTool
			if err := json.Unmarshal(New(Options{}).newCatalog(tools.NewToolset("", nil)).AppendTool(nil, &tools.Tool{Name: "x", Definition: tools.Definition{Description: "d"}, Plan: tools.Plan{Method: method}}, protocol.V20251125), &got); err != nil {
				t.Fatal(err)
			}
			a := got.Annotations
			if [3]bool{a.ReadOnlyHint, a.DestructiveHint, a.IdempotentHint} != want || !a.OpenWorldHint {
				t.Errorf("got %+v", a)
			}
		})
	}
}

func many(n int, hash string) *tools.Toolset {
	toolset := make([]*tools.Tool, n)
	for i := range toolset {
		toolset[i] = &tools.Tool{
			Name: fmt.Sprintf("tool_%d", i),
			Definition: tools.Definition{
				Title:       "A tool",
				Description: strings.Repeat("It does something useful. ", 8),
				InputSchema: []byte(`{"type":"object","properties":{"id":{"type":"string","description":"Which one"},"limit":{"type":"integer","minimum":1}},"required":["id"]}`),
			},
			Plan: tools.Plan{
				Method: "GET",
			},
		}
	}
	set := tools.NewToolset("many", toolset)
	set.Hash = hash
	return set
}

func TestPages(t *testing.T) {
	for _, c := range []struct{ tools, size, pages int }{
		{0, 0, 1}, {0, 3, 1}, {1, 3, 1}, {3, 3, 1}, {4, 3, 2}, {1000, 0, 1}, {1000, 1, 1000}, {10, 1000, 1},
	} {
		t.Run(fmt.Sprintf("%d-by-%d", c.tools, c.size), func(t *testing.T) {
			server, toolset := New(Options{PageSize: c.size}), many(c.tools, "h")
			seen, pages, cursor := 0, 0, ""
			for {
				var got toolList
				r := conformant(protocol.V20251125, "tools/list", cursor)
				r.server, r.tools = server, toolset
				r.result(t, "ListToolsResult", &got)
				for _, tool := range got.Tools {
					if tool.Name != fmt.Sprintf("tool_%d", seen) {
						t.Fatalf("tool %d is %s", seen, tool.Name)
					}
					seen++
				}
				pages++
				if got.NextCursor == nil {
					break
				}
				cursor = `"cursor":"` + *got.NextCursor + `"`
			}
			if seen != c.tools || pages != c.pages {
				t.Errorf("%d tools on %d pages", seen, pages)
			}
		})
	}
}

func TestCursor_is_bound_to_its_list(t *testing.T) {
	server := New(Options{PageSize: 2})
	list := func(toolset *tools.Toolset, cursor string) testRequest {
		r := conformant(protocol.V20260728, "tools/list", `"cursor":`+cursor)
		r.server, r.tools = server, toolset
		return r
	}
	old, changed := many(5, "old"), many(5, "changed")
	var first toolList
	list(old, "null").result(t, "ListToolsResult", &first)
	next, _ := json.Marshal(*first.NextCursor)
	var second toolList
	list(old, string(next)).result(t, "ListToolsResult", &second)
	if second.Tools[0].Name != "tool_2" {
		t.Errorf("the second page starts with %s", second.Tools[0].Name)
	}
	list(many(5, "old"), string(next)).result(t, "ListToolsResult", &second) // an equal document

	list(old, `""`).result(t, "ListToolsResult", &second)
	if second.Tools[0].Name != "tool_0" {
		t.Errorf("without a cursor the list starts with %s", second.Tools[0].Name)
	}
	beyond, _ := json.Marshal(catalog.Cursor(server.newCatalog(old).Stamp, 99))
	for rule, r := range map[string]testRequest{
		"stale":     list(changed, string(next)),
		"garbage":   list(old, `"x"`),
		"not-ours":  list(old, `"`+strings.Repeat("A", 16)+`"`),
		"number":    list(old, `2`),
		"beyond":    list(old, string(beyond)),
		"truncated": list(old, string(next[:len(next)-3])+`"`),
	} {
		t.Run(rule, func(t *testing.T) {
			if a := r.fault(t, 200, protocol.InvalidParams); rule == "stale" && !testkit.ContainsAll(a.Error.Message, "tools cursor again") {
				t.Errorf("message %q", a.Error.Message)
			}
		})
	}
}

func TestList_is_encoded_once(t *testing.T) {
	s, toolset := New(Options{}), trains()
	kept := func(toolset *tools.Toolset, v protocol.Revision) *byte {
		q, w := request{scope: scope{site: &Site{}, server: s, tools: toolset, version: v}}, response{out: bufferOf()}
		if f := listTools(&q, &w); f != nil {
			t.Fatal(f.Message)
		}
		return &w.trailer[0]
	}
	first := kept(toolset, protocol.V20251125)
	if first != kept(toolset, protocol.V20251125) {
		t.Error("the list was encoded again")
	}
	if kept(toolset, protocol.V20250326) == kept(toolset, protocol.V20250618) {
		t.Error("revisions with and without titles share a list")
	}
	if kept(toolset, protocol.V20251125) == kept(trains(), protocol.V20251125) {
		t.Error("a new Toolset is listed as the old one")
	}
}

func TestToolset_is_replaced_while_serving(t *testing.T) {
	s := New(Options{})
	sets := []*tools.Toolset{many(3, "a"), many(5, "b")}
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for j := range 50 {
				toolset := sets[(i+j)%2]
				r := conformant(protocol.V20251125, "tools/list", "")
				r.server, r.tools = s, toolset
				var got toolList
				if err := json.Unmarshal(parse(t, r.Send(t)).Result, &got); err != nil || len(got.Tools) != len(toolset.Tools()) {
					t.Errorf("%d tools, %v", len(got.Tools), err)
				}
			}
		})
	}
	wait.Wait()
}
