package tool

import (
	"errors"
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/ocp/internal/validate"
)

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
