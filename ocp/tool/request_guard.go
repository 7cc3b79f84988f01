package tool

import (
	"fmt"
	"iter"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/body"
	"github.com/fairwayhq/fairway/ocp/internal/plan"
	"github.com/fairwayhq/fairway/ocp/internal/style"
	"github.com/fairwayhq/fairway/ocp/internal/validate"
)

// A call must not give a guarded argument its own value under another name. These checks look at what
// is sent, after the arguments are encoded.

// checkQuery returns an error if the value of a query argument has a property that becomes a
// query parameter with the name of a guarded argument.
func (b *requestBuilder) checkQuery(argument int, value jsontext.Value) error {
	if b.tool.guards == nil || b.tool.plans[argument].Guarded || value.Kind() != '{' {
		return nil
	}
	encoded, err := b.tool.plans[argument].Param.Append(nil, value)
	if err != nil {
		return nil //nolint:nilerr // setParameters returns it
	}
	for name := range pairNames(string(encoded)) {
		if err := b.checkName(argument, name); err != nil {
			return err
		}
	}
	return nil
}

// pairNames returns the names of encoded pairs.
func pairNames(encoded string) iter.Seq[string] {
	return func(yield func(string) bool) {
		pairs, _ := style.ParsePairs(nil, style.Query, encoded)
		for i := range pairs {
			if !yield(pairs[i].Name) {
				return
			}
		}
	}
}

// checkName returns an error if a name that a caller gave passes for a guarded argument.
// Argument is where the name comes from, or -1.
func (b *requestBuilder) checkName(argument int, name string) error {
	if !b.tool.guards.resembles(name) {
		return nil
	}
	problem := Problem{Message: fmt.Sprintf("the tool takes no property %q", text.Cut(name, validate.MaxProblem))}
	if argument >= 0 {
		problem.Path = text.Pointer(b.tool.all[argument].Name)
	}
	return b.tool.invalid([]Problem{problem})
}

// checkBody returns an error if the encoded body has a name that passes for a guarded argument.
func (b *requestBuilder) checkBody(planned *plan.Body, content []byte) error {
	if b.tool.guards == nil {
		return nil
	}
	switch encoder := b.encoder(planned); {
	case encoder.Kind() == body.URLEncoded:
		for name := range pairNames(string(content)) {
			if b.declaresInBody(name) {
				continue
			}
			if err := b.checkName(planned.Whole, name); err != nil {
				return err
			}
		}
	case planned.Whole < 0 || b.tool.plans[planned.Whole].Guarded:
	default:
		value := b.call.value(planned.Whole)
		if value.Kind() != '{' {
			return nil
		}
		for walk := wire.Into(value); walk.Next(); {
			if err := b.checkName(planned.Whole, wire.Text(walk.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// declaresInBody reports whether an argument is the property of the body with that name.
func (b *requestBuilder) declaresInBody(name string) bool {
	return slices.ContainsFunc(b.tool.all, func(a Argument) bool { return a.In == InBody && a.WireName == name })
}
