package jsonpath

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// Limits of a query.
const (
	maxQuery   = 4 << 10 // bytes
	maxNesting = 32      // levels of filters, parentheses and functions
)

// A Path is a compiled query. It is immutable.
type Path struct {
	query *query
	text  string
}

// String returns the text of the query.
func (p *Path) String() string { return p.text }

// A query is a sequence of segments that begins at the root ($) or at the current value (@).
type query struct {
	absolute bool
	segments []segment
}

// singular reports whether the query selects at most one value (RFC 9535, section 2.3.5.1).
func (q *query) singular() bool {
	for i := range q.segments {
		s := &q.segments[i]
		if s.descendant || len(s.selectors) != 1 || s.selectors[0].kind != selectName && s.selectors[0].kind != selectIndex {
			return false
		}
	}
	return true
}

type segment struct {
	descendant bool
	selectors  []selector
}

type selectorKind int

const (
	selectName selectorKind = iota
	selectWildcard
	selectIndex
	selectSlice
	selectFilter
)

type selector struct {
	kind             selectorKind
	name             string
	start, end, step int64 // an index is in start
	hasStart, hasEnd bool
	filter           expression
}

// A SyntaxError says what is wrong in a query and where.
type SyntaxError struct {
	Query  string
	Offset int // bytes
	Reason string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s at character %d of %s", e.Reason, utf8.RuneCountInString(e.Query[:e.Offset])+1, e.Query)
}

// Parse compiles a query. An error is a *SyntaxError, unless the query is too long.
func Parse(text string) (path *Path, err error) {
	if len(text) > maxQuery {
		return nil, fmt.Errorf("the query has %d bytes; the limit is %d", len(text), maxQuery)
	}
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("the query is not valid UTF-8")
	}
	p := &parser{text: text}
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case *SyntaxError:
			path, err = nil, cause
		default:
			panic(cause)
		}
	}()
	if !p.accept("$") {
		p.fail("a query begins with $, not with %s", p.found())
	}
	q := p.segments(true)
	if p.at < len(text) {
		p.fail("expected a segment such as .name, ['name'] or ..name, not %s", p.found())
	}
	return &Path{q, text}, nil
}

// A parser reads a query from left to right (RFC 9535, appendix A). Its methods panic with a *SyntaxError, which
// Parse returns.
type parser struct {
	text  string
	at    int // offset of the next byte
	depth int
}

func (p *parser) fail(format string, arguments ...any) {
	panic(&SyntaxError{p.text, p.at, fmt.Sprintf(format, arguments...)})
}

// failAt is fail for an earlier place.
func (p *parser) failAt(at int, format string, arguments ...any) {
	p.at = at
	p.fail(format, arguments...)
}

// found describes the next character for a message.
func (p *parser) found() string {
	if p.at >= len(p.text) {
		return "the end"
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return strconv.QuoteRune(r)
}

// peek returns the next byte, or 0 at the end.
func (p *parser) peek() byte {
	if p.at >= len(p.text) {
		return 0
	}
	return p.text[p.at]
}

// accept consumes the token if the text continues with it.
func (p *parser) accept(token string) bool {
	if !strings.HasPrefix(p.text[p.at:], token) {
		return false
	}
	p.at += len(token)
	return true
}

// acceptSpaced is accept for a token that may follow white space, and that white space may follow.
func (p *parser) acceptSpaced(token string) bool {
	mark := p.at
	if p.space(); !p.accept(token) {
		p.at = mark
		return false
	}
	p.space()
	return true
}

// expect consumes the token or fails.
func (p *parser) expect(token string) {
	if !p.accept(token) {
		p.fail("expected %q, not %s", token, p.found())
	}
}

// space consumes white space.
func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\n\r", p.text[p.at]) >= 0 {
		p.at++
	}
}

// nest counts one more level of nesting. The caller must call the returned function at its end.
func (p *parser) nest() (leave func()) {
	if p.depth++; p.depth > maxNesting {
		p.fail("filters, parentheses and functions nest deeper than %d levels", maxNesting)
	}
	return func() { p.depth-- }
}

// segments reads the segments after $ or @.
func (p *parser) segments(absolute bool) *query {
	q := &query{absolute: absolute}
	for {
		mark := p.at
		p.space()
		s := segment{descendant: p.accept("..")}
		switch {
		case p.peek() == '[':
			s.selectors = p.bracketed()
		case s.descendant || p.accept("."):
			s.selectors = p.shorthand()
		default:
			p.at = mark // white space after a query belongs to what follows
			return q
		}
		q.segments = append(q.segments, s)
	}
}

// shorthand reads a wildcard or a member name after a dot.
func (p *parser) shorthand() []selector {
	if p.accept("*") {
		return []selector{{kind: selectWildcard}}
	}
	start := p.at
	for p.at < len(p.text) {
		c := p.text[p.at]
		if !isNameFirst(c) && (p.at == start || !isDigit(c)) {
			break
		}
		p.at++
	}
	name := p.text[start:p.at]
	if name == "" || p.at < len(p.text) && strings.IndexByte("-/${@", p.text[p.at]) >= 0 {
		p.fail("a name after a dot has only letters, digits and _, not %s: write other names as ['name']", p.found())
	}
	return []selector{{kind: selectName, name: name}}
}

func isNameFirst(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= utf8.RuneSelf
}

func isDigit(c byte) bool {
	return '0' <= c && c <= '9'
}

// bracketed reads the selectors between [ and ].
func (p *parser) bracketed() (selectors []selector) {
	p.at++ // [
	for {
		p.space()
		selectors = append(selectors, p.selector())
		p.space()
		if !p.accept(",") {
			p.expect("]")
			return selectors
		}
	}
}

func (p *parser) selector() selector {
	switch c := p.peek(); {
	case c == '\'' || c == '"':
		return selector{kind: selectName, name: p.quoted()}
	case p.accept("*"):
		return selector{kind: selectWildcard}
	case p.accept("?"):
		p.space()
		return selector{kind: selectFilter, filter: p.or()}
	case c == '-' || c == ':' || isDigit(c):
		return p.indexOrSlice()
	}
	p.fail("expected 'name', a number, *, or ? and a filter, not %s", p.found())
	return selector{}
}

func (p *parser) indexOrSlice() selector {
	s := selector{kind: selectIndex, step: 1}
	s.start, s.hasStart = p.integer()
	if !p.acceptSpaced(":") {
		return s
	}
	s.kind = selectSlice
	s.end, s.hasEnd = p.integer()
	if p.acceptSpaced(":") {
		if step, has := p.integer(); has {
			s.step = step
		}
	}
	return s
}

// maxInteger is the largest exact integer (RFC 9535, section 2.1).
const maxInteger = 1<<53 - 1

// integer reads an optional integer.
func (p *parser) integer() (value int64, has bool) {
	start := p.at
	p.accept("-")
	for isDigit(p.peek()) {
		p.at++
	}
	text := p.text[start:p.at]
	if text == "" {
		return 0, false
	}
	digits := strings.TrimPrefix(text, "-")
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value > maxInteger || value < -maxInteger || text == "-0" || len(digits) > 1 && digits[0] == '0' {
		p.failAt(start, "%s is not an integer as JSONPath writes them", text)
	}
	return value, true
}

// quoted reads a string in single or double quotes.
func (p *parser) quoted() string {
	quote := p.text[p.at]
	start := p.at
	p.at++
	asJSON := []byte{'"'}
	for {
		if p.at >= len(p.text) {
			p.failAt(start, "a text has no closing quote")
		}
		c := p.text[p.at]
		p.at++
		switch {
		case c == quote:
			text, err := jsontext.AppendUnquote(nil, append(asJSON, '"'))
			if err != nil {
				p.failAt(start, "a text has an invalid escape or a control character")
			}
			return string(text)
		case c == '"':
			asJSON = append(asJSON, '\\', '"')
		case c != '\\':
			asJSON = append(asJSON, c)
		case p.peek() == '\'' && quote == '\'':
			asJSON = append(asJSON, '\'')
			p.at++
		case p.peek() == '"' && quote == '\'', p.at >= len(p.text):
			p.fail("an escape is invalid here")
		default:
			asJSON = append(asJSON, '\\', p.text[p.at])
			p.at++
		}
	}
}

// number reads a number literal. The caller has seen a digit or a minus sign.
func (p *parser) number() operand {
	start := p.at
	for p.at < len(p.text) && (isDigit(p.text[p.at]) || strings.IndexByte("+-.eE", p.text[p.at]) >= 0) {
		p.at++
	}
	raw := jsontext.Value(p.text[start:p.at])
	if !raw.IsValid() {
		p.failAt(start, "%s is not a number", raw)
	}
	return literal{&Node{Kind: '0', Raw: raw}}
}

func integer(n int) *Node {
	return &Node{Kind: '0', Raw: strconv.AppendInt(nil, int64(n), 10)}
}

func textNode(s string) *Node {
	return &Node{Kind: '"', Raw: strictjson.AppendString(nil, s)}
}
