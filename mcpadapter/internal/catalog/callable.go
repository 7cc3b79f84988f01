package catalog

import (
	"slices"

	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/negotiation"
	"github.com/fairwayhq/fairway/mcpadapter/internal/outputschema"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// A Callable is a tool with everything that a call needs to know about it in advance. It is computed
// once for each tool of a Toolset. For a plain tool all fields but Tool, Plain and Task are zero, and a call goes
// from finding the tool to the Caller without further checks.
type Callable struct {
	Tool    *tool.Tool
	Hidden  bool                                         // whether only prompts and resources may call it
	IsCall  bool                                         // whether its calls call other tools (tool.Toolset.Resolve)
	Brief   bool                                         // whether lists leave it out, so that clients may not know its schema
	Plain   bool                                         // whether a call needs nothing from the client
	Needs   elicit.Needs                                 // what it may need from the client during a call
	Headers []negotiation.ArgumentHeader                 // headers that repeat arguments (2026-07-28)
	Task    library.TaskSupport                          // whether calls can be tasks
	Output  [revision.V20260728 + 1]*outputschema.Output // the declared outputSchema, by revision; nil for none
}

// newCallables returns the callables of a Toolset by name.
func newCallables(o *Options, tools *tool.Toolset) map[string]*Callable {
	list := slices.Concat(tools.Tools(), tools.Builtins())
	all, byName := make([]Callable, len(list)), make(map[string]*Callable, len(list))
	for i, t := range list {
		c := &all[i]
		*c = Callable{Tool: t, Hidden: library.IsHidden(t), Needs: elicit.NeedsOf(t), Headers: negotiation.ArgumentHeaders(t), Task: library.TaskSupportOf(t)}
		c.IsCall, c.Brief = t.Builtin.IsCall(), tools.Brief()
		c.Plain = !c.Needs.Any()
		for v := range c.Output {
			c.Output[v] = outputschema.Of(o.OutputSchema, t, c.Needs.Native, revision.Revision(v))
		}
		byName[t.Name] = c
	}
	if tools.Brief() {
		for _, t := range tools.Listed() {
			byName[t.Name].Brief = false
		}
	}
	return byName
}
