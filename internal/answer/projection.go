package answer

import (
	"bytes"
	"slices"
	"strings"

	"github.com/itchyny/gojq"

	"github.com/fairwayhq/fairway/internal/wire"
)

// A projection is an expression that only picks parts of its input, such as
// `{total: length, items: [.[] | {number, user: .user.login}]}`. Most expressions of operators are of
// this kind. A projection is evaluated on the bytes, which is several times faster than decoding them
// and interpreting the expression. It supports common inputs only: where the interpreter would fail or
// have an unusual result, the evaluation stops, and the interpreter evaluates the expression.
//
// A projection has exactly one result.
type projection struct {
	kind   projectionKind
	path   []string      // names of the members that lead from the input to the value that is projected
	names  []string      // of an object's members, as JSON with the colon, in the order of the output
	values []*projection // of an object's members
	each   *projection   // of each element
}

type projectionKind uint8

const (
	pickValue  projectionKind = iota // the value at the path
	pickLength                       // its length
	pickObject                       // an object of projections of it
	pickEach                         // an array of a projection of each of its elements
)

// projectionOf returns the projection that is equal to the expression, nil if there is none.
func projectionOf(q *gojq.Query) *projection {
	if q == nil || q.Meta != nil || len(q.Imports) > 0 || len(q.FuncDefs) > 0 || len(q.Patterns) > 0 {
		return nil
	}
	if q.Term == nil {
		if q.Op != gojq.OpPipe {
			return nil
		}
		left, right := projectionOf(q.Left), projectionOf(q.Right)
		return left.then(right)
	}
	return projectionOfTerm(q.Term)
}

// then returns the projection that applies next to the value at the path of p.
func (p *projection) then(next *projection) *projection {
	if p == nil || next == nil || p.kind != pickValue {
		return nil
	}
	joined := *next
	joined.path = slices.Concat(p.path, next.path)
	return &joined
}

func projectionOfTerm(t *gojq.Term) *projection {
	names, ok := namesOf(t.SuffixList)
	if !ok {
		return nil
	}
	var p *projection
	switch t.Type {
	case gojq.TermTypeIdentity:
		p = new(projection)
	case gojq.TermTypeIndex:
		if name, ok := nameOf(t.Index); ok {
			p = &projection{path: []string{name}}
		}
	case gojq.TermTypeQuery:
		p = projectionOf(t.Query)
	case gojq.TermTypeObject:
		p = projectionOfObject(t.Object)
	case gojq.TermTypeArray:
		p = projectionOfArray(t.Array.Query)
	case gojq.TermTypeFunc:
		switch {
		case t.Func.Name == "length" && len(t.Func.Args) == 0:
			p = &projection{kind: pickLength}
		case t.Func.Name == "map" && len(t.Func.Args) == 1:
			p = eachOf(new(projection), projectionOf(t.Func.Args[0]))
		}
	}
	if len(names) > 0 {
		return p.then(&projection{path: names})
	}
	return p
}

// nameOf returns the name of an index that is one.
func nameOf(i *gojq.Index) (string, bool) {
	switch {
	case i.Name != "":
		return i.Name, true
	case i.Str != nil && len(i.Str.Queries) == 0:
		return i.Str.Str, true
	}
	return "", false
}

// namesOf returns the names of suffixes that are all names.
func namesOf(suffixes []*gojq.Suffix) (names []string, ok bool) {
	for _, s := range suffixes {
		if s.Index == nil {
			return nil, false
		}
		name, ok := nameOf(s.Index)
		if !ok {
			return nil, false
		}
		names = append(names, name)
	}
	return names, true
}

func projectionOfObject(o *gojq.Object) *projection {
	p := &projection{kind: pickObject}
	members := make(map[string]*projection, len(o.KeyVals))
	for _, m := range o.KeyVals {
		name := m.Key
		if m.KeyString != nil && len(m.KeyString.Queries) == 0 {
			name = m.KeyString.Str
		} else if m.Key == "" || strings.HasPrefix(m.Key, "$") {
			return nil
		}
		value := &projection{path: []string{name}}
		if m.Val != nil {
			value = projectionOf(m.Val)
		}
		if _, twice := members[name]; twice || value == nil {
			return nil
		}
		members[name] = value
	}
	sorted := make([]string, 0, len(members))
	for name := range members {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	for _, name := range sorted {
		p.names = append(p.names, string(append(wire.AppendString(nil, name), ':')))
		p.values = append(p.values, members[name])
	}
	return p
}

// projectionOfArray returns the projection for [q], in which q iterates once: `[.a[] | f]`.
func projectionOfArray(q *gojq.Query) *projection {
	if q == nil || q.Meta != nil || len(q.Imports) > 0 || len(q.FuncDefs) > 0 || len(q.Patterns) > 0 {
		return nil
	}
	if q.Term == nil && q.Op == gojq.OpPipe {
		if array := projectionOfArray(q.Left); array != nil { // `.a[] | f`
			joined := *array
			if joined.each = array.each.then(projectionOf(q.Right)); joined.each == nil {
				return nil
			}
			return &joined
		}
		return projectionOf(q.Left).then(projectionOfArray(q.Right)) // `.a | .[]`
	}
	if q.Term == nil {
		return nil
	}
	at := slices.IndexFunc(q.Term.SuffixList, func(s *gojq.Suffix) bool { return s.Iter })
	if at < 0 {
		return nil
	}
	before := *q.Term
	before.SuffixList = q.Term.SuffixList[:at]
	names, ok := namesOf(q.Term.SuffixList[at+1:])
	if !ok {
		return nil
	}
	return eachOf(projectionOfTerm(&before), &projection{path: names})
}

// eachOf returns the projection of the elements of the value at the path of array.
func eachOf(array, each *projection) *projection {
	if array == nil || each == nil || array.kind != pickValue {
		return nil
	}
	return &projection{kind: pickEach, path: array.path, each: each}
}

// A projector evaluates a projection on valid JSON.
type projector struct {
	decoder
	out    []byte
	limit  int // of out
	budget *queryBudget
	known  []knownMember // of the objects that are open, see object
	last   span          // the object whose evaluation ended last
}

// A knownMember is a member of an object in the input.
type knownMember struct {
	name  []byte // without quotes
	value int    // where its value begins
}

// absent is the position of a value that the input does not have.
const absent = -1

// project appends the result of p on the body to dst. It returns false if the interpreter must evaluate the
// expression instead.
func (p *projection) project(dst, body []byte, budget *queryBudget) ([]byte, bool) {
	e := projector{decoder: decoder{data: body}, out: dst, limit: len(dst) + MaxQueryOutput, budget: budget}
	e.next()
	ok := e.evaluate(p, e.at, nil)
	return e.out, ok && len(e.out) <= e.limit
}

// evaluate appends the result of p on the value at a position. Known has its members, if it is an object
// whose members are known.
func (e *projector) evaluate(p *projection, at int, known []knownMember) bool {
	for i, name := range p.path {
		var ok bool
		if i > 0 {
			known = nil
		}
		if at, ok = e.lookup(at, name, known); !ok {
			return false
		}
	}
	if len(p.path) > 0 {
		known = nil
	}
	switch p.kind {
	case pickValue:
		return e.value(at)
	case pickLength:
		return e.length(at)
	case pickObject:
		return e.object(p, at, known)
	}
	return e.elements(p, at)
}

// lookup returns the position of a member of an object. Of null, every member is absent.
func (e *projector) lookup(at int, name string, known []knownMember) (int, bool) {
	if known != nil {
		for _, member := range slices.Backward(known) {
			if string(member.name) == name {
				return member.value, true
			}
		}
		return absent, true
	}
	if at == absent || e.data[at] == 'n' {
		return absent, true
	}
	if e.data[at] != '{' {
		return 0, false
	}
	found, ok := absent, true
	e.at = at
	e.walk(func(key []byte) {
		switch {
		case bytes.IndexByte(key, '\\') >= 0:
			ok = false // an escaped name is left to the interpreter
		case string(key) == name:
			found = e.at
		}
	})
	return found, ok
}

// walk calls visit for each member of the object at the current position. The position is then that of
// its value.
func (e *projector) walk(visit func(name []byte)) {
	e.at++
	for e.more() {
		e.next()
		start := e.at
		e.skip()
		name := e.data[start+1 : e.at-1]
		e.next()
		e.at++ // the colon
		e.next()
		value := e.at
		visit(name)
		e.at = value
		e.skip()
	}
}

// value appends a value. Arrays and objects are decoded, so that their members are in the same order as
// in other results.
func (e *projector) value(at int) bool {
	if at == absent {
		e.out = append(e.out, "null"...)
		return true
	}
	e.at = at
	switch e.data[at] {
	case '{', '[':
		e.skip()
		e.out = appendValue(e.out, decode(e.data[at:e.at], complete), e.limit)
	case '"':
		e.skip()
		if text := e.data[at+1 : e.at-1]; bytes.IndexByte(text, '\\') < 0 {
			e.out = wire.AppendString(e.out, text)
		} else {
			e.out = wire.AppendString(e.out, unquoted(text))
		}
	default:
		e.skip()
		e.out = append(e.out, e.data[at:e.at]...)
	}
	return len(e.out) <= e.limit
}

// length appends the length of an array, or of null.
func (e *projector) length(at int) bool {
	count := 0
	switch {
	case at == absent || e.data[at] == 'n':
	case e.data[at] == '[':
		e.at = at + 1
		for e.more() {
			e.skip()
			count++
		}
	default:
		return false
	}
	e.out = appendScalar(e.out, count)
	return true
}

// object appends an object of projections of the value, whose members are found in one pass.
func (e *projector) object(p *projection, at int, known []knownMember) bool {
	if known == nil && at != absent && e.data[at] == '{' && len(p.values) > 1 {
		base := len(e.known)
		e.at = at
		escaped := false
		e.walk(func(name []byte) {
			escaped = escaped || bytes.IndexByte(name, '\\') >= 0
			e.known = append(e.known, knownMember{name, e.at})
		})
		if escaped {
			return false
		}
		known = e.known[base:len(e.known):len(e.known)]
		if len(known) == 0 {
			known = nil
		}
		end := e.at
		defer func() { e.known, e.last = e.known[:base], span{at, end} }()
	}
	e.out = append(e.out, '{')
	for i, value := range p.values {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.out = append(e.out, p.names[i]...)
		if !e.evaluate(value, at, known) {
			return false
		}
	}
	e.out = append(e.out, '}')
	return true
}

// elements appends an array of a projection of each element.
func (e *projector) elements(p *projection, at int) bool {
	if at == absent || e.data[at] != '[' {
		return false
	}
	e.out = append(e.out, '[')
	first := true
	for e.at = at + 1; e.more(); first = false {
		if !first {
			e.out = append(e.out, ',')
		}
		e.next()
		element := e.at
		if e.budget.Done() != nil || !e.evaluate(p.each, element, nil) {
			return false
		}
		if e.last.start == element && e.last.end > element {
			e.at = e.last.end
			continue
		}
		e.at = element
		e.skip()
	}
	e.out = append(e.out, ']')
	return len(e.out) <= e.limit
}
