package tool

import (
	"hash/maphash"
	"reflect"
)

// siblingIndex finds tools with the same arguments, such as operations that share the schema of their
// request body. The arguments of such tools are stored and written only once.
type siblingIndex struct {
	seed maphash.Seed
	tool map[uint64]int // position in builder.pending by the hash of a tool's arguments
}

func newSiblingIndex() siblingIndex {
	return siblingIndex{maphash.MakeSeed(), make(map[uint64]int)}
}

// hash returns a hash of the names and schemas of a tool's arguments.
func (w *siblingIndex) hash(p *pendingTool) uint64 {
	var h maphash.Hash
	h.SetSeed(w.seed)
	for i := range p.tool.all {
		a := &p.tool.all[i]
		_, _ = h.WriteString(a.Name)
		_, _ = h.WriteString(a.WireName)
		_, _ = h.Write(a.Schema)
	}
	_, _ = h.Write(p.plan.Closed.Text)
	return h.Sum64()
}

// joinSibling makes the tool share the arguments of an earlier tool with the same arguments,
// and reports whether there is one.
func (b *builder) joinSibling(p *pendingTool) bool {
	key := b.siblings.hash(p)
	i, known := b.siblings.tool[key]
	if !known {
		b.siblings.tool[key] = len(b.pending)
		return false
	}
	first := &b.pending[i]
	if !first.equals(p) {
		return false
	}
	first.siblings = append(first.siblings, p.tool)
	first.share(p.tool)
	return true
}

// equals reports whether two tools have the same arguments and send them in the same way.
func (p *pendingTool) equals(other *pendingTool) bool {
	if len(p.tool.all) != len(other.tool.all) || !p.plan.Equal(other.plan) || !reflect.DeepEqual(p.tool.plans, other.tool.plans) {
		return false
	}
	for i := range p.tool.all {
		a, b := p.tool.all[i], other.tool.all[i]
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
	sibling.all, sibling.plans, sibling.index, sibling.Arguments = t.all, t.plans, t.index, t.Arguments
	sibling.InputSchema, sibling.Simplified, sibling.full, sibling.unread = t.InputSchema, t.Simplified, t.full, t.unread
}
