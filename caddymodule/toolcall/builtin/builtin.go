// Package builtin has the tools that the gateway provides itself, in addition to those of a
// document. They are made from an OpenAPI document of their own (builtin.yaml), like all other
// tools, so that lists, schemas and validation treat them in the same way.
//
// Tools returns them, and Toolset.With of package tool adds them to a Toolset. The built-in tools
// that call other tools are resolved by the protocol adapters (Toolset.Resolve). Run runs the others.
package builtin

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"github.com/fairwayhq/fairway/ocp/tool"
)

//go:embed builtin.yaml
var document string

// Cursor is the argument of next_page.
const Cursor = "cursor"

// prefix precedes the names of all built-in tools if the document has a tool of the same name.
const prefix = "gateway_"

// plain and prefixed are the built-in tools by kind. They are built at their first use.
var (
	plain    = sync.OnceValue(func() map[tool.Builtin]*tool.Tool { return build("") })
	prefixed = sync.OnceValue(func() map[tool.Builtin]*tool.Tool { return build(prefix) })
)

// Tools returns the built-in tools of these kinds for a Toolset. If the Toolset has a tool with one of
// their names, the names of the built-in tools get a prefix.
func Tools(set *tool.Toolset, kinds ...tool.Builtin) []*tool.Tool {
	all := plain()
	for _, t := range all {
		if _, taken := set.Tool(t.Name); taken {
			all = prefixed()
			break
		}
	}
	chosen := make([]*tool.Tool, len(kinds))
	for i, kind := range kinds {
		chosen[i] = all[kind]
	}
	return chosen
}

// build builds the tools. The prefix precedes their names, also where their descriptions mention
// them.
func build(prefix string) map[tool.Builtin]*tool.Tool {
	set, err := tool.Build([]byte(document), tool.BuildOptions{Name: "builtin"})
	if err != nil || len(set.Warnings) > 0 {
		panic(fmt.Sprintf("builtin.yaml: %v %v", err, set)) // a test builds it
	}
	if prefix != "" {
		names := make([]string, 0, 2*len(set.Tools()))
		for _, t := range set.Tools() {
			names = append(names, t.Name, prefix+t.Name)
		}
		if set, err = tool.Build([]byte(strings.NewReplacer(names...).Replace(document)), tool.BuildOptions{Name: "builtin"}); err != nil {
			panic("builtin.yaml: " + err.Error())
		}
	}
	all := make(map[tool.Builtin]*tool.Tool, len(set.Tools()))
	for _, t := range set.Tools() {
		t.Builtin = tool.Builtin(strings.TrimPrefix(t.OperationID, prefix))
		all[t.Builtin] = t
	}
	return all
}
