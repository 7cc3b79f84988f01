package match

import (
	"strings"

	"github.com/fairwayhq/fairway/tools"
)

// Folded finds tools by paths as lenient servers see them, which ignore case, empty segments and spaces.
type Folded struct{ methods pathTree }

// NewFolded returns the paths of the toolsets' tools. Fold returns the same text for all texts that servers may treat as equal. It keeps the NUL
// of a parameter.
func NewFolded(fold func(text string) string, toolsets ...*tools.Toolset) *Folded {
	folded := &Folded{make(pathTree)}
	for _, set := range toolsets {
		for _, tool := range set.Tools() {
			same := folded.methods.add(tool.Plan.Method, strings.FieldsFunc(fold(strings.Join(tool.Plan.Route(), "/")), isSlash))
			same.Tools = append(same.Tools, tool)
		}
	}
	return folded
}

// Find returns the tools of the most concrete path that matches a folded path.
func (f *Folded) Find(method, path string) []*tools.Tool {
	if root := f.methods[method]; root != nil {
		if found := root.findFolded(path); found != nil {
			return found.Tools
		}
	}
	return nil
}

func isSlash(c rune) bool { return c == '/' }

// findFolded returns the operations of the most concrete path that matches rest, which is folded. It
// ignores empty segments.
func (n *routeNode) findFolded(rest string) *Siblings {
	rest = strings.TrimLeft(rest, "/")
	if rest == "" {
		return n.siblings
	}
	whole := rest
	segment, rest, _ := strings.Cut(rest, "/")
	if next := n.literals[segment]; next != nil {
		if found := next.findFolded(rest); found != nil {
			return found
		}
	}
	for i := range n.mixed {
		if m := &n.mixed[i]; m.matches(segment) {
			if found := m.next.findFolded(rest); found != nil {
				return found
			}
		}
	}
	if n.any != nil {
		if found := n.any.findFolded(rest); found != nil {
			return found
		}
	}
	if n.wide == nil {
		return nil
	}
	full := strings.FieldsFunc(whole, isSlash)
	return n.findWide(strings.Join(full, "/"), func(segment string) string { return segment })
}
