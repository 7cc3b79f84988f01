package inputschema

import (
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/ocp/internal/schema"
	"github.com/fairwayhq/fairway/ocp/internal/schemaedit"
)

// Full writes the schema that validates a tool's arguments, for a tool that lists a smaller schema.
type Full struct {
	mu      *sync.Mutex // of the Translator
	writing schema.Writing
	plan    *Plan
	edits   []schemaedit.Edit // changes after the build, in order
}

// NewFull returns a Full that writes the plan. The mutex is held while it writes; it is the same for all
// plans of a Translator.
func NewFull(mu *sync.Mutex, writing schema.Writing, plan *Plan) *Full {
	return &Full{mu: mu, writing: writing, plan: plan}
}

// Text returns the schema.
func (f *Full) Text() jsontext.Value {
	f.mu.Lock()
	defer f.mu.Unlock()
	full := f.plan.WriteFull(f.writing)
	for i := range f.edits {
		full = f.edits[i].Apply(full)
	}
	return full
}

// With returns the schema with a further change.
func (f *Full) With(e schemaedit.Edit) *Full {
	if f == nil {
		return nil
	}
	changed := *f
	changed.edits = append(slices.Clip(f.edits), e)
	return &changed
}
