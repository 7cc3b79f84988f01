package schema

import (
	"iter"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// InputSource is where the schema of an argument comes from. It allows the schema to be
// written again in another form.
type InputSource struct {
	Schema      *Schema
	Description string // of the argument, put into its schema in place of its own
	Deprecated  bool
	Examples    jsontext.Value // the same, of Examples; nil if there are none
}

// Annotate returns the schema with the description, the deprecation and the examples of the argument.
func (s *InputSource) Annotate(schema jsontext.Value) jsontext.Value {
	var room [3]strictjson.Member
	set := room[:0]
	if s.Description != "" {
		set = append(set, strictjson.Member{Name: "description", Value: strictjson.AppendString(nil, s.Description)})
	}
	if s.Deprecated {
		set = append(set, strictjson.Member{Name: "deprecated", Value: jsontext.Value("true")})
	}
	if s.Examples != nil {
		set = append(set, strictjson.Member{Name: "examples", Value: s.Examples})
	}
	return SetMembers(schema, set...)
}

// InputArgument is the schema of one argument while it is built.
type InputArgument struct {
	Name   string
	Text   jsontext.Value // as it is first written; nil while it is dropped
	Source *InputSource   // nil if the text is not a translation
}

// InputPlan holds everything that a tool's input schema is made from.
type InputPlan struct {
	Arguments []InputArgument
	Required  []string
	Closed    InputArgument // additionalProperties
}

// Schemas returns the translated schemas.
func (p *InputPlan) Schemas() []*Schema {
	all := make([]*Schema, 0, len(p.Arguments)+1)
	for a := range p.All() {
		if a.Source != nil {
			all = append(all, a.Source.Schema)
		}
	}
	return all
}

// All returns the texts of the arguments and of additionalProperties.
func (p *InputPlan) All() iter.Seq[*InputArgument] {
	return func(yield func(*InputArgument) bool) {
		for i := range p.Arguments {
			if !yield(&p.Arguments[i]) {
				return
			}
		}
		yield(&p.Closed)
	}
}

// write appends an object schema with all arguments. Text appends the schema of each
// argument; defs appends $defs.
func (p *InputPlan) write(root []byte, text func([]byte, *InputArgument) []byte, defs func([]byte) []byte) jsontext.Value {
	root = append(root, `{"type":"object","properties":{`...)
	for i := range p.Arguments {
		root = append(strictjson.AppendString(strictjson.Comma(root), p.Arguments[i].Name), ':')
		root = text(root, &p.Arguments[i])
	}
	root = append(root, '}')
	if len(p.Required) > 0 {
		root = strictjson.AppendStrings(append(root, `,"required":`...), p.Required)
	}
	root = text(append(root, `,"additionalProperties":`...), &p.Closed)
	before := len(root)
	root = append(root, ',')
	if root = defs(root); len(root) == before+1 {
		root = root[:before]
	}
	return append(root, '}')
}

// WriteFull writes the schema in full.
func (p *InputPlan) WriteFull(w Writing) jsontext.Value {
	schemas := p.Schemas()
	return p.write(nil, func(dst []byte, a *InputArgument) []byte { return append(dst, a.WriteFull(w)...) },
		func(dst []byte) []byte { return w.AppendDefs(dst, schemas...) })
}

// WriteFull returns the argument's own schema in full.
func (a *InputArgument) WriteFull(w Writing) jsontext.Value {
	switch {
	case a.Source == nil:
		return a.Text
	case a.Source.Schema.Refers():
		return a.Source.Annotate(w.AppendSchema(nil, a.Source.Schema))
	case a.Text == nil:
		return a.Source.Annotate(a.Source.Schema.Text())
	}
	return a.Text
}

// Fixed returns the bytes of the schema without the translated schemas.
func (p *InputPlan) Fixed() int {
	size := len(`{"type":"object","properties":{},"required":[],"additionalProperties":,"$defs":{}}`)
	for a := range p.All() {
		size += 2*len(a.Name) + len(`"":,"",`)
		if a.Source == nil {
			size += len(a.Text)
		} else {
			size += len(a.Source.Description) + len(a.Source.Examples) + len(`,"description":"","deprecated":true,"examples":`)
		}
	}
	return size
}

// Equal reports whether two plans are equal. It does not compare the texts of translated schemas, because
// they may have been dropped.
func (p *InputPlan) Equal(other *InputPlan) bool {
	return p.Closed.equal(&other.Closed) &&
		slices.EqualFunc(p.Arguments, other.Arguments, func(a, b InputArgument) bool { return a.equal(&b) })
}

func (a *InputArgument) equal(other *InputArgument) bool {
	if (a.Source == nil) != (other.Source == nil) {
		return false
	}
	if a.Source == nil {
		return a.Name == other.Name && string(a.Text) == string(other.Text)
	}
	return a.Name == other.Name && a.Source.Description == other.Source.Description &&
		a.Source.Deprecated == other.Source.Deprecated && string(a.Source.Examples) == string(other.Source.Examples) && a.Source.Schema.Same(other.Source.Schema)
}
