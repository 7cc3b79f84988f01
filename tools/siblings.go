package tools

import (
	"hash/maphash"
	"reflect"
)

// A siblingIndex finds tools with the same arguments, such as operations that share the schema of their
// request body. The arguments of such tools are stored and written only once.
type siblingIndex struct {
	seed maphash.Seed
	tool map[uint64]int // position in inputWriter.pending by the hash of a tool's arguments
}

func newSiblingIndex() siblingIndex {
	return siblingIndex{maphash.MakeSeed(), make(map[uint64]int)}
}

// hash returns a hash of the names and schemas of a tool's arguments.
func (w *siblingIndex) hash(p *pendingTool) uint64 {
	var h maphash.Hash
	h.SetSeed(w.seed)
	for i := range p.tool.Plan.Arguments {
		a := &p.tool.Plan.Arguments[i]
		_, _ = h.WriteString(a.Name)
		_, _ = h.WriteString(a.WireName)
		_, _ = h.Write(a.Schema)
	}
	_, _ = h.Write(p.plan.Closed.Text)
	return h.Sum64()
}

// joinSibling makes the tool share the arguments of an earlier tool with the same arguments,
// and reports whether there is one.
func (w *inputWriter) joinSibling(p *pendingTool) bool {
	key := w.siblings.hash(p)
	i, known := w.siblings.tool[key]
	if !known {
		w.siblings.tool[key] = len(w.pending)
		return false
	}
	first := &w.pending[i]
	if !first.equals(p) {
		return false
	}
	first.siblings = append(first.siblings, p.tool)
	first.share(p.tool)
	return true
}

// equals reports whether two tools have the same arguments and send them in the same way.
func (p *pendingTool) equals(other *pendingTool) bool {
	if len(p.tool.Plan.Arguments) != len(other.tool.Plan.Arguments) || !p.plan.Equal(other.plan) || !reflect.DeepEqual(p.tool.Plan.Encodings, other.tool.Plan.Encodings) {
		return false
	}
	for i := range p.tool.Plan.Arguments {
		a, b := p.tool.Plan.Arguments[i], other.tool.Plan.Arguments[i]
		if p.dropped {
			a.Schema, b.Schema = nil, nil
		}
		if !reflect.DeepEqual(&a, &b) {
			return false
		}
	}
	return true
}

// share copies the tool's arguments and schema to a sibling.
func (p *pendingTool) share(sibling *Tool) {
	t := p.tool
	sibling.Plan.Arguments, sibling.Plan.Encodings, sibling.Plan.index, sibling.Definition.Arguments = t.Plan.Arguments, t.Plan.Encodings, t.Plan.index, t.Definition.Arguments
	sibling.Definition.InputSchema, sibling.Definition.Simplified, sibling.Definition.full, sibling.Definition.Unchecked = t.Definition.InputSchema, t.Definition.Simplified, t.Definition.full, t.Definition.Unchecked
}
