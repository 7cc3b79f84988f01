package tool

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/plan"
	"github.com/fairwayhq/fairway/ocp/internal/schemaedit"
	"github.com/fairwayhq/fairway/ocp/internal/style"
	"github.com/fairwayhq/fairway/ocp/internal/validate"
	"github.com/fairwayhq/fairway/ocp/shape"
)

// A shape can fix an argument, which is then always sent with the same value, and hide an argument,
// which is then never sent. Such arguments are guarded: for callers they do not exist, and nothing that
// a caller gives may pass for one of them at the API.

// guards describes the guarded arguments of a tool.
type guards struct {
	perCall    []perCallValue
	aliases    map[string]bool // style.Alias of their names in path, query and body
	names      []string        // names in the request
	configured []string        // names in the request of those that the options guard
}

// A perCallValue is a fixed value with placeholders.
type perCallValue struct {
	argument int
	template jsontext.Value
	schema   *validate.Schema // of the argument
	text     jsontext.Value   // of schema
}

// PlaceholderError reports a fixed value that cannot be sent. Its message is for the operator.
type PlaceholderError struct {
	Tool     string
	Argument string
	Err      error
}

func (e *PlaceholderError) Error() string {
	return fmt.Sprintf("fixed value of argument %s of tool %s: %v", e.Argument, e.Tool, e.Err)
}

// Unwrap returns the reason.
func (e *PlaceholderError) Unwrap() error { return e.Err }

// errUnfitFixed reports a value that the document does not allow.
var errUnfitFixed = errors.New("the value does not match the schema of the argument")

// Resolve sets the fixed values that contain placeholders. Replace returns a text with its placeholders
// replaced, or an error if one is empty or unknown. The error is a *PlaceholderError, and the call must
// not be sent then. A call that is not resolved cannot be sent.
func (c *Call) Resolve(replace func(text string) (string, error)) error {
	if c.Tool.guards == nil {
		return nil
	}
	for i := range c.Tool.guards.perCall {
		v := &c.Tool.guards.perCall[i]
		value, err := v.value(&c.Tool.all[v.argument], c.Tool.plans[v.argument].Fast, replace)
		if err != nil {
			return &PlaceholderError{Tool: c.Tool.Name, Argument: c.Tool.all[v.argument].Name, Err: err}
		}
		c.values[v.argument] = value
	}
	return nil
}

// value returns the value for one call. Fast is the quick check of the argument, or nil.
func (v *perCallValue) value(a *Argument, fast *validate.Fast, replace func(string) (string, error)) (jsontext.Value, error) {
	value, err := shape.Replace(v.template, replace)
	if err != nil {
		return nil, err
	}
	if value, err = shape.Convert(value, a.types); err != nil {
		return nil, err
	}
	if fast != nil && fast.Accepts(value) {
		return value, nil
	}
	compiled, err := v.schema.Compile(func() jsontext.Value { return v.text })
	if err != nil {
		return nil, err
	}
	decoded, err := wire.Decode(value)
	if err != nil {
		return nil, err
	}
	if compiled.Validate(decoded) != nil {
		return nil, errUnfitFixed // the error of the validator repeats the value, which may be a secret
	}
	return value, nil
}

// checkResolved returns a Failure if a fixed value is not known yet.
func (c *Call) checkResolved() error {
	if c.Tool.guards == nil {
		return nil
	}
	for _, v := range c.Tool.guards.perCall {
		if c.values[v.argument] == nil {
			return &Failure{Kind: Internal, Message: fmt.Sprintf(
				"%s was not sent: a value that the operator fixes is not known here", c.Tool.Operation())}
		}
	}
	return nil
}

// resembles reports whether a server may confuse a name in the query or the body with a guarded
// argument. Many servers merge path, query and body, and many ignore case in names.
func (g *guards) resembles(name string) bool {
	return g != nil && (g.aliases[style.Alias(name)] || g.aliases[style.Alias(style.Stem(name))])
}

// covers reports whether an argument with that name in the request is guarded.
func (g *guards) covers(wireName string) bool {
	return g != nil && slices.Contains(g.names, wireName)
}

// reveal changes the plan for reading plain requests. A plain request may have a guarded argument
// with any value, as shapes are about tool calls only. Its value is read as that of any other argument,
// so that no rule about the operation can be avoided by it. All are the arguments of the tool.
func (g *guards) reveal(p *plan.Plan, all []Argument) {
	if g == nil {
		return
	}
	var add []wire.Member
	p.Arguments = slices.Clone(p.Arguments)
	for i := range p.Arguments {
		if a := &p.Arguments[i]; a.Guarded {
			a.Filled, a.Fill = false, nil
			add = append(add, wire.Member{Name: all[i].Name, Value: all[i].Schema})
		}
	}
	edit, guarded := schemaedit.Edit{Add: add}, p.Schema
	p.Schema = func() jsontext.Value { return edit.Apply(guarded()) }
	p.Validator = new(validate.Schema)
}

// RuleArguments returns the arguments whose values rules about calls see: those that callers give, and
// those that a shape fixes or hides. A hidden argument is in plain requests only.
func (t *Tool) RuleArguments() []Argument {
	if t.guards == nil {
		return t.Arguments
	}
	visible := make([]Argument, 0, len(t.all))
	for i := range t.all {
		if !t.plans[i].Filled || t.plans[i].Guarded {
			visible = append(visible, t.all[i])
		}
	}
	return visible
}
