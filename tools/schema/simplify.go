package schema

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
)

// Simplifier writes small schemas of one document. It must not be used concurrently.
type Simplifier struct {
	translator *Translator // without descriptions
	scratch    []byte
}

// NewSimplifier returns a Simplifier.
func NewSimplifier() *Simplifier {
	return &Simplifier{translator: NewTranslator(Auto, Input).Bare()}
}

// Write returns a schema of at most room bytes that accepts everything that the full schema accepts. It
// first drops all descriptions except those of the arguments, then limits the depth. Described returns the
// description of an argument whose source has none.
func (s *Simplifier) Write(plan *InputPlan, room int, described func(name string) string) jsontext.Value {
	descriptions := make([]string, len(plan.Arguments))
	sizes := make([]int, len(plan.Arguments))
	for i := range plan.Arguments {
		descriptions[i] = described(plan.Arguments[i].Name)
		sizes[i] = len(descriptions[i])
	}
	longest := WaterLevel(sizes, room/4)
	bare := &InputPlan{Required: plan.Required, Closed: s.bare(&plan.Closed, "", 0)}
	bare.Arguments = make([]InputArgument, len(plan.Arguments))
	for i := range plan.Arguments {
		bare.Arguments[i] = s.bare(&plan.Arguments[i], descriptions[i], longest)
	}
	bound, fits := s.translator.Bound(room-bare.Fixed(), bare.Schemas()...)
	s.scratch = bare.write(s.scratch[:0], func(dst []byte, a *InputArgument) []byte {
		if a.Source == nil {
			return append(dst, a.Text...)
		}
		return append(dst, a.Source.Annotate(bound.AppendSchema(nil, a.Source.Schema))...)
	}, bound.AppendDefs)
	source := Relax(s.scratch)
	if !fits || len(source) > room {
		if source = FlattenWithin(source, room); source == nil {
			source = jsontext.Value(`{"type":"object"}`)
		}
	}
	return bytes.Clone(source)
}

// bare returns an argument without the descriptions inside its schema. Its own description is cut to
// longest bytes.
func (s *Simplifier) bare(a *InputArgument, description string, longest int) InputArgument {
	if a.Source == nil {
		return *a
	}
	if a.Source.Description != "" {
		description = a.Source.Description
	}
	if len(description) > longest {
		description = text.Cut(description, longest)
	}
	return InputArgument{Name: a.Name, Source: &InputSource{
		Schema: s.translator.Translate(a.Source.Schema.Place()), Description: description, Deprecated: a.Source.Deprecated,
	}}
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
