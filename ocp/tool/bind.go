package tool

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/validate"
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
	problems, err := readArguments(call, arguments)
	if err != nil {
		return nil, err
	}
	if err := (&validation{tool: t}).check(call, problems); err != nil {
		return nil, err
	}
	return call, nil
}

// Arguments decodes the arguments as the caller wrote them, without defaults. Numbers are
// decoded as json.Number. Every use of Arguments decodes them again.
func (c *Call) Arguments() map[string]any {
	arguments := make(map[string]any, len(c.values))
	for i, value := range c.values {
		if value != nil && !c.Tool.plans[i].Filled {
			arguments[c.Tool.all[i].Name], _ = wire.Decode(value) // read has checked the syntax
		}
	}
	for _, m := range c.extra {
		arguments[m.Name], _ = wire.Decode(m.Value)
	}
	return arguments
}

// Values returns the arguments as JSON, by their position in Tool.All. A value is nil if the
// argument is absent.
func (c *Call) Values() []jsontext.Value { return c.values }

// Additional returns the names and values of the additional properties of the body.
func (c *Call) Additional() iter.Seq2[string, jsontext.Value] {
	return func(yield func(string, jsontext.Value) bool) {
		for i := range c.extra {
			if !yield(c.extra[i].Name, c.extra[i].Value) {
				return
			}
		}
	}
}

// missingFromBody returns the positions of the arguments that a request body requires and
// that are not given.
func (c *Call) missingFromBody() (positions []int) {
	for i := range c.Tool.all {
		a := &c.Tool.all[i]
		if a.In == InBody && !c.Tool.plans[i].Filled && c.Tool.plans[i].NeededInBody && c.values[i] == nil && a.Default == nil {
			positions = append(positions, i)
		}
	}
	return positions
}

// bodyIsBegun reports whether the body is optional but some of its arguments are given.
// The body's required properties must then be given too, a rule that the schema of the
// flat arguments object cannot express.
func (c *Call) bodyIsBegun() bool {
	return c.Tool.body != nil && !c.Tool.body.Required && c.hasBody()
}

// hasBody reports whether at least one argument of the body is given.
func (c *Call) hasBody() bool {
	if c.Tool.sendsBody {
		return true
	}
	for i := range c.Tool.all {
		if c.Tool.all[i].In == InBody && c.values[i] != nil && !c.Tool.plans[i].Filled {
			return true
		}
	}
	return len(c.extra) > 0
}

// A validation checks arguments against the schema of a tool. Arguments for which forgiven returns
// true may be missing; if forgiven is nil, none may.
type validation struct {
	tool     *Tool
	forgiven func(*Argument) bool
}

// check validates the arguments of a call against the schema and against the requirements of the
// body. Problems are those found earlier; check adds its own to them.
func (v *validation) check(c *Call, problems []Problem) error {
	if !v.acceptsPlainly(c) {
		invalid, err := v.problems(c.Arguments())
		if err != nil {
			return &Failure{Kind: Internal, Message: fmt.Sprintf("the schema of tool %s cannot be used: %v", v.tool.Name, err)}
		}
		problems = append(problems, invalid...)
	}
	if c.bodyIsBegun() {
		for _, i := range c.missingFromBody() {
			if a := &v.tool.all[i]; v.forgiven == nil || !v.forgiven(a) {
				problems = append(problems, Problem{Path: text.Pointer(a.Name), Message: "missing: the request body needs it as soon as one of its arguments is given"})
			}
		}
	}
	if len(problems) > 0 {
		return v.tool.invalid(problems)
	}
	return nil
}

// acceptsPlainly reports whether all arguments of the call are certainly valid, so that
// they need not be decoded for validation.
func (v *validation) acceptsPlainly(c *Call) bool {
	if len(c.extra) > 0 {
		return false
	}
	for i, value := range c.values {
		switch plain := v.tool.plans[i].Fast; {
		case value == nil && !v.tool.all[i].Required:
		case value == nil || plain == nil || !plain.Accepts(value):
			return false
		}
	}
	return true
}

// forgive removes from the error the missing arguments for which forgiven returns true.
func (v *validation) forgive(err *jsonschema.ValidationError) {
	if required, ok := err.ErrorKind.(*kind.Required); ok && len(err.InstanceLocation) == 0 {
		required.Missing = slices.DeleteFunc(required.Missing, func(name string) bool {
			i, known := v.tool.index.position(v.tool.all, name)
			return known && v.forgiven(&v.tool.all[i])
		})
	}
	for _, cause := range err.Causes {
		v.forgive(cause)
	}
}

// problems returns the problems with the arguments. The error means that the schema itself cannot
// be compiled.
func (v *validation) problems(arguments map[string]any) ([]Problem, error) {
	compiled, err := v.tool.validator.Compile(v.tool.checkedSchema)
	if err != nil {
		return nil, err
	}
	err = compiled.Validate(arguments)
	if err == nil {
		return nil, nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return []Problem{{Message: "the object of arguments " + err.Error()}}, nil
	}
	if v.forgiven != nil {
		v.forgive(invalid)
	}
	return problemsOf(invalid), nil
}

// problemsOf converts the error of a validation.
func problemsOf(invalid *jsonschema.ValidationError) []Problem {
	explained := validate.Explain(invalid)
	problems := make([]Problem, len(explained))
	for i, p := range explained {
		problems[i] = Problem(p)
	}
	return problems
}
