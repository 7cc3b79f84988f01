package jsonpath

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// An expression is a logical expression of a filter (RFC 9535, section 2.3.5).
type expression interface {
	holds(e *evaluation, current *Node) (bool, error)
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

func (x or) holds(e *evaluation, current *Node) (bool, error) {
	for _, part := range x {
		if holds, err := part.holds(e, current); holds || err != nil {
			return holds, err
		}
	}
	return false, nil
}

func (x and) holds(e *evaluation, current *Node) (bool, error) {
	for _, part := range x {
		if holds, err := part.holds(e, current); !holds || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (x not) holds(e *evaluation, current *Node) (bool, error) {
	holds, err := x.expression.holds(e, current)
	return !holds, err
}

func (x exists) holds(e *evaluation, current *Node) (bool, error) {
	selected, err := e.query(x.query, current)
	return len(selected) > 0, err
}

func (x *compares) holds(e *evaluation, current *Node) (bool, error) {
	left, err := x.left.value(e, current)
	if err != nil {
		return false, err
	}
	right, err := x.right.value(e, current)
	if err != nil {
		return false, err
	}
	switch x.operator {
	case "==":
		return e.equal(left, right)
	case "!=":
		equal, err := e.equal(left, right)
		return !equal, err
	case "<":
		return less(left, right), nil
	case ">":
		return less(right, left), nil
	case "<=":
		equal, err := e.equal(left, right)
		return equal || less(left, right), err
	default: // ">="
		equal, err := e.equal(left, right)
		return equal || less(right, left), err
	}
}

func (x *matches) holds(e *evaluation, current *Node) (bool, error) {
	text, err := x.text.value(e, current)
	if err != nil || text == nil || text.Kind != '"' {
		return false, err
	}
	compiled := x.compiled
	if compiled == nil {
		pattern, err := x.pattern.value(e, current)
		if err != nil || pattern == nil || pattern.Kind != '"' {
			return false, err
		}
		if compiled, err = compilePattern(pattern.Text(), x.whole); err != nil {
			return false, nil //nolint:nilerr // RFC 9535, sections 2.4.6 and 2.4.7: such a pattern does not match
		}
	}
	return compiled.MatchString(text.Text()), nil
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
	value(e *evaluation, current *Node) (*Node, error)
}

type (
	literal  struct{ *Node }
	singular struct{ *query }  // selects at most one value
	valueOf  struct{ *query }  // the function value
	countOf  struct{ *query }  // the function count
	lengthOf struct{ operand } // the function length
)

func (x literal) value(*evaluation, *Node) (*Node, error) { return x.Node, nil }

func (x singular) value(e *evaluation, current *Node) (*Node, error) {
	selected, err := e.query(x.query, current)
	if err != nil || len(selected) != 1 {
		return nil, err
	}
	return selected[0].Node, nil
}

func (x valueOf) value(e *evaluation, current *Node) (*Node, error) {
	return singular(x).value(e, current)
}

func (x countOf) value(e *evaluation, current *Node) (*Node, error) {
	selected, err := e.query(x.query, current)
	return integer(len(selected)), err
}

func (x lengthOf) value(e *evaluation, current *Node) (*Node, error) {
	v, err := x.operand.value(e, current)
	switch {
	case err != nil || v == nil:
		return nil, err
	case v.Kind == '"':
		return integer(utf8.RuneCountInString(v.Text())), nil
	case v.Primitive():
		return nil, nil //nolint:nilnil // the special result Nothing
	}
	return integer(v.children()), nil
}

// equal compares two values (RFC 9535, section 2.3.5.2.2). Nothing equals only Nothing.
func (e *evaluation) equal(a, b *Node) (bool, error) {
	if err := e.budget.step(); err != nil {
		return false, err
	}
	if a == nil || b == nil {
		return a == b, nil
	}
	if a.Kind != b.Kind || a.children() != b.children() {
		return false, nil
	}
	switch a.Kind {
	case '"':
		return a.Text() == b.Text(), nil
	case '0':
		return string(a.Raw) == string(b.Raw) || a.number() == b.number(), nil
	case '[':
		for i := range a.Items {
			if equal, err := e.equal(a.Items[i], b.Items[i]); !equal || err != nil {
				return false, err
			}
		}
	case '{':
		for _, m := range a.Members {
			other := b.Get(m.Name)
			if other == nil {
				return false, nil
			}
			if equal, err := e.equal(m.Value, other); !equal || err != nil {
				return false, err
			}
		}
	}
	return true, nil
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
