// Package simplify makes JSON Schemas smaller. What it returns accepts all that the
// schema accepts, and may accept more: where details are left out, a stub says the
// type, and keywords that would refuse more because of a stub are relaxed or left
// out. Schemas are those that package schema writes: shared parts are in $defs.
package simplify

import (
	"bytes"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// A flattener writes a schema whose shared parts are in $defs without $ref and
// $defs, which definitions may not have ("excludes $ref and definitions/schemas
// for simplicity", in the OpenAPI documents of OTC and of OXP). Each reference
// gives way to a copy of what it names. One that leads back to where it stands,
// or for which there is no room, becomes a stub: the type and the name. So what
// is written accepts all that the schema does, and may accept more.
type flattener struct {
	defs    map[string]definition
	open    map[string]bool // the definitions that are being written
	levels  int             // of schemas inside each other; stubs stand below
	outline bool            // below are stubs for all schemas, not only for references
	room    int             // bytes
	most    int             // bytes that may be read
	work    int             // bytes that have been read, for what is taken back as well
	dst     []byte
	loose   bool // a stub has been written

	keep bool            // references stay as they are
	wide map[string]bool // of the definitions those that accept more than before; nil unless keep
}

// A definition is what references lead to.
type definition struct {
	members []wire.Member
	size    int  // bytes; 0 for what is no object
	plain   bool // without references
}

// workPerByte is how often a flattener may read each byte of the schema and of its
// room. Depth alone makes it several times; where much of what is written is taken
// back, it would be without end.
const workPerByte = 16

// flatLevels are the depths at which flattening is tried until there is room.
var flatLevels = [...]int{32, 12, 8, 6, 5, 4, 3, 2, 1, 0}

// refKey is how a reference begins, as package ocp/schema writes it.
const (
	refKey     = `"$ref"`
	defsPrefix = "#/$defs/"
)

// Flatten returns a schema without $ref, in about room bytes if it had any: its own
// text is never cut. What it returns accepts all that the schema accepts.
func Flatten(schema jsontext.Value, room int) jsontext.Value {
	if !bytes.Contains(schema, []byte(refKey)) {
		return schema
	}
	f := newFlattener(schema)
	for _, f.levels = range flatLevels {
		f.bound(room, len(schema))
		if f.levels == 0 { // each schema is read once
			f.room, f.most = math.MaxInt, math.MaxInt
		}
		if flat, fits := f.flatten(schema); fits {
			return flat
		}
	}
	return schema // not reached
}

// FlattenWithin returns as much of a schema without $ref as there is room for, in
// bytes; nil if that is nothing. What it returns accepts all that the schema
// accepts.
func FlattenWithin(schema jsontext.Value, room int) jsontext.Value {
	if len(schema) <= room && !bytes.Contains(schema, []byte(refKey)) {
		return schema
	}
	f := newFlattener(schema)
	f.bound(room, len(schema))
	// References first: what a definition says of itself is of more use than
	// what those that it refers to say.
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
	for _, m := range membersOf(schema) {
		if m.Name != "$defs" {
			continue
		}
		for _, def := range membersOf(m.Value) {
			if def.Value.Kind() == '{' {
				f.defs[def.Name] = definition{membersOf(def.Value), len(def.Value), !bytes.Contains(def.Value, []byte(refKey))}
			}
		}
	}
	return f
}

// bound sets what a schema of so many bytes may take.
func (f *flattener) bound(room, size int) {
	f.room, f.most = room, workPerByte*(room+size)
}

// flatten writes the schema, and reports whether there was room for it.
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

// schema writes one schema that stands so many levels deep.
func (f *flattener) schema(value jsontext.Value, level int) {
	f.work += len(value)
	switch {
	case f.full():
		return
	case value.Kind() != '{' || !f.outline && !bytes.Contains(value, []byte(refKey)) && (!f.keep || !bytes.Contains(value, []byte(StubMark))):
		f.dst = append(f.dst, value...) // true and false among them
		return
	}
	f.object(membersOf(value), level)
}

// object writes a schema of these members.
func (f *flattener) object(members []wire.Member, level int) {
	ref := ""
	siblings := make([]wire.Member, 0, len(members))
	for _, m := range members {
		switch {
		case m.Name == "$defs":
		case m.Name == "$ref" && m.Value.Kind() == '"':
			ref = textOf(m.Value)
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

// reference writes a schema that refers to a definition and may say more.
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
	if slices.ContainsFunc(siblings, func(m wire.Member) bool { return !IsRemark(m.Name) }) {
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

// leftOut is what a stub says for want of room.
const leftOut = " (details left out)"

// brief reports whether a stub would be about as long as the definition, or longer.
func (d *definition) brief(name string) bool {
	return d.plain && d.size <= len(`{"type":"string","description":""}`)+len(name)+len(leftOut)
}

// remarks returns what stands beside a reference that becomes a stub and can stand
// there alone. Other keywords may judge by what the reference leads to, as
// unevaluatedProperties does, or by another that has references of its own.
func (f *flattener) remarks(siblings []wire.Member, level int) []wire.Member {
	if level > f.levels && f.outline {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(siblings), func(m wire.Member) bool {
		return !IsRemark(m.Name) && m.Name != "type" && m.Name != "enum" && m.Name != "const"
	})
}

// together makes a reference that keywords beside it add to one part of an allOf.
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

// IsRemark reports whether the keyword judges nothing.
func IsRemark(keyword string) bool {
	switch keyword {
	case "title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly", "$comment":
		return true
	}
	return false
}

// stub writes what is known of a schema without what is in it. With a name these
// are the remarks that stand beside a reference to it.
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

// typesOf returns the type of a definition as it is written there, nil if it says
// none.
func (f *flattener) typesOf(name string) jsontext.Value {
	const most = 8 // references in a row
	for range most {
		next := ""
		for _, m := range f.defs[name].members {
			switch m.Name {
			case "type":
				return m.Value
			case "$ref":
				next = textOf(m.Value)
			}
		}
		if next == "" {
			return nil
		}
		name = strings.TrimPrefix(next, defsPrefix)
	}
	return nil
}

// keywords writes a schema that is no reference. What a stub in it would make
// refuse more than before is relaxed or left out.
func (f *flattener) keywords(members []wire.Member, level int) {
	outer := f.loose
	f.loose = false
	f.dst = append(f.dst, '{')
	var last []wire.Member // what depends on all others
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
		f.loose = f.wide[strings.TrimPrefix(textOf(m.Value), defsPrefix)]
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

// choose turns a oneOf that began at start into an anyOf, as more than one part of
// it may accept a value now.
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

// named writes an object of schemas.
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

// membersOf returns the members of an object that has been checked already.
func membersOf(object jsontext.Value) (members []wire.Member) {
	if object.Kind() != '{' {
		return nil
	}
	for walk := wire.Into(object); walk.Next(); {
		members = append(members, wire.Member{Name: textOf(walk.Name), Value: walk.Value})
	}
	return members
}

// textOf returns the text of a JSON string, "" for any other value.
func textOf(value jsontext.Value) string {
	if value.Kind() != '"' {
		return ""
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1])
	}
	plain, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return ""
	}
	return string(plain)
}

func appendName(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(wire.AppendString(dst, name), ':')
}
