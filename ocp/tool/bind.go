package tool

import (
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/plan"
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
		invalid, err := c.Tool.validate(c.Arguments(), forgiven)
		if err != nil {
			return &Failure{Kind: Internal, Message: fmt.Sprintf("the schema of tool %s cannot be used: %v", c.Tool.Name, err)}
		}
		problems = append(problems, invalid...)
	}
	if c.bodyIsBegun() {
		for _, i := range c.missingFromBody() {
			if a := &c.Tool.all[i]; forgiven == nil || !forgiven(a) {
				problems = append(problems, Problem{Path: text.Pointer(a.Name), Message: "missing: the request body needs it as soon as one of its arguments is given"})
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
		case known && c.Tool.plans[i].Guarded:
			if len(problems) < validate.MaxProblems {
				problems = append(problems, c.Tool.unknownArgument(c.Tool.all[i].Name))
			}
			continue
		case known && c.Tool.plans[i].Filled:
			if problem, wrong := c.Tool.filledProblem(i, value); wrong && len(problems) < validate.MaxProblems {
				problems = append(problems, problem)
			}
			continue
		case known && value.Kind() == 'n' && c.Tool.plans[i].DropNull:
			continue
		case known:
			c.values[i] = value
			continue
		}
		switch name := string(members.Key()); {
		case c.Tool.openBody && !c.Tool.taken[name] && !c.Tool.resemblesFixed(name):
			c.extra = append(c.extra, wire.Member{Name: name, Value: value})
		case len(problems) < validate.MaxProblems:
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
	return Problem{Path: text.Pointer(name), Message: message}
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

// acceptsPlainly reports whether all arguments of the call are certainly valid, so that
// they need not be decoded for validation.
func (c *Call) acceptsPlainly() bool {
	if len(c.extra) > 0 {
		return false
	}
	for i, value := range c.values {
		switch plain := c.Tool.plans[i].Fast; {
		case value == nil && !c.Tool.all[i].Required:
		case value == nil || plain == nil || !plain.Accepts(value):
			return false
		}
	}
	return true
}

// forgive removes from the error the missing arguments for which forgiven returns true.
func (t *Tool) forgive(err *jsonschema.ValidationError, forgiven func(*Argument) bool) {
	if required, ok := err.ErrorKind.(*kind.Required); ok && len(err.InstanceLocation) == 0 {
		required.Missing = slices.DeleteFunc(required.Missing, func(name string) bool {
			i, known := t.index.position(t.all, name)
			return known && forgiven(&t.all[i])
		})
	}
	for _, cause := range err.Causes {
		t.forgive(cause, forgiven)
	}
}

// validate returns the problems with the arguments. Arguments for which forgiven returns
// true may be missing; if forgiven is nil, none may. The error means that the schema
// itself cannot be compiled.
func (t *Tool) validate(arguments map[string]any, forgiven func(*Argument) bool) ([]Problem, error) {
	compiled, err := t.validator.Compile(t.checkedSchema)
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
	if forgiven != nil {
		t.forgive(invalid, forgiven)
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

// UserArguments are the arguments of a call that only the user can supply, because a model
// must not invent them (Argument.NonInferrable).
type UserArguments struct {
	Needed   []*Argument // the call cannot be made without these
	Optional []*Argument // the call can be made with or without these
}

// FromUser returns the arguments that the user must give, and those that the user may
// give, in addition to the arguments that a model gave. It validates the model's arguments
// like Bind and returns the same errors, so that the user is not asked about a call that
// cannot be made. If the model gives non-inferrable arguments, they are treated as absent.
//
// If the body is optional, its arguments are needed only once another argument of the body
// is given. Until then, an argument of the body is optional only if the body requires no
// other argument.
func (t *Tool) FromUser(arguments []byte) (UserArguments, error) {
	call := newCall(t)
	problems, err := call.read(arguments)
	if err != nil {
		return UserArguments{}, err
	}
	for i := range t.all {
		if t.all[i].NonInferrable {
			call.values[i] = nil
		}
	}
	if err := call.check(problems, isNonInferrable); err != nil {
		return UserArguments{}, err
	}
	if err := call.checkSendable(); err != nil {
		return UserArguments{}, err
	}
	return call.fromUser(), nil
}

func isNonInferrable(a *Argument) bool { return a.NonInferrable }

// fromUser sorts the missing non-inferrable arguments into needed and optional ones.
func (c *Call) fromUser() (u UserArguments) {
	missing, begun := c.missingFromBody(), c.bodyIsBegun()
	for i := range c.Tool.all {
		a := &c.Tool.all[i]
		switch {
		case !a.NonInferrable, c.Tool.plans[i].Filled:
		case a.Required, begun && slices.Contains(missing, i):
			u.Needed = append(u.Needed, a)
		case a.In != InBody || c.Tool.body.Required || begun || !slices.ContainsFunc(missing, func(other int) bool { return other != i }):
			u.Optional = append(u.Optional, a)
		}
	}
	return u
}

// checkSendable reports arguments that are valid for the schema but cannot be sent in a
// request. Unlike Request, it works while the user's arguments are still missing.
func (c *Call) checkSendable() error {
	scratch := buffer.Get()
	defer buffer.Put(scratch)
	r := &http.Request{URL: new(url.URL), Header: make(http.Header)}
	if !slices.ContainsFunc(c.Tool.path, c.awaitsUser) {
		if err := c.setPath(r.URL, scratch); err != nil {
			return err
		}
	}
	if err := c.setParameters(r, scratch); err != nil {
		return err
	}
	return c.setBody(r)
}

// awaitsUser reports whether a part of the path is a missing non-inferrable argument, or a fixed value
// that is not known before the call is sent.
func (c *Call) awaitsUser(part plan.Part) bool {
	return part.Literal == "" && (c.Tool.all[part.Argument].NonInferrable && c.value(part.Argument) == nil || c.awaitsResolution(part.Argument))
}
