// Package simplify makes JSON Schemas smaller and removes their references, for
// clients that accept only small or self-contained schemas. The result accepts
// every value that the original schema accepts. It may accept more.
//
// Its input is what package schema writes: shared parts are in $defs.
//
//   - [Flatten] replaces each $ref by a copy of its target. A reference that is
//     recursive, or too large, becomes a stub: a schema with only a type and a name.
//   - [FlattenWithin] does the same within a hard size limit, and also replaces
//     deeply nested schemas by stubs.
//   - [Relax] keeps the references. It removes the stub marks that package schema
//     writes, and adjusts the keywords around the stubs.
//
// A stub accepts more than the schema it replaces. Inside keywords such as oneOf
// and not, it would therefore make the whole schema reject more. Such keywords are
// relaxed (oneOf becomes anyOf) or removed.
package simplify

import (
	"bytes"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/schemaview"
	"github.com/fairwayhq/fairway/internal/wire"
)

// A flattener rewrites a schema that has shared parts in $defs. Flattening removes
// $ref and $defs, which OTC and OXP definitions may not contain (their OpenAPI
// documents say "excludes $ref and definitions/schemas for simplicity").
//
// It replaces each reference by a copy of its target. A reference becomes a stub,
// with the type and the name only, if it is recursive or if there is no room for a
// copy. The result accepts every value that the schema accepts, and may accept more.
type flattener struct {
	defs    map[string]definition
	open    map[string]bool // the definitions being written; a reference to one is recursive
	levels  int             // nesting levels of schemas; deeper ones become stubs
	outline bool            // deeper schemas become stubs as well, not only references
	room    int             // maximum size of the output, in bytes
	most    int             // maximum number of bytes to read
	work    int             // bytes read so far, including those whose output was discarded
	dst     []byte
	loose   bool // the part being written accepts more than the schema

	keep bool            // references are kept (Relax)
	wide map[string]bool // the definitions that accept more than before; nil unless keep
}

// A definition is the target of references: a member of $defs.
type definition struct {
	members []wire.Member
	size    int  // in bytes; 0 if it is not an object
	plain   bool // has no references
}

// workPerByte is how many times a flattener may read each byte of the schema and of
// its room. Nested schemas are read several times, once per level. Without a limit,
// schemas whose output is mostly discarded could take unbounded time.
const workPerByte = 16

// flatLevels are the nesting levels to try, in order, until the result fits.
var flatLevels = [...]int{32, 12, 8, 6, 5, 4, 3, 2, 1, 0}

// refKey is the keyword of a reference, and defsPrefix the beginning of its value,
// as package ocp/internal/schema writes them.
const (
	refKey     = `"$ref"`
	defsPrefix = "#/$defs/"
)

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
		if flat, fits := f.flatten(schema); fits {
			return flat
		}
	}
	return schema // unreachable: level 0 always fits
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
	for _, f.levels = range flatLevels {
		if flat, fits := f.flatten(schema); fits {
			return flat
		}
	}
	f.outline = true
	for _, f.levels = range flatLevels {
		if flat, fits := f.flatten(schema); fits {
			return flat
		}
	}
	return nil
}

func newFlattener(schema jsontext.Value) *flattener {
	f := &flattener{defs: make(map[string]definition), open: make(map[string]bool)}
	for _, def := range membersOf(wire.MemberOf(schema, "$defs")) {
		if def.Value.Kind() == '{' {
			f.defs[def.Name] = definition{membersOf(def.Value), len(def.Value), !bytes.Contains(def.Value, []byte(refKey))}
		}
	}
	return f
}

// bound sets the limits for flattening a schema of size bytes into room bytes.
func (f *flattener) bound(room, size int) {
	f.room, f.most = room, workPerByte*(room+size)
}

// flatten writes the schema and reports whether it fits.
func (f *flattener) flatten(schema jsontext.Value) (flat jsontext.Value, fits bool) {
	f.dst, f.loose, f.work = f.dst[:0], false, 0
	f.schema(schema, 0)
	if f.full() {
		return nil, false
	}
	return bytes.Clone(f.dst), true
}

func (f *flattener) full() bool {
	return len(f.dst) > f.room || f.work > f.most
}

// schema writes one schema at the given nesting level.
func (f *flattener) schema(value jsontext.Value, level int) {
	f.work += len(value)
	switch {
	case f.full():
		return
	case value.Kind() != '{' || !f.outline && !bytes.Contains(value, []byte(refKey)) && (!f.keep || !bytes.Contains(value, []byte(StubMark))):
		f.dst = append(f.dst, value...) // includes the boolean schemas true and false
		return
	}
	f.object(membersOf(value), level)
}

// object writes a schema that has these members.
func (f *flattener) object(members []wire.Member, level int) {
	ref := ""
	siblings := make([]wire.Member, 0, len(members))
	for _, m := range members {
		switch {
		case m.Name == "$defs":
		case m.Name == "$ref" && m.Value.Kind() == '"':
			ref = wire.Text(m.Value)
		default:
			siblings = append(siblings, m)
		}
	}
	switch {
	case f.keep:
		f.keywords(slices.DeleteFunc(members, func(m wire.Member) bool { return m.Name == "$defs" }), level)
	case ref != "":
		f.reference(strings.TrimPrefix(ref, defsPrefix), siblings, level)
	case f.outline && level > f.levels:
		f.stub(siblings, "", "")
	default:
		f.keywords(siblings, level)
	}
}

// reference writes a schema that has a $ref and possibly sibling keywords.
func (f *flattener) reference(name string, siblings []wire.Member, level int) {
	def := f.defs[name]
	switch {
	case f.open[name]:
		f.stub(f.remarks(siblings, level), name, ", as above")
		return
	case def.size == 0 || level > f.levels && !def.brief(name):
		f.stub(f.remarks(siblings, level), name, leftOut)
		return
	}
	if slices.ContainsFunc(siblings, func(m wire.Member) bool { return !schemaview.IsAnnotation(m.Name) }) {
		f.keywords(together(siblings, name), level)
		return
	}
	f.work += def.size
	merged := slices.Clip(siblings)
	for _, m := range def.members {
		if !slices.ContainsFunc(siblings, func(own wire.Member) bool { return own.Name == m.Name }) {
			merged = append(merged, m)
		}
	}
	f.open[name] = true
	f.object(merged, level)
	delete(f.open, name)
}

// leftOut is the note on a stub that replaces details for lack of room.
const leftOut = " (details left out)"

// brief reports whether a stub would not be shorter than the definition itself.
func (d *definition) brief(name string) bool {
	return d.plain && d.size <= len(`{"type":"string","description":""}`)+len(name)+len(leftOut)
}

// remarks returns the siblings of a reference that may stay when the reference
// becomes a stub. Other keywords are dropped, since their effect may depend on the
// target of the reference (unevaluatedProperties does), or on a keyword that has
// references of its own.
func (f *flattener) remarks(siblings []wire.Member, level int) []wire.Member {
	if level > f.levels && f.outline {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(siblings), func(m wire.Member) bool {
		return !schemaview.IsAnnotation(m.Name) && m.Name != "type" && m.Name != "enum" && m.Name != "const"
	})
}

// together moves a reference with sibling keywords into a part of an allOf.
func together(siblings []wire.Member, name string) []wire.Member {
	part := append(wire.AppendString([]byte(`{"$ref":`), defsPrefix+name), '}')
	var rest []wire.Member
	all := []byte{'['}
	for _, m := range siblings {
		if m.Name != "allOf" || len(m.Value) < 3 {
			rest = append(rest, m)
			continue
		}
		all = append(append(all, m.Value[1:len(m.Value)-1]...), ',')
	}
	return append(rest, wire.Member{Name: "allOf", Value: append(append(all, part...), ']')})
}

// stub writes a schema without its details. If name is empty, it keeps only the type.
// Otherwise members are the remarks beside a reference to the definition name, and
// the stub has them, the definition's type and a description.
func (f *flattener) stub(members []wire.Member, name, note string) {
	f.loose = true
	f.dst = append(f.dst, '{')
	described, typed := false, false
	for _, m := range members {
		if name == "" && m.Name != "type" {
			continue
		}
		described = described || m.Name == "description"
		typed = typed || m.Name == "type"
		f.dst = appendName(f.dst, m.Name)
		f.dst = append(f.dst, m.Value...)
	}
	if types := f.typesOf(name); !typed && types != nil {
		f.dst = appendName(f.dst, "type")
		f.dst = append(f.dst, types...)
	}
	if !described && name != "" {
		f.dst = appendName(f.dst, "description")
		f.dst = wire.AppendString(f.dst, name+note)
	}
	f.dst = append(f.dst, '}')
}

// typesOf returns the value of the definition's type keyword, or nil if it has none.
func (f *flattener) typesOf(name string) jsontext.Value {
	const most = 8 // length of a chain of references
	for range most {
		next := ""
		for _, m := range f.defs[name].members {
			switch m.Name {
			case "type":
				return m.Value
			case "$ref":
				next = wire.Text(m.Value)
			}
		}
		if next == "" {
			return nil
		}
		name = strings.TrimPrefix(next, defsPrefix)
	}
	return nil
}

// keywords writes a schema that is not a reference. If it contains a stub, keywords
// that would reject more because of the stub are relaxed or removed.
func (f *flattener) keywords(members []wire.Member, level int) {
	outer := f.loose
	f.loose = false
	f.dst = append(f.dst, '{')
	var last []wire.Member // keywords whose effect depends on all others
	for _, m := range members {
		switch {
		case f.full():
			return
		case m.Name == "unevaluatedProperties" || m.Name == "unevaluatedItems":
			last = append(last, m)
		default:
			f.keyword(m, members, level)
		}
	}
	for _, m := range last {
		if !f.loose {
			f.keyword(m, members, level)
		}
	}
	f.dst = append(f.dst, '}')
	f.loose = f.loose || outer
}

func (f *flattener) keyword(m wire.Member, siblings []wire.Member, level int) {
	start, outer := len(f.dst), f.loose
	f.loose = false
	f.dst = appendName(f.dst, m.Name)
	switch m.Name {
	case "properties", "patternProperties", "dependentSchemas":
		f.named(m.Value, level+1)
	case "allOf", "anyOf", "oneOf", "prefixItems":
		f.list(m.Value, level+1)
	case "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
		"unevaluatedProperties", "unevaluatedItems", "contentSchema":
		f.schema(m.Value, level+1)
	case "$ref":
		f.dst = append(f.dst, m.Value...)
		f.loose = f.wide[strings.TrimPrefix(wire.Text(m.Value), defsPrefix)]
	case stubKey:
		if f.keep {
			f.dst = f.dst[:start]
			f.loose = true
			break
		}
		f.dst = append(f.dst, m.Value...)
	default:
		f.dst = append(f.dst, m.Value...)
	}
	if f.loose {
		switch m.Name {
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
func (f *flattener) choose(start int, siblings []wire.Member) {
	if slices.ContainsFunc(siblings, func(m wire.Member) bool { return m.Name == "anyOf" }) {
		f.dst = f.dst[:start]
		return
	}
	if f.dst[start] == ',' {
		start++
	}
	copy(f.dst[start:], `"anyOf"`)
}

// named writes an object whose member values are schemas.
func (f *flattener) named(value jsontext.Value, level int) {
	f.dst = append(f.dst, '{')
	for _, m := range membersOf(value) {
		f.dst = appendName(f.dst, m.Name)
		f.schema(m.Value, level)
	}
	f.dst = append(f.dst, '}')
}

// list writes an array of schemas.
func (f *flattener) list(value jsontext.Value, level int) {
	f.dst = append(f.dst, '[')
	for walk := wire.Into(value); walk.Next(); {
		if f.dst[len(f.dst)-1] != '[' {
			f.dst = append(f.dst, ',')
		}
		f.schema(walk.Value, level)
	}
	f.dst = append(f.dst, ']')
}

// membersOf returns the members of an object that is known to be valid JSON.
func membersOf(object jsontext.Value) (members []wire.Member) {
	if object.Kind() != '{' {
		return nil
	}
	for walk := wire.Into(object); walk.Next(); {
		members = append(members, wire.Member{Name: wire.Text(walk.Name), Value: walk.Value})
	}
	return members
}

func appendName(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(wire.AppendString(dst, name), ':')
}
