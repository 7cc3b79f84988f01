package library

import (
	"cmp"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/tools"
)

// addOperationPrompt adds an operation as a prompt. What x-mcp omits defaults to that of the operation.
func (s *Index) addOperationPrompt(t *tools.Tool, d declared, denied bool) {
	if t.Foreign == nil { // the prompt of an MCP server has no texts of an operation
		d.Title, d.Description = cmp.Or(d.Title, t.Definition.Title), cmp.Or(d.Description, t.Definition.Description)
	}
	p := &PromptEntry{
		Prompt:    &Prompt{Name: cmp.Or(d.Name, t.Name), Title: d.Title, Description: d.Description, Icons: content.ReadIcons(d.Icons)},
		Tool:      t,
		Denied:    denied,
		arguments: make(arguments),
	}
	if d.Arguments != nil {
		s.describeArguments(p, d.Arguments)
	} else {
		for i := range t.Definition.Arguments {
			if a := &t.Definition.Arguments[i]; !a.NonInferrable { // the server asks the user for non-inferrable arguments
				p.addArgument(a, PromptArgument{})
			}
		}
	}
	if a := p.arguments.missing(t); a != nil {
		s.warn(t, "x-mcp: the prompt %s lacks the argument %s, which the operation requires", p.Name, a.Name)
		return
	}
	s.prefixPrompt(p)
	if !s.addPrompt(p) {
		s.warn(t, "x-mcp: ignored the prompt %s: another prompt has the same name", p.Name)
	}
}

// prefixPrompt gives a prompt the prefix of its toolset if another one has its name, or had it: a prompt of an MCP server has
// one if its tool does. A prompt of the Library keeps its name, and replaces that of a document.
func (s *Index) prefixPrompt(p *PromptEntry) {
	_, own := s.tools.Original(p.Tool)
	other := s.ByName[p.Name]
	switch {
	case p.Tool.Foreign != nil && own.Name != p.Tool.Name:
	case other == nil, other.Tool == nil && p.Tool.Foreign == nil, other.Tool != nil && s.tools.PartOf(other.Tool) == s.tools.PartOf(p.Tool):
		return
	}
	p.Name = s.prefixed(p)
}

// prefixed returns the name of a prompt with the prefix of its toolset. It is not that of another prompt.
func (s *Index) prefixed(p *PromptEntry) string {
	name := tools.MergePrefix(s.tools.PartOf(p.Tool).Name) + "_" + p.Name
	for s.ByName[name] != nil {
		name += "_"
	}
	return name
}

// describeArguments reads the arguments in x-mcp, which select and describe arguments of the
// operation.
func (s *Index) describeArguments(p *PromptEntry, list []PromptArgument) {
	for _, override := range list {
		switch a := argumentOf(p.Tool, override.Name); {
		case a == nil:
			s.warn(p.Tool, "x-mcp: the prompt %s has the argument %q, which the operation does not have", p.Name, override.Name)
		case a.NonInferrable:
			s.warn(p.Tool, "x-mcp: the prompt %s cannot have the argument %s: it is non-inferrable, so the user is asked for it in an elicitation", p.Name, a.Name)
		default:
			p.addArgument(a, override)
		}
	}
}

// addArgument adds an argument of the operation. override replaces its name and description.
func (p *PromptEntry) addArgument(a *tools.Argument, override PromptArgument) {
	override.Name = cmp.Or(override.Name, a.Name)
	override.Description = cmp.Or(override.Description, a.Description)
	override.Required = override.Required || a.Required && a.Default == nil
	if _, twice := p.arguments[override.Name]; twice || len(p.Arguments) == maxPromptArguments {
		return
	}
	p.arguments[override.Name] = a
	p.Arguments = append(p.Arguments, override)
}

// Call returns the operation's arguments for the prompt's values. An empty string for an optional
// argument counts as absent, because clients send it for fields that the user left empty.
func (p *PromptEntry) Call(values map[string]string) []byte {
	var call strictjson.ObjectBuilder
	for _, described := range p.Arguments {
		a := p.arguments[described.Name]
		if value, given := values[described.Name]; given && (value != "" || a.Required) {
			call.Add(a.Name, appendArgument(nil, a, p.Tool, value))
		}
	}
	return call.Close()
}
