package schema

// A stub accepts more than the schema it replaces. Inside keywords such as oneOf
// and not, it would therefore make the whole schema reject more. Such keywords are
// relaxed (oneOf becomes anyOf) or removed.

import (
	"bytes"
	"math"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// A flattener rewrites a schema that has shared parts in $defs. Flattening removes
// $ref and $defs, which OTC and OXP definitions may not contain (their OpenAPI
// documents say "excludes $ref and definitions/schemas for simplicity").
//
// It replaces each reference by a copy of its target. A reference becomes a stub,
// with the type and the name only, if it is recursive or if there is no room for a
// copy. The result accepts every value that the schema accepts, and may accept more.
type flattener struct {
	*Root
	open    map[string]bool // the definitions being written; a reference to one is recursive
	levels  int             // nesting levels of schemas; deeper ones become stubs
	outline bool            // deeper schemas become stubs as well, not only references
	room    int             // maximum size of the output, in bytes
	most    int             // maximum number of bytes to read
	work    int             // bytes read so far, including those whose output was discarded
	dst     []byte
	loose   bool // the part being written accepts more than the schema

	keep bool           // references are kept (Relax)
	wide map[*Tree]bool // the definitions that accept more than before; nil unless keep
}

// workPerByte is how many times a flattener may read each byte of the schema and of
// its room. Nested schemas are read several times, once per level. Without a limit,
// schemas whose output is mostly discarded could take unbounded time.
const workPerByte = 16

// flatLevels are the nesting levels to try, in order, until the result fits.
var flatLevels = [...]int{32, 12, 8, 6, 5, 4, 3, 2, 1, 0}

// refKey is the keyword of a reference, as package tools/schema writes it.
const refKey = `"$ref"`

// Flatten returns the schema without $ref, in about room bytes. It shortens only
// what references lead to. The text of the schema itself is never cut, so the
// result is larger than room if that text is. The result accepts every value that
// the schema accepts.
func Flatten(schema jsontext.Value, room int) jsontext.Value {
	if !bytes.Contains(schema, []byte(refKey)) {
		return schema
	}
	f := newFlattener(schema)
	for _, f.levels = range flatLevels {
		f.bound(room, len(schema))
		if f.levels == 0 { // the last attempt has no limit: each schema is read once
			f.room, f.most = math.MaxInt, math.MaxInt
		}
		if flat, fits := f.flatten(); fits {
			return flat
		}
	}
	return nil // the last attempt always fits
}

// FlattenWithin returns the schema without $ref in at most room bytes, with as much
// detail as fits. It returns nil if nothing fits. The result accepts every value
// that the schema accepts.
func FlattenWithin(schema jsontext.Value, room int) jsontext.Value {
	if len(schema) <= room && !bytes.Contains(schema, []byte(refKey)) {
		return schema
	}
	f := newFlattener(schema)
	f.bound(room, len(schema))
	// Shorten references first: a definition's own text is more useful than the
	// text of the definitions it refers to.
	for _, f.outline = range []bool{false, true} {
		for _, f.levels = range flatLevels {
			if flat, fits := f.flatten(); fits {
				return flat
			}
		}
	}
	return nil
}

func newFlattener(schema jsontext.Value) *flattener {
	root, _ := Parse(schema)
	return &flattener{Root: root, open: make(map[string]bool)}
}

// bound sets the limits for flattening a schema of size bytes into room bytes.
func (f *flattener) bound(room, size int) {
	f.room, f.most = room, workPerByte*(room+size)
}

// flatten writes the schema and reports whether it fits.
func (f *flattener) flatten() (flat jsontext.Value, fits bool) {
	f.dst, f.loose, f.work = f.dst[:0], false, 0
	f.schema(f.Tree, 0)
	if f.full() {
		return nil, false
	}
	return bytes.Clone(f.dst), true
}

func (f *flattener) full() bool {
	return len(f.dst) > f.room || f.work > f.most
}

// schema writes one schema at the given nesting level.
func (f *flattener) schema(t *Tree, level int) {
	f.work += len(t.Text)
	switch {
	case f.full():
	case t.Text.Kind() != '{', !f.outline && !t.refers && (!f.keep || !t.stubbed):
		f.dst = append(f.dst, t.Text...)
	default:
		f.object(t.Keywords, level)
	}
}

// object writes a schema that has these keywords.
func (f *flattener) object(all []Keyword, level int) {
	name, refers := "", false
	others := make([]Keyword, 0, len(all)) // neither $defs nor $ref
	for _, k := range all {
		switch {
		case k.Name == "$defs":
		case k.Name == "$ref" && !f.keep:
			name, refers = definitionOf(k.Value)
		default:
			others = append(others, k)
		}
	}
	switch {
	case refers:
		f.reference(name, others, level)
	case f.outline && level > f.levels:
		f.stub(others, "", "")
	default:
		f.keywords(others, level)
	}
}

// reference writes a schema that has a $ref and possibly sibling keywords.
func (f *flattener) reference(name string, siblings []Keyword, level int) {
	def := f.Definition(name)
	switch {
	case f.open[name]:
		f.stub(f.remarks(siblings, level), name, ", as above")
		return
	case def == nil || def.Text.Kind() != '{' || level > f.levels && !isBrief(def, name):
		f.stub(f.remarks(siblings, level), name, leftOut)
		return
	}
	if slices.ContainsFunc(siblings, func(k Keyword) bool { return !isAnnotation(k.Name) }) {
		f.keywords(besideReference(siblings, name), level)
		return
	}
	f.work += len(def.Text)
	merged := slices.Clip(siblings)
	for _, k := range def.Keywords {
		if !slices.ContainsFunc(siblings, func(own Keyword) bool { return own.Name == k.Name }) {
			merged = append(merged, k)
		}
	}
	f.open[name] = true
	f.object(merged, level)
	delete(f.open, name)
}

// leftOut is the note on a stub that replaces details for lack of room.
const leftOut = " (details left out)"

// isBrief reports whether a stub would not be shorter than the definition itself.
func isBrief(def *Tree, name string) bool {
	return !def.refers && len(def.Text) <= len(`{"type":"string","description":""}`)+len(name)+len(leftOut)
}

// remarks returns the siblings of a reference that may stay when the reference
// becomes a stub. Other keywords are dropped, since their effect may depend on the
// target of the reference (unevaluatedProperties does), or on a keyword that has
// references of its own.
func (f *flattener) remarks(siblings []Keyword, level int) []Keyword {
	if level > f.levels && f.outline {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(siblings), func(k Keyword) bool {
		return !isAnnotation(k.Name) && k.Name != "type" && k.Name != "enum" && k.Name != "const"
	})
}

// besideReference moves a reference with sibling keywords into a part of an allOf.
func besideReference(siblings []Keyword, name string) []Keyword {
	ref := Keyword{Name: "$ref", Value: strictjson.AppendString(nil, definitionPrefix+name)}
	all := Keyword{Name: "allOf", shape: listed}
	var rest []Keyword
	for _, k := range siblings {
		if k.Name == "allOf" {
			all.Parts = slices.Clip(k.Parts)
		} else {
			rest = append(rest, k)
		}
	}
	all.Parts = append(all.Parts, Part{Tree: newTree(jsontext.Value(`{}`), []Keyword{ref})})
	return append(rest, all)
}

// stub writes a schema without its details. If name is empty, it keeps only the type.
// Otherwise the keywords are the remarks beside a reference to the definition name, and
// the stub has them, the definition's type and a description.
func (f *flattener) stub(keywords []Keyword, name, note string) {
	f.loose = true
	f.dst = append(f.dst, '{')
	described, typed := false, false
	for _, k := range keywords {
		if name == "" && k.Name == "enum" && !typed && strictjson.AllStrings(k.Value) {
			k = Keyword{Name: "type", Value: jsontext.Value(`"string"`)}
		}
		if name == "" && k.Name != "type" || typed && k.Name == "type" {
			continue
		}
		described = described || k.Name == "description"
		typed = typed || k.Name == "type"
		f.dst = append(appendName(f.dst, k.Name), k.Value...)
	}
	types := (&Tree{Keywords: keywords}).Value("type")
	if !typed {
		if types = f.typesOf(name); types != nil {
			f.dst = append(appendName(f.dst, "type"), types...)
		}
	}
	if bytes.Contains(types, []byte(`"array"`)) {
		f.dst = append(f.dst, `,"items":{}`...)
	}
	if !described && name != "" {
		f.dst = strictjson.AppendString(appendName(f.dst, "description"), name+note)
	}
	f.dst = append(f.dst, '}')
}

// typesOf returns the value of the definition's type keyword, or nil if it has none.
func (f *flattener) typesOf(name string) jsontext.Value {
	def := f.Definition(name)
	for range MaxReferences {
		if types := def.Value("type"); types != nil {
			return types
		}
		name, _ := def.Ref()
		def = f.Definition(name)
	}
	return nil
}

// keywords writes a schema that is not a reference. If it contains a stub, keywords
// that would reject more because of the stub are relaxed or removed.
func (f *flattener) keywords(keywords []Keyword, level int) {
	outer := f.loose
	f.loose = false
	f.dst = append(f.dst, '{')
	var last []Keyword // keywords whose effect depends on all others
	for _, k := range keywords {
		switch {
		case f.full():
			return
		case k.Name == "unevaluatedProperties" || k.Name == "unevaluatedItems":
			last = append(last, k)
		default:
			f.keyword(k, keywords, level)
		}
	}
	for _, k := range last {
		if !f.loose {
			f.keyword(k, keywords, level)
		}
	}
	f.dst = append(f.dst, '}')
	f.loose = f.loose || outer
}

func (f *flattener) keyword(k Keyword, siblings []Keyword, level int) {
	start, outer := len(f.dst), f.loose
	f.loose = false
	f.dst = appendName(f.dst, k.Name)
	switch {
	case k.shape != plain:
		f.parts(&k, level+1)
	case k.Name == stubKey && f.keep:
		f.dst, f.loose = f.dst[:start], true
	default:
		f.dst = append(f.dst, k.Value...)
		if k.Name == "$ref" {
			name, _ := definitionOf(k.Value)
			f.loose = f.wide[f.Definition(name)]
		}
	}
	if f.loose {
		switch k.Name {
		case "oneOf":
			f.choose(start, siblings)
		case "not", "if", "contains":
			f.dst = f.dst[:start]
		}
	}
	f.loose = f.loose || outer
}

// choose turns the oneOf that begins at start into an anyOf, since a value may now
// match more than one of its subschemas.
func (f *flattener) choose(start int, siblings []Keyword) {
	if slices.ContainsFunc(siblings, func(k Keyword) bool { return k.Name == "anyOf" }) {
		f.dst = f.dst[:start]
		return
	}
	if f.dst[start] == ',' {
		start++
	}
	copy(f.dst[start:], `"anyOf"`)
}

// parts writes the schemas in a keyword.
func (f *flattener) parts(k *Keyword, level int) {
	switch k.shape {
	case named:
		f.dst = append(f.dst, '{')
		for _, part := range k.Parts {
			f.dst = appendName(f.dst, part.Name)
			f.schema(part.Tree, level)
		}
		f.dst = append(f.dst, '}')
	case listed:
		f.dst = append(f.dst, '[')
		for _, part := range k.Parts {
			f.dst = strictjson.Comma(f.dst)
			f.schema(part.Tree, level)
		}
		f.dst = append(f.dst, ']')
	default:
		f.schema(k.Parts[0].Tree, level)
	}
}

// appendName begins a member of an object.
func appendName(dst []byte, name string) []byte {
	return append(strictjson.AppendString(strictjson.Comma(dst), name), ':')
}

// stubMark is the first member of a schema whose details were left out. It cannot
// come from a document, since package schema does not write unknown keywords.
const stubMark = `"` + stubKey + `":true`

const stubKey = "$stub"

// maxRelaxRounds is how many times the definitions are read to find those that
// contain stubs, directly or through references. If that is not enough, all
// definitions are treated as if they contained stubs.
const maxRelaxRounds = 8

// Relax removes the stub marks from a schema and relaxes the keywords that would
// otherwise reject more because of a stub. A oneOf becomes an anyOf. The keywords
// not, if, contains, unevaluatedProperties and unevaluatedItems are removed.
func Relax(schema jsontext.Value) jsontext.Value {
	if !bytes.Contains(schema, []byte(stubMark)) {
		return schema
	}
	f := newFlattener(schema)
	f.keep, f.room, f.most, f.wide = true, math.MaxInt, math.MaxInt, make(map[*Tree]bool)
	defs := f.Parts("$defs")
	f.findWide(defs)
	f.dst = nil
	f.schema(f.Tree, 0)
	if len(defs) > 0 {
		f.dst = append(appendName(f.dst[:len(f.dst)-1], "$defs"), '{')
		for _, def := range defs {
			f.dst = appendName(f.dst, def.Name)
			f.schema(def.Tree, 0)
		}
		f.dst = append(f.dst, "}}"...)
	}
	return f.dst
}

// findWide finds the definitions that accept more than before.
func (f *flattener) findWide(defs []Part) {
	for range maxRelaxRounds {
		more := false
		for _, def := range defs {
			f.dst, f.loose = f.dst[:0], false
			if f.schema(def.Tree, 0); f.loose && !f.wide[def.Tree] {
				f.wide[def.Tree], more = true, true
			}
		}
		if !more {
			return
		}
	}
	for _, def := range defs {
		f.wide[def.Tree] = true
	}
}
