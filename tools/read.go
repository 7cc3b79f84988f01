package tools

import (
	"bytes"
	"errors"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// A reading converts the arguments of one call that do not fit the schema as they are.
type reading struct {
	*validation
	compiled  *schema.Compiled
	arguments []byte
	call      *Call
	problems  []Problem // with names
	long      []Problem // whole numbers with too many digits
}

// convert converts the arguments, for which the validator has returned err. It returns the validator's error for what they have become.
func (r *reading) convert(err error, hasWhole bool) error {
	if _, ok := errors.AsType[*jsonschema.ValidationError](err); ok && !r.tool.Plan.Leniency.Strict {
		if r.take(schema.Convert(r.arguments, r.check)) {
			hasWhole, err = r.compiled.Check(r.call.Arguments())
		}
	}
	if hasWhole {
		var inDigits []byte
		inDigits, r.long = r.compiled.Digits(r.arguments, r.call.Arguments())
		r.take(inDigits)
	}
	return err
}

// take makes converted arguments those of the call. It returns false if nothing was converted.
func (r *reading) take(converted []byte) bool {
	if bytes.Equal(converted, r.arguments) {
		return false
	}
	call, problems, err := r.split(converted)
	if err != nil {
		return false // for example, JSON text makes the arguments nest too deeply
	}
	r.arguments, r.call, r.problems = converted, call, problems
	return true
}

// check validates arguments that are partly converted.
func (r *reading) check(arguments []byte) schema.Checked {
	call, _, err := r.split(arguments)
	if err != nil {
		return schema.Checked{}
	}
	value := call.Arguments()
	err = r.compiled.Validate(value)
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	return schema.Checked{Value: value, Invalid: invalid, OK: err == nil || ok}
}

// maxUndeclared limits the names of one call that the document does not have.
const maxUndeclared = 64

// checkUndeclared refuses names that the document does not have if they may be mistakes: a name that is near to an argument which is absent, or
// any name while a required argument is missing.
func (r *argumentReader) checkUndeclared(forgiven func(*Argument) bool) {
	missing := len(r.call.extra) > maxUndeclared
	absent := func(i int) bool {
		return r.call.values[i] == nil && !r.tool.Plan.Encodings[i].Filled && (forgiven == nil || !forgiven(&r.tool.Plan.Arguments[i]))
	}
	for i := range r.tool.Plan.Arguments {
		missing = missing || r.tool.Plan.Arguments[i].Required && absent(i)
	}
	for _, i := range r.call.missingFromBody() {
		missing = missing || absent(i)
	}
	kept := r.call.extra[:0]
	for _, m := range r.call.extra {
		if len(r.problems) >= schema.MaxProblems {
			break
		}
		near := text.Misspelled(m.Name, func(yield func(string) bool) {
			for i := range r.tool.Plan.Arguments {
				if absent(i) && !yield(r.tool.Plan.Arguments[i].Name) {
					return
				}
			}
		})
		if missing || near != "" || slices.ContainsFunc(r.tool.Plan.Arguments, func(a Argument) bool { return isAlias(&a, m.Name) }) {
			r.report(r.unknown(m.Name))
			continue
		}
		kept = append(kept, m)
	}
	r.call.extra = kept
}

// isAlias reports whether a server may confuse a property of the body with an argument. Many servers merge query and body, and ignore case.
func isAlias(a *Argument, property string) bool {
	return (a.In == InQuery || a.In == InBody) && request.Alias(request.Stem(property)) == request.Alias(request.Stem(a.WireName))
}

// maxNote limits what a note about the arguments says, in bytes.
const maxNote = 600

// note tells the model which arguments were sent although the document does not have them, or not so. It is "" for most calls.
func (c *Call) note() (note string) {
	if c.Undeclared() {
		note = "The document of the API does not name these arguments, and they were sent as they are: " + c.extra[0].Name
		for _, m := range c.extra[1:] {
			note += ", " + m.Name
		}
		note = text.Cut(note, maxNote) + "."
	}
	if len(c.mismatches) > 0 {
		if note != "" {
			note += " "
		}
		note += text.Cut("These arguments do not fit the schema of "+c.Tool.Name+", and were sent as they are:"+listProblems(c.mismatches), maxNote) + "."
	}
	return note
}

// noteOn adds the note to a success, and to a refusal of the API.
func (c *Call) noteOn(outcome *Outcome) {
	switch note := c.note(); {
	case note == "":
	case outcome.Failure == nil:
		if outcome.Result.Note != "" {
			note = outcome.Result.Note + " " + note
		}
		outcome.Result.Note = note
	case outcome.Failure.Kind == Refused:
		outcome.Failure.Message += ". " + note
	}
}
