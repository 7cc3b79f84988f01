package simplify

import (
	"bytes"
	"math"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// StubMark is the first member of a schema from which details were left out. No
// document has it, since keywords that JSON Schema does not know are never written.
const StubMark = `"` + stubKey + `":true`

const stubKey = "$stub"

// maxRelaxRounds is how often the definitions are read to learn which of them have
// stubs, themselves or in others that they refer to. Then all count as if they had.
const maxRelaxRounds = 8

// Relax takes the stub marks out of a schema and relaxes what would refuse more for
// a stub than the schema did before: a oneOf becomes an anyOf, and not, if, contains
// and unevaluatedProperties are left out.
func Relax(schema jsontext.Value) jsontext.Value {
	if !bytes.Contains(schema, []byte(StubMark)) {
		return schema
	}
	f := &flattener{keep: true, room: math.MaxInt, most: math.MaxInt, wide: make(map[string]bool)}
	var defs []wire.Member
	for _, m := range membersOf(schema) {
		if m.Name == "$defs" {
			defs = membersOf(m.Value)
		}
	}
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

// findWide learns which definitions accept more than before.
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

// relaxed returns one schema relaxed.
func (f *flattener) relaxed(schema jsontext.Value) []byte {
	f.dst, f.loose = f.dst[:0], false
	f.relaxing(schema)
	return bytes.Clone(f.dst)
}

// relaxing writes a schema, whose references may lead to definitions with stubs.
func (f *flattener) relaxing(schema jsontext.Value) {
	if schema.Kind() != '{' {
		f.dst = append(f.dst, schema...)
		return
	}
	f.object(membersOf(schema), 0)
}
