package tools

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// The gateway fills some arguments itself: those with only one allowed value, and those
// that carry a credential of the gateway. They are not in Definition.Arguments or
// Definition.InputSchema. Their request.Argument has Filled set. If the value is known when the
// Toolset is built, it is in request.Argument.Fill.

// singleValue returns the value of a required argument for which the document allows only
// one value, and nil for other arguments. An optional argument is not filled, because the
// caller decides whether to send it.
func singleValue(required bool, place openapi.Place) jsontext.Value {
	if !required {
		return nil
	}
	value := schema.Single(place)
	if value == nil || !request.Fits(value, schema.Types(place)) {
		return nil
	}
	return value
}

// isSendable reports whether the parameter can carry the value.
func isSendable(param *request.Serializer, value jsontext.Value) bool {
	text, err := param.Append(nil, value)
	return err == nil && len(text) > 0
}

// FilledBy returns a Toolset in which the gateway fills the arguments for which fills
// returns true. Its tools neither list nor require these arguments; Call.Fill sets their
// values for each call. Tools without such arguments are shared with the original. If no
// tool has one, FilledBy returns the original Toolset.
func (s *Toolset) FilledBy(fills func(*Tool, *Argument) bool) *Toolset {
	filled := *s
	filled.tools = slices.Clone(s.tools)
	var changes []string
	for i, t := range s.tools {
		if names := filledNames(t, fills); len(names) > 0 {
			filled.tools[i] = t.withFilled(names)
			changes = append(changes, t.Name+"\x00"+strings.Join(names, "\x01"))
		}
	}
	if changes == nil {
		return s
	}
	filled.rehash("filled", changes)
	filled.index()
	return &filled
}

// filledNames returns the names of the listed arguments for which fills returns true.
func filledNames(t *Tool, fills func(*Tool, *Argument) bool) (names []string) {
	for i := range t.Definition.Arguments {
		if fills(t, &t.Definition.Arguments[i]) {
			names = append(names, t.Definition.Arguments[i].Name)
		}
	}
	return names
}

// withFilled returns a copy of the tool in which the gateway fills the named arguments.
func (t *Tool) withFilled(names []string) *Tool {
	c, edit := t.clone(), schema.Edit{Remove: names}
	c.Definition.InputSchema, c.Definition.full = edit.Apply(t.Definition.InputSchema), t.Definition.full.With(edit)
	for _, name := range names {
		i, _ := t.Plan.index.position(t.Plan.Arguments, name)
		c.Plan.Encodings[i].Filled, c.Plan.Encodings[i].Fill = true, nil
		c.Plan.Arguments[i].Required = false
	}
	c.list()
	return c
}

// list sets Arguments to the arguments that callers give.
func (t *Tool) list() {
	t.Definition.Arguments = t.Plan.Arguments
	if !t.Output.Fields && !slices.ContainsFunc(t.Plan.Encodings, func(p request.Argument) bool { return p.Filled }) {
		return
	}
	t.Definition.Arguments = make([]Argument, 0, len(t.Plan.Arguments))
	for i := range t.Plan.Arguments {
		if !t.Plan.Encodings[i].Filled && t.Plan.Arguments[i].In != InGateway {
			t.Definition.Arguments = append(t.Definition.Arguments, t.Plan.Arguments[i])
		}
	}
}

// AllowsText reports whether the argument can be a string.
func (a *Argument) AllowsText() bool { return request.Fits(jsontext.Value(`""`), a.types) }

// TakesForm reports whether the request body is a form whose fields are arguments.
func (t *Tool) TakesForm() bool {
	if t.Plan.Body == nil || t.Plan.Body.Whole >= 0 {
		return false
	}
	kind := t.Plan.Body.Encoder.Kind()
	return kind == request.URLEncoded || kind == request.Multipart
}

// Fill sets the values of the arguments that the gateway fills for each call. If value
// returns false, the argument is not sent.
func (c *Call) Fill(value func(in Location, wireName string) (text string, ok bool)) {
	for i := range c.Tool.Plan.Encodings {
		if plan := &c.Tool.Plan.Encodings[i]; plan.Filled && plan.Fill == nil && !plan.Guarded {
			a := &c.Tool.Plan.Arguments[i]
			if text, ok := value(a.In, a.WireName); ok {
				c.values[i] = strictjson.AppendString(nil, text)
			}
		}
	}
}

// isNull reports whether a value is null.
func isNull(value jsontext.Value) bool { return value.Kind() == 'n' }
