package route

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"github.com/fairwayhq/fairway/tools"
)

//go:embed builtin.yaml
var document string

// builtinCursor is the argument of next_page.
const builtinCursor = "cursor"

// plain and prefixed are the built-in tools by kind. They are built at their first use.
var (
	plain    = sync.OnceValue(func() map[tools.Builtin]*tools.Tool { return newBuiltins("") })
	prefixed = sync.OnceValue(func() map[tools.Builtin]*tools.Tool { return newBuiltins(tools.BuiltinPrefix) })
)

// BuiltinTools returns the built-in tools of these kinds for a Toolset. If the Toolset has a tool with one of
// their names, the names of the built-in tools get a prefix.
func BuiltinTools(set *tools.Toolset, kinds ...tools.Builtin) []*tools.Tool {
	all := plain()
	for _, t := range all {
		if _, taken := set.Tool(t.Name); taken {
			all = prefixed()
			break
		}
	}
	chosen := make([]*tools.Tool, len(kinds))
	for i, kind := range kinds {
		chosen[i] = all[kind]
	}
	return chosen
}

// build builds the tools. The prefix precedes their names, also where their descriptions mention
// them.
func newBuiltins(prefix string) map[tools.Builtin]*tools.Tool {
	set, err := tools.Build([]byte(document), tools.BuildOptions{Name: "builtin"})
	if err != nil || len(set.Report.Warnings) > 0 {
		panic(fmt.Sprintf("builtin.yaml: %v %v", err, set)) // a test builds it
	}
	if prefix != "" {
		names := make([]string, 0, 2*len(set.Tools()))
		for _, t := range set.Tools() {
			names = append(names, t.Name, prefix+t.Name)
		}
		if set, err = tools.Build([]byte(strings.NewReplacer(names...).Replace(document)), tools.BuildOptions{Name: "builtin"}); err != nil {
			panic("builtin.yaml: " + err.Error())
		}
	}
	all := make(map[tools.Builtin]*tools.Tool, len(set.Tools()))
	for _, t := range set.Tools() {
		t.Builtin = tools.Builtin(strings.TrimPrefix(t.Definition.OperationID, prefix))
		all[t.Builtin] = t
	}
	return all
}
