package answer

import (
	"slices"
	"strings"

	"github.com/itchyny/gojq"
)

// A need describes which part of a value an expression can reach. The rest is not decoded. Whether a
// value is null, a boolean, a number, a string, an array or an object is always known, and scalars are
// always complete, so that conditions and type errors do not depend on it.
//
// An expression that only projects (`[.[] | {number, user: .user.login}]`) reaches a small part of a
// typical response, and decoding is most of the cost of a query.
type need struct {
	all    bool             // everything
	names  bool             // the number of elements, or the names of all members
	fields map[string]*need // members by name
	items  *need            // each element of an array, or each member of an object
}

// field returns the need of a member.
func (n *need) field(name string) *need {
	if n.fields == nil {
		n.fields = make(map[string]*need)
	}
	f := n.fields[name]
	if f == nil {
		f = new(need)
		n.fields[name] = f
	}
	return f
}

// each returns the need of each element.
func (n *need) each() *need {
	if n.items == nil {
		n.items = new(need)
	}
	return n.items
}

// add adds the need of other.
func (n *need) add(other *need) {
	n.all = n.all || other.all
	n.names = n.names || other.names
	for name, f := range other.fields {
		n.field(name).add(f)
	}
	if other.items != nil {
		n.each().add(other.items)
	}
}

// finish completes the tree: a member that is reached by its name and as an element has both needs.
func (n *need) finish() {
	if n.all {
		n.fields, n.items = nil, nil
		return
	}
	if n.items != nil {
		for _, f := range n.fields {
			f.add(n.items)
		}
		n.items.finish()
	}
	for _, f := range n.fields {
		f.finish()
	}
}

// needsOf returns the need of an expression: the parts of the input that it can reach.
func needsOf(q *gojq.Query) *need {
	root := new(need)
	a := new(needAnalysis)
	flow(a.query(q, parts{root}))
	if a.unknown {
		return &need{all: true}
	}
	root.finish()
	return root
}

// parts are the parts of the input that the value of an expression may be. A value that the expression
// constructs is not one of them: its components are marked as needed when it is constructed.
type parts []*need

// flow marks parts as needed with everything below them, because they become part of a result or are
// used in a way that the analysis does not know.
func flow(p parts) {
	for _, n := range p {
		n.all = true
	}
}

// shallow marks that the number of elements and the names of members are needed.
func shallow(p parts) {
	for _, n := range p {
		n.names = true
	}
}

// member returns the members of the parts with that name.
func member(p parts, name string) parts {
	result := make(parts, len(p))
	for i, n := range p {
		result[i] = n.field(name)
	}
	return result
}

// elements returns the elements of the parts.
func elements(p parts) parts {
	result := make(parts, len(p))
	for i, n := range p {
		result[i] = n.each()
	}
	return result
}

// both returns the union without changing its arguments.
func both(p, q parts) parts {
	return append(slices.Clip(p), q...)
}

// A needAnalysis follows an expression from its input to its results. It knows paths, pipes,
// constructors, conditions and the functions that projections commonly use. For any other function
// the whole input is needed. Constructs with variables, definitions or caught messages make the whole
// expression unknown.
type needAnalysis struct {
	unknown bool
}

// giveUp marks the expression as unknown, so that the whole input is needed.
func (a *needAnalysis) giveUp() parts {
	a.unknown = true
	return nil
}

// query returns the parts that the results of q may be, for an input that is one of in.
func (a *needAnalysis) query(q *gojq.Query, in parts) parts {
	if q == nil || q.Meta != nil || len(q.Imports) > 0 || len(q.FuncDefs) > 0 || len(q.Patterns) > 0 {
		return a.giveUp()
	}
	if q.Term != nil {
		return a.term(q.Term, in)
	}
	switch q.Op {
	case gojq.OpPipe:
		return a.query(q.Right, a.query(q.Left, in))
	case gojq.OpComma, gojq.OpAlt:
		return both(a.query(q.Left, in), a.query(q.Right, in))
	case gojq.OpAnd, gojq.OpOr:
		a.query(q.Left, in)
		a.query(q.Right, in)
		return nil
	case gojq.OpAdd, gojq.OpSub, gojq.OpMul, gojq.OpDiv, gojq.OpMod,
		gojq.OpEq, gojq.OpNe, gojq.OpGt, gojq.OpLt, gojq.OpGe, gojq.OpLe:
		flow(a.query(q.Left, in))
		flow(a.query(q.Right, in))
		return nil
	}
	return a.giveUp()
}

// term is query for a term with its suffixes.
func (a *needAnalysis) term(t *gojq.Term, in parts) parts {
	out := a.bare(t, in)
	for _, suffix := range t.SuffixList {
		switch {
		case suffix.Index != nil:
			out = a.index(suffix.Index, out, in)
		case suffix.Iter:
			out = elements(out)
		case suffix.Optional:
		default:
			return a.giveUp()
		}
	}
	return out
}

// bare is term without suffixes.
func (a *needAnalysis) bare(t *gojq.Term, in parts) parts {
	switch t.Type {
	case gojq.TermTypeIdentity:
		return in
	case gojq.TermTypeRecurse, gojq.TermTypeFormat:
		flow(in)
		if t.Str != nil {
			a.interpolation(t.Str, in)
		}
		return nil
	case gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse, gojq.TermTypeNumber:
		return nil
	case gojq.TermTypeString:
		a.interpolation(t.Str, in)
		return nil
	case gojq.TermTypeIndex:
		return a.index(t.Index, in, in)
	case gojq.TermTypeFunc:
		return a.function(t.Func, in)
	case gojq.TermTypeObject:
		a.object(t.Object, in)
		return nil
	case gojq.TermTypeArray:
		if t.Array.Query != nil {
			flow(a.query(t.Array.Query, in))
		}
		return nil
	case gojq.TermTypeUnary:
		flow(a.term(t.Unary.Term, in))
		return nil
	case gojq.TermTypeIf:
		return a.condition(t.If, in)
	case gojq.TermTypeTry:
		if t.Try.Catch != nil {
			return a.giveUp()
		}
		return a.query(t.Try.Body, in)
	case gojq.TermTypeQuery:
		return a.query(t.Query, in)
	}
	return a.giveUp()
}

// interpolation marks the parts that a string interpolates.
func (a *needAnalysis) interpolation(s *gojq.String, in parts) {
	for _, q := range s.Queries {
		flow(a.query(q, in))
	}
}

// object marks the parts that an object constructor uses.
func (a *needAnalysis) object(o *gojq.Object, in parts) {
	for _, m := range o.KeyVals {
		name := m.Key
		switch {
		case m.KeyString != nil && len(m.KeyString.Queries) == 0:
			name = m.KeyString.Str
		case m.KeyString != nil:
			a.interpolation(m.KeyString, in)
		case m.KeyQuery != nil:
			flow(a.query(m.KeyQuery, in))
		}
		switch {
		case m.Val != nil:
			flow(a.query(m.Val, in))
		case name == "" || m.Key != "" && strings.HasPrefix(name, "$"):
			a.giveUp()
			return
		default:
			flow(member(in, name))
		}
	}
}

// condition is term for an if.
func (a *needAnalysis) condition(i *gojq.If, in parts) parts {
	a.query(i.Cond, in)
	out := a.query(i.Then, in)
	for _, other := range i.Elif {
		a.query(other.Cond, in)
		out = both(out, a.query(other.Then, in))
	}
	if i.Else == nil {
		return both(out, in)
	}
	return both(out, a.query(i.Else, in))
}

// index returns the parts that an index of a value may be. The value is one of of. Expressions in the
// index have the input in.
func (a *needAnalysis) index(i *gojq.Index, of, in parts) parts {
	switch {
	case i.Name != "":
		return member(of, i.Name)
	case i.Str != nil && len(i.Str.Queries) == 0:
		return member(of, i.Str.Str)
	case i.Str != nil:
		a.interpolation(i.Str, in)
		flow(of)
		return nil
	case i.IsSlice:
		for _, bound := range []*gojq.Query{i.Start, i.End} {
			if bound != nil {
				flow(a.query(bound, in))
			}
		}
		return of // a slice has elements of the same need
	case isNumber(i.Start):
		return elements(of)
	}
	flow(a.query(i.Start, in))
	flow(of)
	return nil
}

// isNumber reports whether an expression is a number, or a number with a minus sign.
func isNumber(q *gojq.Query) bool {
	if q == nil || q.Term == nil || len(q.Term.SuffixList) > 0 || len(q.FuncDefs) > 0 || len(q.Patterns) > 0 {
		return false
	}
	t := q.Term
	if t.Type == gojq.TermTypeUnary && len(t.Unary.Term.SuffixList) == 0 {
		t = t.Unary.Term
	}
	return t.Type == gojq.TermTypeNumber
}

// function is term for the call of a function. A definition of the expression's own could replace a
// function, but an expression with definitions is unknown.
func (a *needAnalysis) function(f *gojq.Func, in parts) parts {
	if strings.HasPrefix(f.Name, "$") {
		return a.giveUp()
	}
	switch len(f.Args) {
	case 0:
		switch f.Name {
		case "length", "keys", "keys_unsorted":
			shallow(in)
			return nil
		case "not", "type", "empty", "true", "false", "null":
			return nil
		case "first", "last":
			return elements(in)
		case "reverse":
			return in
		}
	case 1:
		switch f.Name {
		case "select":
			a.query(f.Args[0], in)
			return in
		case "map":
			flow(a.query(f.Args[0], elements(in)))
			return nil
		case "first", "last":
			return a.query(f.Args[0], in)
		case "sort_by", "unique_by":
			flow(a.query(f.Args[0], elements(in)))
			shallow(in)
			return in
		case "any", "all":
			a.query(f.Args[0], elements(in))
			return nil
		}
	case 2:
		if f.Name == "limit" {
			flow(a.query(f.Args[0], in))
			return a.query(f.Args[1], in)
		}
	}
	flow(in)
	for _, argument := range f.Args {
		flow(a.query(argument, in))
	}
	return nil
}
