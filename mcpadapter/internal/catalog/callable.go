package catalog

import (
	"slices"

	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools"
)

// A Callable is a tool with everything that a call needs to know about it in advance. It is computed
// once for each tool of a Toolset. For a plain tool all fields but Tool, Changes, Plain and Task are zero, and a call goes
// from finding the tool to the Caller without further checks.
type Callable struct {
	Tool    *tools.Tool
	Hidden  bool                                    // whether only prompts and resources may call it
	IsCall  bool                                    // whether its calls call other tools (tools.Toolset.Resolve)
	Brief   bool                                    // whether lists leave it out, so that clients may not know its schema
	Changes bool                                    // whether a call may change something, so that its idempotency key counts
	Plain   bool                                    // whether a call needs nothing from the client
	Needs   elicit.Needs                            // what it may need from the client during a call
	Headers []protocol.ArgumentHeader               // headers that repeat arguments (2026-07-28)
	Task    library.TaskSupport                     // whether calls can be tasks
	Output  [protocol.V20260728 + 1]*content.Output // the declared outputSchema, by revision; nil for none
}

// newCallables returns the callables of a Toolset by name.
func newCallables(o *Options, toolset *tools.Toolset) map[string]*Callable {
	list := slices.Concat(toolset.Tools(), toolset.Builtins())
	all, byName := make([]Callable, len(list)), make(map[string]*Callable, len(list))
	for i, t := range list {
		c := &all[i]
		*c = Callable{Tool: t, Hidden: library.IsHidden(t), Needs: elicit.NeedsOf(t), Headers: protocol.ArgumentHeaders(t), Task: library.TaskSupportOf(t)}
		c.IsCall, c.Brief = t.Builtin.IsCall(), toolset.Brief()
		c.Plain, c.Changes = !c.Needs.Any(), t.Builtin == "" && !t.ReadOnly()
		for v := range c.Output {
			c.Output[v] = content.OutputOf(o.OutputSchema, t, c.Needs.Native, protocol.Revision(v))
		}
		byName[t.Name] = c
	}
	if toolset.Brief() {
		for _, t := range toolset.Listed() {
			byName[t.Name].Brief = false
		}
	}
	return byName
}
