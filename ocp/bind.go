package ocp

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/internal/wire"
)

// A Call is a tool together with arguments that are valid for the tool's schema.
type Call struct {
	Tool *Tool

	values []jsontext.Value // of Tool.all, by position; nil if absent
	extra  []wire.Member    // additional properties, if the body allows them

	few [fewValues]jsontext.Value // memory of values, if they fit
}

// fewValues is how many values a Call has room for without a further allocation.
const fewValues = 6

// newCall returns a call without arguments.
func newCall(t *Tool) *Call {
	c := &Call{Tool: t}
	if len(t.all) <= fewValues {
		c.values = c.few[:len(t.all)]
	} else {
		c.values = make([]jsontext.Value, len(t.all))
	}
	return c
}

// Bind validates raw arguments against the tool's schema. The error is a *Failure of kind
// InvalidArguments. The Call keeps references to the bytes of arguments.
//
//   - Empty arguments and null are read as {}.
//   - If an optional argument that is not nullable is null, it is treated as absent,
//     because many clients set every argument they know.
func (t *Tool) Bind(arguments []byte) (*Call, error) {
	if t.read != nil {
		return nil, errToolRead
	}
	call := newCall(t)
	problems, err := call.read(arguments)
	if err != nil {
		return nil, err
	}
	if err := call.check(problems, nil); err != nil {
		return nil, err
	}
	return call, nil
}

// check validates the arguments against the schema and against the requirements of the
// body. Arguments for which forgiven returns true may be missing; if forgiven is nil, no
// argument may. Problems are those found earlier; check adds its own to them.
func (c *Call) check(problems []Problem, forgiven func(*Argument) bool) error {
	if !c.acceptsPlainly() {
		invalid, err := c.Tool.validator.validate(c.Tool, c.Arguments(), forgiven)
		if err != nil {
			return &Failure{Kind: Internal, Message: fmt.Sprintf("the schema of tool %s cannot be used: %v", c.Tool.Name, err)}
		}
		problems = append(problems, invalid...)
	}
	if c.bodyIsBegun() {
		for _, i := range c.missingFromBody() {
			if a := &c.Tool.all[i]; forgiven == nil || !forgiven(a) {
				problems = append(problems, Problem{Path: pointer(a.Name), Message: "missing: the request body needs it as soon as one of its arguments is given"})
			}
		}
	}
	if len(problems) > 0 {
		return c.Tool.invalid(problems)
	}
	return nil
}

// Arguments decodes the arguments as the caller wrote them, without defaults. Numbers are
// decoded as json.Number. Every use of Arguments decodes them again.
func (c *Call) Arguments() map[string]any {
	arguments := make(map[string]any, len(c.values))
	for i, value := range c.values {
		if value != nil && !c.Tool.plans[i].filled {
			arguments[c.Tool.all[i].Name], _ = wire.Decode(value) // read has checked the syntax
		}
	}
	for _, m := range c.extra {
		arguments[m.Name], _ = wire.Decode(m.Value)
	}
	return arguments
}

// read splits the arguments object into its members. It returns unknown names as problems.
// If the arguments cannot be read, the error is a *Failure.
func (c *Call) read(arguments []byte) (problems []Problem, err error) {
	if len(arguments) == 0 || string(arguments) == "null" {
		return nil, nil
	}
	members, err := wire.Object(arguments)
	if err != nil {
		return nil, c.Tool.invalid([]Problem{{Message: "the arguments are not a JSON object that can be read: " + err.Error()}})
	}
	for members.Next() {
		value := members.Value
		i, known := c.Tool.index.position(c.Tool.all, string(members.Key()))
		switch {
		case known && c.Tool.plans[i].filled:
			if problem, wrong := c.Tool.filledProblem(i, value); wrong && len(problems) < maxProblems {
				problems = append(problems, problem)
			}
			continue
		case known && value.Kind() == 'n' && c.Tool.plans[i].dropNull:
			continue
		case known:
			c.values[i] = value
			continue
		}
		switch name := string(members.Key()); {
		case c.Tool.openBody && !c.Tool.taken[name] && !c.Tool.resemblesFixed(name):
			c.extra = append(c.extra, wire.Member{Name: name, Value: value})
		case len(problems) < maxProblems:
			problems = append(problems, c.Tool.unknownArgument(name))
		}
	}
	return problems, nil
}

func (t *Tool) unknownArgument(name string) Problem {
	message := "no such argument"
	near := nearest.Name(name, func(yield func(string) bool) {
		for i := range t.Arguments {
			if !yield(t.Arguments[i].Name) {
				return
			}
		}
	})
	switch {
	case near != "":
		message += "; did you mean " + near + "?"
	case len(t.Arguments) == 0:
		message += "; the tool takes none"
	}
	return Problem{Path: pointer(name), Message: message}
}

// missingFromBody returns the positions of the arguments that a request body requires and
// that are not given.
func (c *Call) missingFromBody() (positions []int) {
	for i := range c.Tool.all {
		a := &c.Tool.all[i]
		if a.In == InBody && !c.Tool.plans[i].filled && c.Tool.plans[i].neededInBody && c.values[i] == nil && a.Default == nil {
			positions = append(positions, i)
		}
	}
	return positions
}

// bodyIsBegun reports whether the body is optional but some of its arguments are given.
// The body's required properties must then be given too, a rule that the schema of the
// flat arguments object cannot express.
func (c *Call) bodyIsBegun() bool {
	return c.Tool.body != nil && !c.Tool.body.required && c.hasBody()
}

// hasBody reports whether at least one argument of the body is given.
func (c *Call) hasBody() bool {
	for i := range c.Tool.all {
		if c.Tool.all[i].In == InBody && c.values[i] != nil && !c.Tool.plans[i].filled {
			return true
		}
	}
	return len(c.extra) > 0
}
