package schema

import (
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// FullInput writes the schema that validates a tool's arguments, for a tool that lists another schema.
type FullInput struct {
	fixed   jsontext.Value // the schema without edits, if it is not written from a plan
	mu      *sync.Mutex    // of the Translator
	writing Writing
	plan    *InputPlan
	edits   []Edit // changes after the build, in order
}

// NewFullInput returns a FullInput that writes the plan. The mutex is held while it writes; it is the same for all
// plans of a Translator.
func NewFullInput(mu *sync.Mutex, writing Writing, plan *InputPlan) *FullInput {
	return &FullInput{mu: mu, writing: writing, plan: plan}
}

// FixedInput returns a FullInput that has the given schema.
func FixedInput(text jsontext.Value) *FullInput { return &FullInput{fixed: text} }

// Text returns the schema. It has keywords of this package's own for what is not listed: see Listed.
func (f *FullInput) Text() jsontext.Value {
	full := f.fixed
	if full == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		full = f.plan.WriteFull(f.writing)
	}
	for i := range f.edits {
		full = f.edits[i].Apply(full)
	}
	return full
}

// With returns the schema with a further change.
func (f *FullInput) With(e Edit) *FullInput {
	if f == nil {
		return nil
	}
	changed := *f
	changed.edits = append(slices.Clip(f.edits), e)
	return &changed
}
