package jsonpath

import (
	"slices"
	"strings"
)

// or reads a logical expression.
func (p *parser) or() (expression, error) {
	leave, err := p.nest()
	if err != nil {
		return nil, err
	}
	defer leave()
	return p.chain("||", p.and, func(parts []expression) expression { return or(parts) })
}

func (p *parser) and() (expression, error) {
	return p.chain("&&", p.basic, func(parts []expression) expression { return and(parts) })
}

// chain reads expressions that an operator separates.
func (p *parser) chain(operator string, read func() (expression, error), join func([]expression) expression) (expression, error) {
	var parts []expression
	for {
		part, err := read()
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
		mark := p.at
		p.space()
		if !p.accept(operator) {
			p.at = mark
			break
		}
		p.space()
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return join(parts), nil
}

// basic reads an expression in parentheses, a comparison, or a test of existence.
func (p *parser) basic() (expression, error) {
	if p.accept("!") {
		p.space()
		if p.peek() == '(' {
			x, err := p.parentheses()
			return not{x}, err
		}
		o, err := p.operand()
		if err != nil {
			return nil, err
		}
		x, err := p.test(o)
		return not{x}, err
	}
	if p.peek() == '(' {
		return p.parentheses()
	}
	left, err := p.operand()
	if err != nil {
		return nil, err
	}
	mark := p.at
	p.space()
	operator := p.operator()
	if operator == "" {
		p.at = mark
		return p.test(left)
	}
	if left.operand == nil {
		return nil, p.fail("only a query for a single value, a literal, or length, count and value can be compared")
	}
	p.space()
	right, err := p.operand()
	if err != nil {
		return nil, err
	}
	if right.operand == nil {
		return nil, p.fail("only a query for a single value, a literal, or length, count and value can be compared")
	}
	return &compares{left.operand, right.operand, operator}, nil
}

func (p *parser) parentheses() (expression, error) {
	p.at++ // (
	p.space()
	x, err := p.or()
	if err != nil {
		return nil, err
	}
	p.space()
	return x, p.expect(")")
}

// operator reads a comparison operator, or returns "".
func (p *parser) operator() string {
	for _, operator := range []string{"==", "!=", "<=", ">=", "<", ">"} {
		if p.accept(operator) {
			return operator
		}
	}
	return ""
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
func (p *parser) test(x part) (expression, error) {
	switch {
	case x.logical != nil:
		return x.logical, nil
	case x.query != nil:
		return exists{x.query}, nil
	}
	return nil, p.fail("a value alone is no condition: compare it, as in @.name == 'value'; found %s", p.found())
}

// operand reads a query, a function call or a literal.
func (p *parser) operand() (part, error) {
	switch c := p.peek(); {
	case c == '$' || c == '@':
		p.at++
		q, err := p.segments(c == '$')
		if err != nil {
			return part{}, err
		}
		x := part{query: q}
		if q.singular() {
			x.operand = singular{q}
		}
		return x, nil
	case c == '\'' || c == '"':
		text, err := p.quoted()
		return part{operand: literal{textNode(text)}, literal: true}, err
	case c == '-' || isDigit(c):
		n, err := p.number()
		return part{operand: n, literal: true}, err
	}
	start := p.at
	for c := p.peek(); 'a' <= c && c <= 'z' || p.at > start && (c == '_' || isDigit(c)); c = p.peek() {
		p.at++
	}
	name := p.text[start:p.at]
	if p.peek() == '(' {
		x, err := p.function(name, start)
		return x, err
	}
	switch name {
	case "true", "false", "null":
		return part{operand: literal{&Node{Kind: Kind(name[0]), Raw: []byte(name)}}, literal: true}, nil
	}
	p.at = start
	return part{}, p.fail("expected @, $, a text in quotes, a number, true, false, null or a function, not %s", p.found())
}

// The functions of RFC 9535, section 2.4, and how many arguments they have.
var functions = map[string]int{"length": 1, "count": 1, "value": 1, "match": 2, "search": 2}

// function reads the arguments of a function and checks their types.
func (p *parser) function(name string, start int) (part, error) {
	count, known := functions[name]
	if !known {
		p.at = start
		return part{}, p.fail("function %q is unknown: there are length, count, value, match and search", name)
	}
	leave, err := p.nest()
	if err != nil {
		return part{}, err
	}
	defer leave()
	arguments, err := p.arguments()
	if err != nil {
		return part{}, err
	}
	if len(arguments) != count {
		p.at = start
		return part{}, p.fail("function %s needs %d arguments, not %d", name, count, len(arguments))
	}
	first := arguments[0]
	if name == "count" || name == "value" {
		if first.query == nil {
			p.at = start
			return part{}, p.fail("the argument of function %s must be a query", name)
		}
		if name == "count" {
			return part{operand: countOf{first.query}}, nil
		}
		return part{operand: valueOf{first.query}}, nil
	}
	if slices.ContainsFunc(arguments, func(x part) bool { return x.operand == nil }) {
		p.at = start
		return part{}, p.fail("the arguments of function %s must be single values", name)
	}
	if name == "length" {
		return part{operand: lengthOf{first.operand}}, nil
	}
	x := &matches{text: first.operand, pattern: arguments[1].operand, whole: name == "match"}
	if pattern, fixed := x.pattern.(literal); fixed && pattern.Kind == '"' {
		if x.compiled, err = compilePattern(pattern.Text(), x.whole); err != nil {
			p.at = start
			return part{}, p.fail("%s is not a regular expression: %s", pattern.Raw, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		}
	}
	return part{logical: x}, nil
}

// arguments reads the arguments of a function, in parentheses.
func (p *parser) arguments() ([]part, error) {
	p.at++ // (
	p.space()
	var arguments []part
	if p.accept(")") {
		return nil, nil
	}
	for {
		x, err := p.operand()
		if err != nil {
			return nil, err
		}
		arguments = append(arguments, x)
		p.space()
		if p.accept(",") {
			p.space()
			continue
		}
		return arguments, p.expect(")")
	}
}
