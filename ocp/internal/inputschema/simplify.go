package inputschema

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/simplify"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/schema"
	"github.com/fairwayhq/fairway/ocp/internal/schemaedit"
)

// Simplifier writes small schemas of one document. It must not be used concurrently.
type Simplifier struct {
	translator *schema.Translator // without descriptions
	scratch    []byte
}

// NewSimplifier returns a Simplifier.
func NewSimplifier() *Simplifier {
	return &Simplifier{translator: schema.NewTranslator(schema.Auto, schema.Input).Bare()}
}

// Write returns a schema of at most room bytes that accepts everything that the full schema accepts. It
// first drops all descriptions except those of the arguments, then limits the depth. Described returns the
// description of an argument whose source has none.
func (s *Simplifier) Write(plan *Plan, room int, described func(name string) string) jsontext.Value {
	descriptions := make([]string, len(plan.Arguments))
	sizes := make([]int, len(plan.Arguments))
	for i := range plan.Arguments {
		descriptions[i] = described(plan.Arguments[i].Name)
		sizes[i] = len(descriptions[i])
	}
	longest := WaterLevel(sizes, room/4)
	bare := &Plan{Required: plan.Required, Closed: s.bare(&plan.Closed, "", 0)}
	bare.Arguments = make([]Argument, len(plan.Arguments))
	for i := range plan.Arguments {
		bare.Arguments[i] = s.bare(&plan.Arguments[i], descriptions[i], longest)
	}
	bound, fits := s.translator.Bound(room-bare.Fixed(), bare.Schemas()...)
	s.scratch = bare.write(s.scratch[:0], func(dst []byte, a *Argument) []byte {
		if a.Source == nil {
			return append(dst, a.Text...)
		}
		start := len(dst)
		dst = bound.AppendSchema(dst, a.Source.Schema)
		if bytes.HasPrefix(dst[start:], []byte(`{`+simplify.StubMark)) { // it has a description
			text := schemaedit.Annotate(bytes.Clone(dst[start:]), a.Source.Description, a.Source.Deprecated)
			return append(dst[:start], text...)
		}
		return appendDescribed(dst, a.Source)
	}, bound.AppendDefs)
	text := simplify.Relax(s.scratch)
	if !fits || len(text) > room {
		if text = simplify.FlattenWithin(text, room); text == nil {
			text = jsontext.Value(`{"type":"object"}`)
		}
	}
	return bytes.Clone(text)
}

// bare returns an argument without the descriptions inside its schema. Its own description is cut to
// longest bytes.
func (s *Simplifier) bare(a *Argument, description string, longest int) Argument {
	if a.Source == nil {
		return *a
	}
	if a.Source.Description != "" {
		description = a.Source.Description
	}
	if len(description) > longest {
		description = text.Cut(description, longest)
	}
	return Argument{Name: a.Name, Source: &Source{
		Schema: s.translator.Translate(a.Source.Schema.Place()), Description: description, Deprecated: a.Source.Deprecated,
	}}
}

// appendDescribed adds the argument's description to a schema without descriptions, which
// is at the end of dst.
func appendDescribed(dst []byte, source *Source) []byte {
	dst = dst[:len(dst)-1]
	if source.Description != "" {
		dst = schemaedit.Append(dst, "description", wire.AppendString(nil, source.Description))
	}
	if source.Deprecated {
		dst = schemaedit.Append(dst, "deprecated", []byte("true"))
	}
	return append(dst, '}')
}

// WaterLevel returns the largest limit such that the sizes, each reduced to at most this
// limit, take at most room in total.
func WaterLevel(sizes []int, room int) int {
	sorted := slices.Clone(sizes)
	slices.Sort(sorted)
	for i, size := range sorted {
		if rest := len(sorted) - i; size*rest > room {
			return max(room/rest, 0)
		}
		room -= size
	}
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)-1]
}
