// Package inputschema writes the JSON Schemas of the arguments of tools: in full, and in forms that are
// small enough to be listed.
//
// A Plan holds what a schema is made from: the arguments, each with its text or with the translated schema
// (package schema) that the text comes from, so that it can be written again in another form. Plan.WriteFull
// writes all of it. A Simplifier writes a smaller schema that accepts everything that the full one accepts.
// Full keeps a plan whose full schema is too large to be listed, and writes it when arguments are validated.
package inputschema

import (
	"iter"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/schema"
	"github.com/fairwayhq/fairway/ocp/internal/schemaedit"
)

// Source is where the schema of an argument comes from. It allows the schema to be
// written again in another form.
type Source struct {
	Schema      *schema.Schema
	Description string // of the argument, put into its schema
	Deprecated  bool
}

// Argument is the schema of one argument while it is built.
type Argument struct {
	Name   string
	Text   jsontext.Value // as it is first written; nil while it is dropped
	Source *Source        // nil if the text is not a translation
}

// Plan holds everything that a tool's input schema is made from.
type Plan struct {
	Arguments []Argument
	Required  []string
	Closed    Argument // additionalProperties
}

// Schemas returns the translated schemas.
func (p *Plan) Schemas() []*schema.Schema {
	all := make([]*schema.Schema, 0, len(p.Arguments)+1)
	for a := range p.All() {
		if a.Source != nil {
			all = append(all, a.Source.Schema)
		}
	}
	return all
}

// All returns the texts of the arguments and of additionalProperties.
func (p *Plan) All() iter.Seq[*Argument] {
	return func(yield func(*Argument) bool) {
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
func (p *Plan) write(root []byte, text func([]byte, *Argument) []byte, defs func([]byte) []byte) jsontext.Value {
	root = append(root, `{"type":"object","properties":{`...)
	for i := range p.Arguments {
		if i > 0 {
			root = append(root, ',')
		}
		root = append(wire.AppendString(root, p.Arguments[i].Name), ':')
		root = text(root, &p.Arguments[i])
	}
	root = append(root, '}')
	if len(p.Required) > 0 {
		root = wire.AppendStrings(append(root, `,"required":`...), p.Required)
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
func (p *Plan) WriteFull(w schema.Writing) jsontext.Value {
	schemas := p.Schemas()
	return p.write(nil, func(dst []byte, a *Argument) []byte { return append(dst, a.WriteFull(w)...) },
		func(dst []byte) []byte { return w.AppendDefs(dst, schemas...) })
}

// WriteFull returns the argument's own schema in full.
func (a *Argument) WriteFull(w schema.Writing) jsontext.Value {
	switch {
	case a.Source == nil:
		return a.Text
	case a.Source.Schema.Refers():
		return schemaedit.Annotate(w.AppendSchema(nil, a.Source.Schema), a.Source.Description, a.Source.Deprecated)
	case a.Text == nil:
		return schemaedit.Annotate(a.Source.Schema.Text(), a.Source.Description, a.Source.Deprecated)
	}
	return a.Text
}

// Fixed returns the bytes of the schema without the translated schemas.
func (p *Plan) Fixed() int {
	size := len(`{"type":"object","properties":{},"required":[],"additionalProperties":,"$defs":{}}`)
	for a := range p.All() {
		size += 2*len(a.Name) + len(`"":,"",`)
		if a.Source == nil {
			size += len(a.Text)
		} else {
			size += len(a.Source.Description) + len(`,"description":"","deprecated":true`)
		}
	}
	return size
}

// Equal reports whether two plans are equal. It does not compare the texts of translated schemas, because
// they may have been dropped.
func (p *Plan) Equal(other *Plan) bool {
	return p.Closed.equal(&other.Closed) &&
		slices.EqualFunc(p.Arguments, other.Arguments, func(a, b Argument) bool { return a.equal(&b) })
}

func (a *Argument) equal(other *Argument) bool {
	if (a.Source == nil) != (other.Source == nil) {
		return false
	}
	if a.Source == nil {
		return a.Name == other.Name && string(a.Text) == string(other.Text)
	}
	return a.Name == other.Name && a.Source.Description == other.Source.Description &&
		a.Source.Deprecated == other.Source.Deprecated && a.Source.Schema.Same(other.Source.Schema)
}
