// Package schema turns the schemas of OpenAPI documents into JSON Schema
// 2020-12, as MCP clients and validators read it.
//
// A Translator belongs to one build of one document and one direction. It
// writes each $ref target once, as text with holes where other targets are
// referred to (write.go, keywords.go), finds which of them are recursive
// (graph.go), and decides for every hole whether the target is put there or
// named in $defs (component.go). The text of a tool's schema is appended from
// those pieces, so time and memory are linear in the document however its
// references multiply. Whatever is mistyped in a schema is left out and the
// rest kept: the output always compiles.
//
// ObjectOf, Types, Description, Default and IsFile look into a schema without
// translating it; AppendBounded gives as much of a schema as fits a budget.
package schema

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/fairwayhq/fairway/ocp/openapi"
)

// Mode says where the targets of references are written.
type Mode string

// The modes. An empty Mode is Auto.
const (
	Auto   Mode = "auto"   // small targets in place, others in $defs, or as one of the others if that is shorter
	Inline Mode = "inline" // in place as long as the schema stays under a budget
	Defs   Mode = "defs"   // all in $defs
)

// ParseMode returns the mode of that name; "" is Auto.
func ParseMode(name string) (Mode, error) {
	switch mode := Mode(name); mode {
	case "":
		return Auto, nil
	case Auto, Inline, Defs:
		return mode, nil
	}
	return "", fmt.Errorf("unknown schema mode %q: use auto, inline or defs", name)
}

// Direction says who writes the values that a schema describes.
type Direction uint8

// The directions. Input leaves out read-only properties, Output write-only
// ones, at every depth.
const (
	Input  Direction = iota // arguments, written by the caller
	Output                  // answers, written by the API
)

// What a Translator writes is bounded, beside the limits of the document.
const (
	smallTarget   = 600      // bytes of a target that Auto writes in place
	inlineBudget  = 64 << 10 // bytes of a schema that Inline writes without $defs
	maxHeight     = 16       // targets inside each other, all in place
	maxTogether   = 1 << 12  // subschemas that judge one value at once
	maxText       = 8 << 20  // bytes of one target
	maxDepth      = 160      // levels of schemas inside each other in one target
	maxSteps      = 32       // $refs in a row that lead to one schema
	maxWarnings   = 200      // kept for the operator; the others are counted
	maxName       = 120      // bytes of a name in $defs
	maxExample    = 1 << 10  // bytes of an example, which is but a hint
	maxPattern    = 4 << 10  // bytes of a regular expression
	maxProgram    = 1 << 14  // instructions of one, of some 40 bytes each
	maxPrograms   = 1 << 22  // instructions of all of them
	maxNumber     = 40       // bytes of a bound such as minimum
	maxCount      = 15       // digits of a count such as maxLength
	maxHiddenLook = 64       // schemas searched for properties to be left out
)

// A Translator translates the schemas of one document for one direction. It is
// not safe for concurrent use, and it is dropped when the document is built.
type Translator struct {
	direction Direction
	layouts   []layout // that components are measured in, the usual one first
	bare      bool     // leave out what only describes
	stubMark  string   // what each stub begins with

	roots    map[*openapi.Node]*Schema // what was asked for
	targets  map[*openapi.Node]*component
	refs     map[reference]*component // nil: leads nowhere
	names    map[string]int           // of $defs: how often each was asked for
	patterns map[string]int           // instructions it compiles to, 0 if it does not
	programs int                      // instructions of all patterns so far
	writer   writer
	spare    *component   // to be used for the next schema that is asked for
	muted    bool         // warn of nothing
	round    int          // marks the components of one walk
	queue    []*component // of Writing.Measure, to be used again
	warnings []string
	unheard  int // warnings over maxWarnings
}

// reference identifies the target of a $ref by what it says and where.
type reference struct {
	file *openapi.File
	ref  string // as JSON
}

// NewTranslator returns a Translator that has translated nothing yet.
func NewTranslator(mode Mode, direction Direction) *Translator {
	return &Translator{
		layouts:   layoutsOf(mode),
		direction: direction,
		roots:     make(map[*openapi.Node]*Schema),
		targets:   make(map[*openapi.Node]*component),
		refs:      make(map[reference]*component),
		names:     make(map[string]int),
		patterns:  make(map[string]int),
	}
}

func layoutsOf(mode Mode) []layout {
	switch mode {
	case Defs:
		return []layout{defsLayout}
	case Inline:
		return []layout{inlineLayout}
	}
	return []layout{autoLayout, defsLayout, inlineLayout}
}

// A Schema is a translated schema. It is valid as long as its Translator.
type Schema struct {
	t     *Translator
	place openapi.Place
	root  *component // nil if the schema refers to no other, as most do
	text  []byte     // as AppendTo writes it; nil until it does, and after Drop
	size  int        // bytes of text; set if root is nil
}

// Translate translates the schema at place. An absent place, and a value that
// is no schema, allow everything.
func (t *Translator) Translate(place openapi.Place) *Schema {
	if known := t.roots[place.Node]; known != nil {
		return known // operations share parameters and bodies
	}
	s := &Schema{t: t, place: place}
	root := t.spare
	t.spare = nil
	if root == nil {
		root = new(component)
	}
	root.place = place
	t.finish(root)
	if len(root.holes) > 0 {
		s.root = root
	} else {
		s.text, s.size = root.text, len(root.text)
		*root = component{}
		t.spare = root
	}
	if place.Node != nil && t.roots != nil {
		t.roots[place.Node] = s
	}
	return s
}

// AppendTo appends the schema, a JSON object that refers to shared parts as
// {"$ref":"#/$defs/Name"}.
func (s *Schema) AppendTo(dst []byte) []byte {
	p := printer{dst: dst, layout: s.t.layouts[0]}
	p.schema(s)
	return p.dst
}

// AppendDefs appends the member "$defs":{…} that schemas need together, or
// nothing if they need none.
func (t *Translator) AppendDefs(dst []byte, schemas ...*Schema) []byte {
	t.round++
	p := printer{dst: dst, layout: t.layouts[0], round: t.round}
	for _, s := range schemas {
		p.reachFrom(s)
	}
	p.defs()
	return p.dst
}

// AppendWhole appends the schema together with the $defs it needs, an object
// that stands on its own.
func (t *Translator) AppendWhole(dst []byte, s *Schema) []byte {
	t.round++
	p := printer{dst: dst, layout: t.layouts[0], round: t.round}
	p.schema(s)
	p.attachDefs()
	return p.dst
}

// Text is AppendTo for texts that are kept: the same bytes at every call, which must
// not be changed.
func (s *Schema) Text() []byte {
	switch {
	case s.text != nil:
	case s.root == nil:
		s.rewrite()
	default:
		s.text = slices.Clip(s.AppendTo(nil))
	}
	return s.text
}

// Drop releases the text, which is made again when it is needed. What Text returned
// stays as it is.
func (s *Schema) Drop() {
	s.text = nil
}

// rewrite makes the text of a schema without references anew.
func (s *Schema) rewrite() {
	s.t.muted = true
	c := component{place: s.place}
	s.t.write(&c)
	s.t.muted = false
	s.text = c.text
}

// Place returns the place that was translated, none after Freeze.
func (s *Schema) Place() openapi.Place {
	return s.place
}

// Same reports whether two schemas of one Translator are written alike in every way.
func (s *Schema) Same(other *Schema) bool {
	switch {
	case s == other:
		return true
	case s.root == nil || other.root == nil:
		return s.root == other.root && s.size == other.size && bytes.Equal(s.Text(), other.Text())
	}
	return slices.Equal(s.root.holes, other.root.holes) && bytes.Equal(s.root.text, other.root.text)
}

// Warnings returns what in the document could not be translated, in the order
// in which it was met.
func (t *Translator) Warnings() []string {
	if t.unheard == 0 {
		return t.warnings
	}
	return append(slices.Clip(t.warnings), fmt.Sprintf("and %d more", t.unheard))
}

func (t *Translator) warn(format string, args ...any) {
	if t.muted {
		return
	}
	if len(t.warnings) >= maxWarnings {
		t.unheard++
		return
	}
	t.warnings = append(t.warnings, fmt.Sprintf(format, args...))
}

// target returns the component that the $ref of p leads to, nil if it leads
// nowhere, of which the document's operator is told once.
func (t *Translator) target(p openapi.Place, ref *openapi.Node) *component {
	if c, known := t.refs[reference{p.File, string(ref.Raw())}]; known {
		return c
	}
	c := t.follow(p, ref)
	t.refs[reference{p.File, string(ref.Raw())}] = c
	return c
}

func (t *Translator) follow(p openapi.Place, ref *openapi.Node) *component {
	to, name, err := p.Follow()
	if err != nil {
		t.warn("%v", err)
		return nil
	}
	if to.Node == nil {
		t.warn("$ref %q leads nowhere", ref.Text())
		return nil
	}
	if c := t.targets[to.Node]; c != nil {
		return c
	}
	c := &component{place: to, name: t.newName(name)}
	t.targets[to.Node] = c
	return c
}
