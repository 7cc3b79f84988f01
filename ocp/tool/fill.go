package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/body"
	"github.com/fairwayhq/fairway/ocp/internal/openapi"
	"github.com/fairwayhq/fairway/ocp/internal/plan"
	"github.com/fairwayhq/fairway/ocp/internal/schema"
	"github.com/fairwayhq/fairway/ocp/internal/schemaedit"
	"github.com/fairwayhq/fairway/ocp/internal/style"
)

// The gateway fills some arguments itself: those with only one allowed value, and those
// that carry a credential of the gateway. They are not in Tool.Arguments or
// Tool.InputSchema. Their plan.Argument has filled set. If the value is known when the
// Toolset is built, it is in plan.Argument.Fill.

// singleValue returns the value of a required argument for which the document allows only
// one value, and nil for other arguments. An optional argument is not filled, because the
// caller decides whether to send it.
func singleValue(required bool, place openapi.Place) jsontext.Value {
	if !required {
		return nil
	}
	value := schema.Single(place)
	if value == nil || !plan.Fits(value, schema.Types(place)) {
		return nil
	}
	return value
}

// isSendable reports whether the parameter can carry the value.
func isSendable(param *style.Serializer, value jsontext.Value) bool {
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
	sum := sha256.New()
	sum.Write([]byte(s.Hash))
	changed := false
	for i, t := range s.tools {
		if names := filledNames(t, fills); len(names) > 0 {
			filled.tools[i] = t.withFilled(names)
			changed = true
			sum.Write([]byte("\x00" + t.Name + "\x00" + strings.Join(names, "\x01")))
		}
	}
	if !changed {
		return s
	}
	filled.Hash = hex.EncodeToString(sum.Sum(nil))
	filled.index()
	return &filled
}

// filledNames returns the names of the listed arguments for which fills returns true.
func filledNames(t *Tool, fills func(*Tool, *Argument) bool) (names []string) {
	for i := range t.Arguments {
		if fills(t, &t.Arguments[i]) {
			names = append(names, t.Arguments[i].Name)
		}
	}
	return names
}

// withFilled returns a copy of the tool in which the gateway fills the named arguments.
func (t *Tool) withFilled(names []string) *Tool {
	c, edit := t.clone(), schemaedit.Edit{Remove: names}
	c.InputSchema, c.full = edit.Apply(t.InputSchema), t.full.With(edit)
	for _, name := range names {
		i, _ := t.index.position(t.all, name)
		c.plans[i].Filled, c.plans[i].Fill = true, nil
		c.all[i].Required = false
	}
	c.list()
	return c
}

// clone returns a copy of the tool whose arguments can be changed before it is used.
func (t *Tool) clone() *Tool {
	return &Tool{
		Name: t.Name, Title: t.Title, Description: t.Description, Method: t.Method, Path: t.Path,
		OperationID: t.OperationID, Tags: t.Tags, Deprecated: t.Deprecated, Builtin: t.Builtin, Security: t.Security,
		InputSchema: t.InputSchema, Simplified: t.Simplified, Response: t.Response, OCP: t.OCP, MCP: t.MCP,
		Annotations: t.Annotations, selection: t.selection, MaxTokens: t.MaxTokens, Fields: t.Fields, Unshaped: t.Unshaped,
		Arguments: t.Arguments, all: slices.Clone(t.all), plans: slices.Clone(t.plans), index: t.index,
		path: t.path, base: t.base, template: t.template, query: t.query, identity: t.identity,
		body: t.body, openBody: t.openBody, taken: t.taken, accept: t.accept,
		full: t.full, unread: t.unread, guards: t.guards, sendsBody: t.sendsBody,
	}
}

// list sets Arguments to the arguments that callers give.
func (t *Tool) list() {
	t.Arguments = t.all
	if !t.Fields && !slices.ContainsFunc(t.plans, func(p plan.Argument) bool { return p.Filled }) {
		return
	}
	t.Arguments = make([]Argument, 0, len(t.all))
	for i := range t.all {
		if !t.plans[i].Filled && t.all[i].In != InGateway {
			t.Arguments = append(t.Arguments, t.all[i])
		}
	}
}

// AllowsText reports whether the argument can be a string.
func (a *Argument) AllowsText() bool { return plan.Fits(jsontext.Value(`""`), a.types) }

// TakesForm reports whether the request body is a form whose fields are arguments.
func (t *Tool) TakesForm() bool {
	if t.body == nil || t.body.Whole >= 0 {
		return false
	}
	kind := t.body.Encoder.Kind()
	return kind == body.URLEncoded || kind == body.Multipart
}

// Fill sets the values of the arguments that the gateway fills for each call. If value
// returns false, the argument is not sent.
func (c *Call) Fill(value func(in Location, wireName string) (text string, ok bool)) {
	for i := range c.Tool.plans {
		if plan := &c.Tool.plans[i]; plan.Filled && plan.Fill == nil && !plan.Guarded {
			a := &c.Tool.all[i]
			if text, ok := value(a.In, a.WireName); ok {
				c.values[i] = wire.AppendString(nil, text)
			}
		}
	}
}

// isNull reports whether a value is null.
func isNull(value jsontext.Value) bool { return value.Kind() == 'n' }
