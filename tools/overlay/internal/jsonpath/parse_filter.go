package jsonpath

import (
	"slices"
	"strings"
)

// or reads a logical expression.
func (p *parser) or() expression {
	defer p.nest()()
	return p.chain("||", p.and, func(parts []expression) expression { return or(parts) })
}

func (p *parser) and() expression {
	return p.chain("&&", p.basic, func(parts []expression) expression { return and(parts) })
}

// chain reads expressions that an operator separates.
func (p *parser) chain(operator string, read func() expression, join func([]expression) expression) expression {
	parts := []expression{read()}
	for p.acceptSpaced(operator) {
		parts = append(parts, read())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return join(parts)
}

// basic reads an expression in parentheses, a comparison, or a test of existence.
func (p *parser) basic() expression {
	if p.accept("!") {
		p.space()
		if p.peek() == '(' {
			return not{p.parentheses()}
		}
		return not{p.test(p.operand())}
	}
	if p.peek() == '(' {
		return p.parentheses()
	}
	left := p.operand()
	for _, operator := range []string{"==", "!=", "<=", ">=", "<", ">"} {
		mark := p.at
		if p.space(); !p.accept(operator) {
			p.at = mark
			continue
		}
		if left.operand == nil {
			p.fail(notComparable)
		}
		p.space()
		right := p.operand()
		if right.operand == nil {
			p.fail(notComparable)
		}
		return &compares{left.operand, right.operand, operator}
	}
	return p.test(left)
}

const notComparable = "only a query for a single value, a literal, or length, count and value can be compared"

func (p *parser) parentheses() expression {
	p.at++ // (
	p.space()
	x := p.or()
	p.space()
	p.expect(")")
	return x
}

// A part is what can be an operand of a comparison, a test, or an argument. Its fields say as which
// of these it can be used.
type part struct {
	query   *query     // a query
	operand operand    // a value; nil if it is a query for several values or a logical function
	logical expression // the functions match and search
	literal bool
}

// test uses a part as a test.
func (p *parser) test(x part) expression {
	switch {
	case x.logical != nil:
		return x.logical
	case x.query == nil:
		p.fail("a value alone is no condition: compare it, as in @.name == 'value'; found %s", p.found())
	}
	return exists{x.query}
}

// operand reads a query, a function call or a literal.
func (p *parser) operand() part {
	switch c := p.peek(); {
	case c == '$' || c == '@':
		p.at++
		x := part{query: p.segments(c == '$')}
		if x.query.singular() {
			x.operand = singular{x.query}
		}
		return x
	case c == '\'' || c == '"':
		return part{operand: literal{textNode(p.quoted())}, literal: true}
	case c == '-' || isDigit(c):
		return part{operand: p.number(), literal: true}
	}
	start := p.at
	for c := p.peek(); 'a' <= c && c <= 'z' || p.at > start && (c == '_' || isDigit(c)); c = p.peek() {
		p.at++
	}
	name := p.text[start:p.at]
	if p.peek() == '(' {
		return p.function(name, start)
	}
	switch name {
	case "true", "false", "null":
		return part{operand: literal{&Node{Kind: Kind(name[0]), Raw: []byte(name)}}, literal: true}
	}
	p.failAt(start, "expected @, $, a text in quotes, a number, true, false, null or a function, not %s", p.found())
	return part{}
}

// The functions of RFC 9535, section 2.4, and how many arguments they have.
var functions = map[string]int{"length": 1, "count": 1, "value": 1, "match": 2, "search": 2}

// function reads the arguments of a function and checks their types.
func (p *parser) function(name string, start int) part {
	count, known := functions[name]
	if !known {
		p.failAt(start, "function %q is unknown: there are length, count, value, match and search", name)
	}
	defer p.nest()()
	arguments := p.arguments()
	if len(arguments) != count {
		p.failAt(start, "function %s needs %d arguments, not %d", name, count, len(arguments))
	}
	first := arguments[0]
	switch name {
	case "count", "value":
		if first.query == nil {
			p.failAt(start, "the argument of function %s must be a query", name)
		}
		if name == "count" {
			return part{operand: countOf{first.query}}
		}
		return part{operand: valueOf{first.query}}
	}
	if slices.ContainsFunc(arguments, func(x part) bool { return x.operand == nil }) {
		p.failAt(start, "the arguments of function %s must be single values", name)
	}
	if name == "length" {
		return part{operand: lengthOf{first.operand}}
	}
	x := &matches{text: first.operand, pattern: arguments[1].operand, whole: name == "match"}
	if pattern, fixed := x.pattern.(literal); fixed && pattern.Kind == '"' {
		var err error
		if x.compiled, err = compilePattern(pattern.Text(), x.whole); err != nil {
			p.failAt(start, "%s is not a regular expression: %s", pattern.Raw, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		}
	}
	return part{logical: x}
}

func (p *parser) arguments() (arguments []part) {
	p.at++ // (
	p.space()
	if p.accept(")") {
		return nil
	}
	for {
		arguments = append(arguments, p.operand())
		p.space()
		if !p.accept(",") {
			p.expect(")")
			return arguments
		}
		p.space()
	}
}
