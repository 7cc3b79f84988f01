package tools

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/schema"
)

// markNonInferrable marks the arguments that the operation or the configuration lists. It
// warns if a name in the operation's list matches no argument, because it would protect
// nothing without anyone noticing.
func (t *toolBuilder) markNonInferrable() {
	listed := append([]string(nil), t.options.NonInferrable...)
	for _, item := range t.operation.Get(extensionNonInferrable).Items() {
		name := item.Text()
		listed = append(listed, name)
		if !marks(name, t.tool) {
			t.unprotected = append(t.unprotected, unprotected(extensionNonInferrable+" of "+t.tool.Operation(), name, []*Tool{t.tool}))
		}
	}
	for i := range t.plan.Arguments {
		a := &t.plan.Arguments[i]
		if slices.ContainsFunc(listed, func(name string) bool { return marksArgument(name, t.tool, a) }) {
			a.NonInferrable = true
		}
	}
}

// marks reports whether a name refers to an argument of the tool.
func marks(name string, t *Tool) bool {
	return slices.ContainsFunc(t.Plan.Arguments, func(a Argument) bool { return marksArgument(name, t, &a) })
}

// marksArgument reports whether a name, "argument" or "tool.argument", refers to the
// argument.
func marksArgument(name string, t *Tool, a *Argument) bool {
	tool, argument, qualified := strings.Cut(name, ".")
	if !qualified {
		return name == a.Name
	}
	return tool == t.Name && argument == a.Name
}

// warnOfUnprotected puts the warnings about names that match nothing before all others,
// because the author of such a name relies on its protection.
// Built are the tools before shapes changed them, whose names are allowed, too.
func (b *builder) warnOfUnprotected(built []*Tool) {
	warnings := b.source.unprotected
	for _, name := range b.options.NonInferrable {
		matches := func(t *Tool) bool { return marks(name, t) }
		if !slices.ContainsFunc(b.set.tools, matches) && !slices.ContainsFunc(built, matches) {
			warnings = append(warnings, unprotected("non_inferrable", name, b.set.tools))
		}
	}
	b.set.Report.Warnings = append(warnings, b.set.Report.Warnings...)
}

// unprotected returns the warning that a name in a list of non-inferrable arguments
// matches no argument of the tools.
func unprotected(list, name string, tools []*Tool) Warning {
	reason := fmt.Sprintf("%s: there is no argument %q, so it protects nothing", list, text.Cut(name, schema.MaxProblem))
	tool, _, qualified := strings.Cut(name, ".")
	if i := slices.IndexFunc(tools, func(t *Tool) bool { return t.Name == tool }); i >= 0 {
		tools = tools[i : i+1]
	}
	if now := nowNamed(tools, name[strings.IndexByte(name, '.')+1:]); now != "" {
		return Warning{Reason: reason + now}
	}
	near := text.Nearest(name, func(yield func(string) bool) {
		for _, t := range tools {
			for i := range t.Plan.Arguments {
				candidate := t.Plan.Arguments[i].Name
				if qualified {
					candidate = t.Name + "." + candidate
				}
				if !yield(candidate) {
					return
				}
			}
		}
	})
	return Warning{Reason: reason + text.DidYouMean(near)}
}

// NonInferrable returns the names of the arguments that a model must not invent.
func (t *Tool) NonInferrable() (names []string) {
	for i := range t.Definition.Arguments {
		if t.Definition.Arguments[i].NonInferrable {
			names = append(names, t.Definition.Arguments[i].Name)
		}
	}
	return names
}

// KeyArgument is the name of an argument that is not sent: the idempotency key of the call. The adapter of MCP reads it.
const KeyArgument = "idempotency_key"

const keySchema = `{"type":"string","minLength":1,"maxLength":255,"description":"One random key for each intended action, such as a UUID. ` +
	`Give the same key if you repeat this action because you do not know whether it worked. Give a new key for a new action."}`

// TakesKey reports whether callers may give KeyArgument. An argument of the operation with this name takes precedence.
func (t *Tool) TakesKey() bool {
	if !t.Definition.TakesKey || t.ReadOnly() {
		return false
	}
	_, own := t.Plan.index.position(t.Plan.Arguments, KeyArgument)
	return !own
}

// AppendVisibleSchema appends the input schema as models see it: without the non-inferrable arguments, and with KeyArgument.
func (t *Tool) AppendVisibleSchema(dst []byte) []byte {
	if len(t.Definition.InputSchema) == 0 {
		return t.AppendVisible(dst, jsontext.Value(`{"type":"object"}`))
	}
	return t.AppendVisible(dst, t.Definition.InputSchema)
}

// AppendVisible is like AppendVisibleSchema for another form of the schema.
func (t *Tool) AppendVisible(dst []byte, rawSchema jsontext.Value) []byte {
	visible := schema.Edit{Remove: t.NonInferrable()}
	if t.TakesKey() {
		visible.Add = []strictjson.Member{{Name: KeyArgument, Value: []byte(keySchema)}}
	}
	if !visible.Changes() {
		return append(dst, rawSchema...)
	}
	return append(dst, visible.Apply(rawSchema)...)
}
