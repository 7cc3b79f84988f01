package library

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/schema"
)

// Proposals returns the values of a prompt's argument: those in the prompts file or in x-mcp, or
// else those in the schema of the operation's argument.
func (p *PromptEntry) Proposals(argument string) ([]string, error) {
	for _, a := range p.Arguments {
		switch {
		case a.Name != argument:
		case a.Enum != nil:
			return a.Enum, nil
		case a.Values != nil || p.Tool == nil:
			return a.Values, nil
		default:
			return enumOf(p.arguments[argument], p.Tool), nil
		}
	}
	return nil, fmt.Errorf("the prompt %s has no argument %q", p.Name, text.Cut(argument, text.MaxQuoted))
}

// Proposals returns the values of a template's variable: the files of the folder, or the values
// in the schema of the operation's argument.
func (r *Entry) Proposals(variable string) ([]string, error) {
	if !r.template.has(variable) {
		return nil, fmt.Errorf("the template %s has no variable %q", r.template.text, text.Cut(variable, text.MaxQuoted))
	}
	if r.folder == nil {
		return enumOf(r.arguments[variable], r.Tool), nil
	}
	var names []string
	for _, f := range r.folder.list(time.Now()) {
		names = append(names, f.name)
	}
	return names, nil
}

// enumOf returns the values that the schema of an argument allows, as strings.
func enumOf(a *tools.Argument, tool *tools.Tool) (values []string) {
	root, of := schema.Open(tool.Definition.InputSchema, a.Schema)
	types := of.Types()
	if slices.Contains(types, "array") {
		of = root.Resolve(of.Part("items"))
	}
	if constant := of.Value("const"); constant != nil {
		return appendProposal(nil, constant)
	}
	list := of.Value("enum")
	if list.Kind() == '[' {
		for walk := strictjson.Into(list); walk.Next(); {
			values = appendProposal(values, walk.Value)
		}
	}
	if values == nil && slices.Contains(types, "boolean") {
		return []string{"true", "false"}
	}
	return values
}

// appendProposal appends a string, number or boolean as a string. It ignores other values.
func appendProposal(values []string, value jsontext.Value) []string {
	switch value.Kind() {
	case '"':
		return append(values, strictjson.Text(value))
	case '0', 't', 'f':
		return append(values, string(value))
	}
	return values
}
