package schema

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/fairwayhq/fairway/tools/openapi"
)

// Mode selects where the targets of references are written.
type Mode string

// The modes. An empty Mode means Auto.
const (
	Auto   Mode = "auto"   // like Inline within a budget for each tool; above it the shortest of Inline, Defs, and small targets in place
	Inline Mode = "inline" // in place, as long as the schema stays within a size limit
	Defs   Mode = "defs"   // all in $defs
)

// ParseMode returns the mode with this name. "" means Auto.
func ParseMode(name string) (Mode, error) {
	switch mode := Mode(name); mode {
	case "":
		return Auto, nil
	case Auto, Inline, Defs:
		return mode, nil
	}
	return "", fmt.Errorf("unknown schema mode %q: use auto, inline or defs", name)
}

// Direction is the direction in which the values of a schema are sent.
type Direction uint8

// The directions. Input leaves out read-only properties, Output write-only ones, at every
// depth.
const (
	Input  Direction = iota // arguments, sent by the client
	Output                  // responses, sent by the API
)

// Limits on the output of a Translator, in addition to the limits on the document.
const (
	smallTarget   = 600      // bytes of a target that Auto writes in place
	autoBudget    = 32 << 10 // bytes of a tool's schema up to which Auto writes like Inline: 8,192 tokens of about 4 bytes
	inlineBudget  = 64 << 10 // bytes of a schema that Inline writes without $defs
	maxHeight     = 16       // nested targets that are all written in place
	maxTogether   = 1 << 12  // subschemas that validate one value together
	maxText       = 8 << 20  // bytes of one target
	maxDepth      = 160      // nested schemas in one target
	maxSteps      = 32       // length of a chain of $refs
	maxWarnings   = 200      // warnings that are kept; further ones are only counted
	maxName       = 120      // bytes of a name in $defs
	maxExample    = 1 << 10  // bytes of an example
	maxPattern    = 4 << 10  // bytes of a regular expression
	maxProgram    = 1 << 14  // instructions of one compiled expression, about 40 bytes each
	maxPrograms   = 1 << 22  // instructions of all compiled expressions
	maxNumber     = 40       // bytes of a bound such as minimum
	maxCount      = 15       // digits of a count such as maxLength
	maxHiddenLook = 64       // schemas searched for properties to leave out
)

// UploadSchema is the schema of the object with the handle of an uploaded file.
const UploadSchema = `{"type":"object","properties":{"upload":{"type":"string","pattern":"^upl_","description":"the handle of a file, ` +
	`which create_upload returns; do not paste base64 if an upload is possible, and do not invent handles"}},"required":["upload"],"additionalProperties":false}`

// HostFileSchema is the schema of the object that ChatGPT puts in place of a file (openai/fileParams).
const HostFileSchema = `{"type":"object","properties":{"download_url":{"type":"string"},"file_id":{"type":"string"},"mime_type":{"type":"string"},` +
	`"file_name":{"type":"string"}},"required":["download_url","file_id"],"additionalProperties":false,"description":"only for hosts"}`

// A Translator translates the schemas of one document for one direction. It is not safe
// for concurrent use, and it is discarded when the document is built.
type Translator struct {
	direction Direction
	layouts   []layout // layouts to measure components in, the default first
	bare      bool     // leave out annotations

	// Uploads makes base64 texts also take the handle of an uploaded file.
	Uploads bool

	roots    map[*openapi.Node]*Schema // the translated schemas
	targets  map[*openapi.Node]*component
	refs     map[reference]*component // nil: the target is missing
	names    map[string]int           // names in $defs: how often each was requested
	patterns patternBudget
	writer   writer
	spare    *component   // reused for the next schema to translate
	muted    bool         // suppress warnings
	round    int          // marks the components of one walk
	queue    []*component // reused by Writing.Measure
	scratch  []byte       // reused by AppendBounded
	warnings []string
	unheard  int // number of warnings beyond maxWarnings
}

// reference identifies the target of a $ref by its text and its file.
type reference struct {
	file *openapi.File
	ref  string // as JSON
}

// NewTranslator returns an empty Translator.
func NewTranslator(mode Mode, direction Direction) *Translator {
	return &Translator{
		layouts:   layoutsOf(mode),
		direction: direction,
		roots:     make(map[*openapi.Node]*Schema),
		targets:   make(map[*openapi.Node]*component),
		refs:      make(map[reference]*component),
		names:     make(map[string]int),
		patterns:  patternBudget{sizes: make(map[string]int)},
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
	root  *component // nil if the schema has no references, which is the usual case
	text  []byte     // output of Text; nil before the first call and after Drop
	size  int        // bytes of text; set if root is nil
}

// Translate translates the schema at place. If place is absent or is not a schema, the
// result allows every value.
func (t *Translator) Translate(place openapi.Place) *Schema {
	if known := t.roots[place.Node]; known != nil {
		return known // already translated: operations share parameters and bodies
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

// Text returns the schema in the first Writing, a JSON object whose references have the form
// {"$ref":"#/$defs/Name"}. Every call returns the same bytes, which must not be changed.
func (s *Schema) Text() []byte {
	switch {
	case s.text != nil:
	case s.root == nil:
		s.rewrite()
	default:
		s.text = slices.Clip(s.t.Writings()[0].AppendSchema(nil, s))
	}
	return s.text
}

// Drop releases the text. It is written again when it is needed. Slices that Text
// returned earlier stay valid.
func (s *Schema) Drop() {
	s.text = nil
}

// rewrite writes the text of a schema without references again.
func (s *Schema) rewrite() {
	s.t.muted = true
	c := component{place: s.place}
	s.t.write(&c)
	s.t.muted = false
	s.text = c.text
}

// Place returns the place that was translated. After Freeze it is absent.
func (s *Schema) Place() openapi.Place {
	return s.place
}

// Same reports whether two schemas of one Translator are always written identically.
func (s *Schema) Same(other *Schema) bool {
	switch {
	case s == other:
		return true
	case s.root == nil || other.root == nil:
		return s.root == other.root && s.size == other.size && bytes.Equal(s.Text(), other.Text())
	}
	return slices.Equal(s.root.holes, other.root.holes) && bytes.Equal(s.root.text, other.root.text)
}

// Warnings returns the problems found in the document, in the order of discovery.
func (t *Translator) Warnings() []string {
	if t.unheard == 0 {
		return t.warnings
	}
	return append(slices.Clip(t.warnings), fmt.Sprintf("and %d more", t.unheard))
}

// warnInput adds a warning about a part of the document that both directions may have.
func (t *Translator) warnInput(format string, args ...any) {
	if t.direction == Input {
		t.warn(format, args...)
	}
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

// target returns the component for the $ref of p, or nil if its target is missing. A
// missing target causes one warning.
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
