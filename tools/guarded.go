package tools

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// A shape can fix an argument, which is then always sent with the same value, or hide an argument,
// which is then never sent. Such arguments are guarded: callers do not see them, and the API must not
// mistake any other value of a caller for one of them.

// guards describes the guarded arguments of a tool.
type guards struct {
	perCall    []perCallValue
	aliases    map[string]bool // request.Alias of their names in path, query and body
	names      []string        // names in the request
	configured []string        // names in the request of the arguments that the options guard
}

// A perCallValue is a fixed value with placeholders.
type perCallValue struct {
	argument int
	template jsontext.Value
	schema   *schema.Validator // of the argument
	text     jsontext.Value    // of schema
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

// resolve sets the fixed values of a call that contain placeholders. See Call.Resolve.
func (g *guards) resolve(c *Call, replace func(source string) (string, error)) error {
	for i := range g.perCall {
		v := &g.perCall[i]
		value, err := v.value(&c.Tool.Plan.Arguments[v.argument], c.Tool.Plan.Encodings[v.argument].Fast, replace)
		if err != nil {
			return &PlaceholderError{Tool: c.Tool.Name, Argument: c.Tool.Plan.Arguments[v.argument].Name, Err: err}
		}
		c.values[v.argument] = value
	}
	return nil
}

// value returns the value for one call. Fast is the quick check of the argument, or nil.
func (v *perCallValue) value(a *Argument, fast *schema.Fast, replace func(string) (string, error)) (jsontext.Value, error) {
	value, err := build.ReplaceTexts(v.template, replace)
	if err != nil {
		return nil, err
	}
	if value, err = build.ConvertValue(value, a.types); err != nil {
		return nil, err
	}
	if fast != nil && fast.Accepts(value) {
		return value, nil
	}
	compiled, err := v.schema.Compile(func() jsontext.Value { return v.text })
	if err != nil {
		return nil, err
	}
	decoded, err := strictjson.Decode(value)
	if err != nil {
		return nil, err
	}
	if compiled.Validate(decoded) != nil {
		return nil, errors.New("the value does not match the schema of the argument") // the validator's error quotes the value, which may be a secret
	}
	return value, nil
}

// checkResolved returns a Failure if a fixed value is not known yet.
func (c *Call) checkResolved() error {
	for _, v := range c.Tool.Plan.guards.perCall {
		if c.values[v.argument] == nil {
			return &Failure{Kind: Internal, Message: fmt.Sprintf(
				"%s was not sent: a value that the operator fixes has not been resolved", c.Tool.Operation())}
		}
	}
	return nil
}

// resembles reports whether a server may confuse a name in the query or the body with a guarded
// argument. Many servers merge path, query and body, and many ignore case in names.
func (g *guards) resembles(name string) bool {
	return g != nil && (g.aliases[request.Alias(name)] || g.aliases[request.Alias(request.Stem(name))])
}

// covers reports whether an argument with that name in the request is guarded.
func (g *guards) covers(wireName string) bool {
	return g != nil && slices.Contains(g.names, wireName)
}

// RuleArguments returns the arguments that rules about calls can read: those that callers give, and
// those that a shape fixes or hides. Only plain requests can have a hidden argument.
func (t *Tool) RuleArguments() []Argument {
	if t.Plan.guards == nil {
		return t.Definition.Arguments
	}
	visible := make([]Argument, 0, len(t.Plan.Arguments))
	for i := range t.Plan.Arguments {
		if !t.Plan.Encodings[i].Filled || t.Plan.Encodings[i].Guarded {
			visible = append(visible, t.Plan.Arguments[i])
		}
	}
	return visible
}

// A call must not set a guarded argument under another name. The following checks apply to the
// encoded request.

// checkQuery returns an error if the value of a query argument has a property that becomes a
// query parameter with the name of a guarded argument.
func (b *requestBuilder) checkQuery(argument int, value jsontext.Value) error {
	if b.plan.Encodings[argument].Guarded || value.Kind() != '{' {
		return nil
	}
	encoded, err := b.plan.Encodings[argument].Param.Append(nil, value)
	if err != nil {
		return nil //nolint:nilerr // setParameters returns the error
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
		pairs, _ := request.ParsePairs(nil, request.Query, encoded)
		for i := range pairs {
			if !yield(pairs[i].Name) {
				return
			}
		}
	}
}

// checkName returns an error if a server may mistake a name that a caller gave for a guarded argument.
// Argument is the position of the argument that has the name, or -1.
func (b *requestBuilder) checkName(argument int, name string) error {
	if !b.plan.guards.resembles(name) {
		return nil
	}
	problem := Problem{Message: fmt.Sprintf("the tool takes no property %q", text.Cut(name, schema.MaxProblem))}
	if argument >= 0 {
		problem.Path = text.Pointer(b.plan.Arguments[argument].Name)
	}
	return b.call.Tool.invalid([]Problem{problem})
}

// checkBody returns an error if the encoded body has a name that a server may mistake for a guarded
// argument.
func (b *requestBuilder) checkBody(planned *request.BodyPlan, content []byte) error {
	switch encoder := b.encoder(planned); {
	case encoder.Kind() == request.URLEncoded:
		for name := range pairNames(string(content)) {
			if b.declaresInBody(name) {
				continue
			}
			if err := b.checkName(planned.Whole, name); err != nil {
				return err
			}
		}
	case planned.Whole < 0 || b.plan.Encodings[planned.Whole].Guarded:
	default:
		value := b.call.value(planned.Whole)
		if value.Kind() != '{' {
			return nil
		}
		for walk := strictjson.Into(value); walk.Next(); {
			if err := b.checkName(planned.Whole, strictjson.Text(walk.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// declaresInBody reports whether an argument is the property of the body with that name.
func (b *requestBuilder) declaresInBody(name string) bool {
	return slices.ContainsFunc(b.plan.Arguments, func(a Argument) bool { return a.In == InBody && a.WireName == name })
}
