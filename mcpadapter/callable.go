package mcpadapter

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/negotiation"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// A callable is a tool with everything that a call needs to know about it in advance. It is computed
// once for each tool of a Toolset. For a plain tool all fields but tool are zero, and a call goes
// from finding the tool to the Caller without further checks.
type callable struct {
	tool    *tool.Tool
	hidden  bool                           // whether only prompts and resources may call it
	needs   elicit.Needs                   // what it may need from the client during a call
	headers []negotiation.ArgumentHeader   // headers that repeat arguments (2026-07-28)
	output  [revision.V20260728 + 1]output // how successful results are encoded, by revision
}

// callables returns the callables of a Toolset by name.
func (s *Server) callables(tools *tool.Toolset) map[string]*callable {
	list := tools.Tools()
	all, byName := make([]callable, len(list)), make(map[string]*callable, len(list))
	for i, t := range list {
		c := &all[i]
		*c = callable{tool: t, hidden: library.IsHidden(t), needs: elicit.NeedsOf(t), headers: negotiation.ArgumentHeaders(t)}
		for v := range c.output {
			c.output[v] = s.outputOf(t, c.needs, revision.Revision(v))
		}
		byName[t.Name] = c
	}
	return byName
}

// callable returns the tool with that name, or nil if it does not exist.
func (m *message) callable(name string) *callable {
	return m.wholeCatalog().callables()[name]
}

// callableNamed returns the tool that a JSON string names, and its name. The tool is nil if it does
// not exist. For a known tool the name is the tool's own string, which saves an allocation.
func (m *message) callableNamed(raw jsontext.Value) (*callable, string) {
	if bytes.IndexByte(raw, '\\') < 0 {
		if c := m.wholeCatalog().callables()[string(raw[1:len(raw)-1])]; c != nil {
			return c, c.tool.Name
		}
	}
	name := wire.Text(raw)
	return m.callable(name), name
}
