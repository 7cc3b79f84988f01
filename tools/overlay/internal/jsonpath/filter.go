package jsonpath

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// An expression is a logical expression of a filter (RFC 9535, section 2.3.5).
type expression interface {
	holds(e *evaluation, current *Node) bool
}

type (
	or       []expression
	and      []expression
	not      struct{ expression }
	exists   struct{ *query } // the query selects something
	compares struct {         // two values compare as the operator says
		left, right operand
		operator    string
	}
	matches struct { // the functions match and search
		text, pattern operand
		compiled      *regexp.Regexp // of a literal pattern; nil if the pattern is no literal
		whole         bool           // match: the pattern must match the whole text
	}
)

func (x or) holds(e *evaluation, current *Node) bool {
	return slices.ContainsFunc(x, func(part expression) bool { return part.holds(e, current) })
}

func (x and) holds(e *evaluation, current *Node) bool {
	return !slices.ContainsFunc(x, func(part expression) bool { return !part.holds(e, current) })
}

func (x not) holds(e *evaluation, current *Node) bool { return !x.expression.holds(e, current) }

func (x exists) holds(e *evaluation, current *Node) bool { return len(e.query(x.query, current)) > 0 }

func (x *compares) holds(e *evaluation, current *Node) bool {
	left, right := x.left.value(e, current), x.right.value(e, current)
	switch x.operator {
	case "==":
		return e.equal(left, right)
	case "!=":
		return !e.equal(left, right)
	case "<":
		return less(left, right)
	case ">":
		return less(right, left)
	case "<=":
		return e.equal(left, right) || less(left, right)
	default: // ">="
		return e.equal(left, right) || less(right, left)
	}
}

func (x *matches) holds(e *evaluation, current *Node) bool {
	text := x.text.value(e, current)
	if text == nil || text.Kind != '"' {
		return false
	}
	compiled := x.compiled
	if compiled == nil {
		pattern := x.pattern.value(e, current)
		if pattern == nil || pattern.Kind != '"' {
			return false
		}
		var err error
		if compiled, err = compilePattern(pattern.Text(), x.whole); err != nil {
			return false // RFC 9535, sections 2.4.6 and 2.4.7: such a pattern does not match
		}
	}
	return compiled.MatchString(text.Text())
}

// compilePattern compiles a regular expression of RFC 9485. In it, a dot matches neither a line feed
// nor a carriage return.
func compilePattern(pattern string, whole bool) (*regexp.Regexp, error) {
	var b strings.Builder
	inClass := false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteByte(c)
			b.WriteByte(pattern[i])
		case c == '.' && !inClass:
			b.WriteString(`[^\n\r]`)
		default:
			inClass = c == '[' || inClass && c != ']'
			b.WriteByte(c)
		}
	}
	if whole {
		return regexp.Compile(`\A(?:` + b.String() + `)\z`)
	}
	return regexp.Compile(b.String())
}

// An operand is a part of a comparison, or an argument of a function. Its value is nil for the
// special result Nothing.
type operand interface {
	value(e *evaluation, current *Node) *Node
}

type (
	literal  struct{ *Node }
	singular struct{ *query }  // selects at most one value
	valueOf  struct{ *query }  // the function value
	countOf  struct{ *query }  // the function count
	lengthOf struct{ operand } // the function length
)

func (x literal) value(*evaluation, *Node) *Node { return x.Node }

func (x singular) value(e *evaluation, current *Node) *Node {
	selected := e.query(x.query, current)
	if len(selected) != 1 {
		return nil
	}
	return selected[0].Node
}

func (x valueOf) value(e *evaluation, current *Node) *Node { return singular(x).value(e, current) }

func (x countOf) value(e *evaluation, current *Node) *Node {
	return integer(len(e.query(x.query, current)))
}

func (x lengthOf) value(e *evaluation, current *Node) *Node {
	v := x.operand.value(e, current)
	switch {
	case v == nil:
		return nil
	case v.Kind == '"':
		return integer(utf8.RuneCountInString(v.Text()))
	case v.Primitive():
		return nil // the special result Nothing
	}
	return integer(v.children())
}

// equal compares two values (RFC 9535, section 2.3.5.2.2). Nothing equals only Nothing.
func (e *evaluation) equal(a, b *Node) bool {
	e.budget.step()
	if a == nil || b == nil {
		return a == b
	}
	if a.Kind != b.Kind || a.children() != b.children() {
		return false
	}
	switch a.Kind {
	case '"':
		return a.Text() == b.Text()
	case '0':
		return string(a.Raw) == string(b.Raw) || a.number() == b.number()
	case '[':
		return slices.EqualFunc(a.Items, b.Items, e.equal)
	case '{':
		for _, m := range a.Members {
			if other := b.Get(m.Name); other == nil || !e.equal(m.Value, other) {
				return false
			}
		}
	}
	return true
}

// less reports whether a is less than b: both are numbers or both are strings.
func less(a, b *Node) bool {
	switch {
	case a == nil || b == nil || a.Kind != b.Kind:
		return false
	case a.Kind == '0':
		return a.number() < b.number()
	case a.Kind == '"':
		return a.Text() < b.Text()
	}
	return false
}
