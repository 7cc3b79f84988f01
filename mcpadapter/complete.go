package mcpadapter

import (
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// maxCompletions is the maximum number of values in one response (MCP, Completion).
const maxCompletions = 100

// complete serves completion/complete. The values for a prompt's argument or a template's variable
// come from files or from the document's schemas. Values that start with the typed text come first,
// then those that contain it.
func (x *exchange) complete() *fault {
	ref, argument := member(x.params.raw, "ref"), member(x.params.raw, "argument")
	if ref.Kind() != '{' || argument.Kind() != '{' {
		return badParams("params must have ref and argument, both objects")
	}
	if given := member(x.params.raw, "context"); given.Kind() == '{' {
		if _, f := readArguments(member(given, "arguments"), "params.context.arguments"); f != nil {
			return f
		}
	}
	name, value := member(argument, "name"), member(argument, "value")
	if name.Kind() != '"' || value.Kind() != '"' {
		return badParams("params.argument must have name and value, both strings")
	}
	all, f := x.proposals(ref, text(name))
	if f != nil {
		return f
	}
	values := ranked(all, text(value))
	b := x.appendResultHead(x.begin(), "complete", nil)
	b = appendStrings(append(b, `"completion":{"values":`...), values[:min(len(values), maxCompletions)])
	b = strconv.AppendInt(append(b, `,"total":`...), int64(len(values)), 10)
	b = append(append(b, `,"hasMore":`...), boolean(len(values) > maxCompletions)...)
	x.out.B = append(b, "}}}"...)
	return nil
}

// proposals returns all known values of an argument.
func (x *exchange) proposals(ref jsontext.Value, argument string) ([]string, *fault) {
	s := x.catalog().shelf()
	switch kind := text(member(ref, "type")); kind {
	case "ref/prompt":
		name := text(member(ref, "name"))
		p := s.byName[name]
		if p == nil || p.denied {
			return nil, badParams("there is no prompt %q: prompts/list names those there are", clip(name, maxQuoted))
		}
		return p.proposals(argument)
	case "ref/resource":
		uri := text(member(ref, "uri"))
		if r := s.byTemplate[uri]; r != nil && !r.denied {
			return r.proposals(argument)
		}
		if t, ok := s.find(uri); ok && !t.denied {
			return nil, nil
		}
		return nil, badParams("there is no resource or template %q: resources/templates/list names those there are", clip(uri, maxQuoted))
	default:
		return nil, badParams("params.ref.type must be ref/prompt or ref/resource, not %q", clip(kind, maxQuoted))
	}
}

// proposals returns the values of a prompt's argument: those in the prompts file or in x-mcp, or
// else those in the schema of the operation's argument.
func (p *prompt) proposals(argument string) ([]string, *fault) {
	for _, a := range p.Arguments {
		switch {
		case a.Name != argument:
		case a.Enum != nil:
			return a.Enum, nil
		case a.Values != nil || p.tool == nil:
			return a.Values, nil
		default:
			return enumOf(p.arguments[argument], p.tool), nil
		}
	}
	return nil, badParams("the prompt %s has no argument %q", p.Name, clip(argument, maxQuoted))
}

// proposals returns the values of a template's variable: the files of the folder, or the values
// in the schema of the operation's argument.
func (r *resource) proposals(variable string) ([]string, *fault) {
	if !r.template.has(variable) {
		return nil, badParams("the template %s has no variable %q", r.template.text, clip(variable, maxQuoted))
	}
	if r.folder == nil {
		return enumOf(r.arguments[variable], r.tool), nil
	}
	var names []string
	for _, f := range r.folder.list(time.Now()) {
		names = append(names, f.name)
	}
	return names, nil
}

// enumOf returns the values that the schema of an argument allows, as strings.
func enumOf(a *tool.Argument, tool *tool.Tool) (values []string) {
	schema := resolve(a.Schema, tool)
	types := typesOf(schema)
	if types["array"] {
		schema = resolve(member(schema, "items"), tool)
	}
	if constant := member(schema, "const"); constant != nil {
		return appendProposal(nil, constant)
	}
	list := member(schema, "enum")
	if list.Kind() == '[' {
		for walk := wire.Into(list); walk.Next(); {
			values = appendProposal(values, walk.Value)
		}
	}
	if values == nil && types["boolean"] {
		return []string{"true", "false"}
	}
	return values
}

// appendProposal appends a string, number or boolean as a string. It ignores other values.
func appendProposal(values []string, value jsontext.Value) []string {
	switch value.Kind() {
	case '"':
		return append(values, text(value))
	case '0', 't', 'f':
		return append(values, string(value))
	}
	return values
}

// ranked returns the values that start with the typed text, then those that contain it. It ignores
// case.
func ranked(all []string, typed string) []string {
	typed = strings.ToLower(typed)
	var begin, within []string
	for _, value := range all {
		switch at := strings.Index(strings.ToLower(value), typed); {
		case at == 0:
			begin = append(begin, value)
		case at > 0:
			within = append(within, value)
		}
	}
	return append(begin, within...)
}
