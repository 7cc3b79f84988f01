package simplify

import (
	"bytes"
	"math"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// StubMark is the first member of a schema whose details were left out. It cannot
// come from a document, since package schema does not write unknown keywords.
const StubMark = `"` + stubKey + `":true`

const stubKey = "$stub"

// maxRelaxRounds is how many times the definitions are read to find those that
// contain stubs, directly or through references. If that is not enough, all
// definitions are treated as if they contained stubs.
const maxRelaxRounds = 8

// Relax removes the stub marks from a schema and relaxes the keywords that would
// otherwise reject more because of a stub. A oneOf becomes an anyOf. The keywords
// not, if, contains, unevaluatedProperties and unevaluatedItems are removed.
func Relax(schema jsontext.Value) jsontext.Value {
	if !bytes.Contains(schema, []byte(StubMark)) {
		return schema
	}
	f := &flattener{keep: true, room: math.MaxInt, most: math.MaxInt, wide: make(map[string]bool)}
	defs := membersOf(wire.MemberOf(schema, "$defs"))
	f.findWide(defs)
	root := f.relaxed(schema)
	if len(defs) == 0 {
		return root
	}
	whole := appendName(root[:len(root)-1], "$defs")
	whole = append(whole, '{')
	for _, def := range defs {
		whole = append(appendName(whole, def.Name), f.relaxed(def.Value)...)
	}
	return append(whole, "}}"...)
}

// findWide finds the definitions that accept more than before.
func (f *flattener) findWide(defs []wire.Member) {
	for range maxRelaxRounds {
		more := false
		for _, def := range defs {
			if f.wide[def.Name] {
				continue
			}
			if f.relaxed(def.Value); f.loose {
				f.wide[def.Name], more = true, true
			}
		}
		if !more {
			return
		}
	}
	for _, def := range defs {
		f.wide[def.Name] = true
	}
}

// relaxed returns the relaxed form of one schema.
func (f *flattener) relaxed(schema jsontext.Value) []byte {
	f.dst, f.loose = f.dst[:0], false
	f.relaxing(schema)
	return bytes.Clone(f.dst)
}

// relaxing writes the relaxed form of a schema. References in it may lead to
// definitions that contain stubs.
func (f *flattener) relaxing(schema jsontext.Value) {
	if schema.Kind() != '{' {
		f.dst = append(f.dst, schema...)
		return
	}
	f.object(membersOf(schema), 0)
}
