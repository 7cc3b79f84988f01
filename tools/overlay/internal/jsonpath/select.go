package jsonpath

import (
	"errors"
)

// A Match is a value that a query selected, and the object or array that contains it. Parent is nil
// for the root. A query can select the same value more than once; Select returns it once.
type Match struct {
	Node, Parent *Node
}

// A Budget limits the cost of evaluations. Evaluations that share a Budget share its Steps.
type Budget struct {
	Steps   int // values that may be visited
	Matches int // values that one query may select, including intermediate ones
}

// Errors of Select.
var (
	ErrSteps   = errors.New("the query visits too many values")
	ErrMatches = errors.New("the query selects too many values")
)

// step counts one visited value.
func (b *Budget) step() {
	if b.Steps--; b.Steps < 0 {
		panic(ErrSteps)
	}
}

// Select returns the values that the query selects in the tree of root, each of them once, in the
// order in which the query reaches them.
func (p *Path) Select(root *Node, budget *Budget) (selected []Match, err error) {
	defer func() {
		switch cause := recover(); cause {
		case nil:
		case ErrSteps, ErrMatches:
			selected, err = nil, cause.(error)
		default:
			panic(cause)
		}
	}()
	e := &evaluation{root: root, budget: budget}
	matches := e.query(p.query, root)
	seen := make(map[*Node]struct{}, len(matches))
	unique := matches[:0]
	for _, m := range matches {
		if _, again := seen[m.Node]; !again {
			seen[m.Node] = struct{}{}
			unique = append(unique, m)
		}
	}
	return unique, nil
}

// An evaluation is the state of one call of Select.
type evaluation struct {
	root   *Node
	budget *Budget
}

// query returns what a query selects. Current is the value of @.
func (e *evaluation) query(q *query, current *Node) []Match {
	if q.absolute {
		current = e.root
	}
	matches := []Match{{Node: current}}
	for i := range q.segments {
		var next []Match
		for _, m := range matches {
			if q.segments[i].descendant {
				next = e.descend(next, &q.segments[i], m.Node)
			} else {
				next = e.selectFrom(next, &q.segments[i], m.Node)
			}
			if len(next) > e.budget.Matches {
				panic(ErrMatches)
			}
		}
		matches = next
	}
	return matches
}

// descend applies the selectors of a segment to a value and all its descendants
// (RFC 9535, section 2.5.2).
func (e *evaluation) descend(to []Match, s *segment, n *Node) []Match {
	to = e.selectFrom(to, s, n)
	for i := range n.children() {
		if child := n.child(i); !child.Primitive() {
			to = e.descend(to, s, child)
		}
	}
	if len(to) > e.budget.Matches {
		panic(ErrMatches)
	}
	return to
}

// selectFrom applies the selectors of a segment to one value.
func (e *evaluation) selectFrom(to []Match, s *segment, n *Node) []Match {
	e.budget.step()
	if n.Primitive() {
		return to
	}
	for i := range s.selectors {
		selector := &s.selectors[i]
		switch selector.kind {
		case selectName:
			if child := n.Get(selector.name); child != nil && n.Kind == '{' {
				to = append(to, Match{child, n})
			}
		case selectIndex:
			at := selector.start
			if at < 0 {
				at += int64(len(n.Items))
			}
			if at >= 0 && at < int64(len(n.Items)) {
				to = append(to, Match{n.Items[at], n})
			}
		case selectSlice:
			to = selector.slice(to, n)
		default:
			to = e.selectChildren(to, selector, n)
		}
	}
	return to
}

// selectChildren applies a wildcard or filter selector.
func (e *evaluation) selectChildren(to []Match, s *selector, n *Node) []Match {
	for i := range n.children() {
		e.budget.step()
		if child := n.child(i); s.kind != selectFilter || s.filter.holds(e, child) {
			to = append(to, Match{child, n})
		}
	}
	return to
}

// slice applies a slice selector (RFC 9535, section 2.3.4).
func (s *selector) slice(to []Match, n *Node) []Match {
	length, step := int64(len(n.Items)), s.step
	if step == 0 || length == 0 {
		return to
	}
	start, end := int64(0), length
	if step < 0 {
		start, end = length-1, -1
	}
	normalize := func(i int64) int64 {
		if i < 0 {
			return i + length
		}
		return i
	}
	if s.hasStart {
		start = normalize(s.start)
	}
	if s.hasEnd {
		end = normalize(s.end)
	}
	if step > 0 {
		for i := max(start, 0); i < min(end, length); i += min(step, length) {
			to = append(to, Match{n.Items[i], n})
		}
		return to
	}
	for i := min(start, length-1); i > max(end, -1); i += max(step, -length) {
		to = append(to, Match{n.Items[i], n})
	}
	return to
}
