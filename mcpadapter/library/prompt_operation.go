package library

import (
	"cmp"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/tools"
)

// addOperationPrompt adds an operation as a prompt. raw is the prompt member of x-mcp; values that
// it omits default to those of the operation.
func (s *Index) addOperationPrompt(t *tools.Tool, raw jsontext.Value, denied bool) {
	p := &PromptEntry{
		Prompt:    &Prompt{Name: t.Name, Title: t.Definition.Title, Description: t.Definition.Description},
		Tool:      t,
		Denied:    denied,
		arguments: make(arguments),
	}
	if t.Foreign != nil {
		p.Title, p.Description = "", "" // such a prompt has no texts of an operation
	}
	for walk := strictjson.Into(raw); walk.Next(); {
		value := strictjson.Text(walk.Value)
		switch {
		case walk.Is("name") && value != "":
			p.Name = value
		case walk.Is("title"):
			p.Title = value
		case walk.Is("description"):
			p.Description = value
		case walk.Is("icons"):
			p.Icons = content.ReadIcons(walk.Value)
		}
	}
	if list := strictjson.MemberOf(raw, "arguments"); list.Kind() == '[' {
		s.describeArguments(p, list)
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
func (s *Index) describeArguments(p *PromptEntry, list jsontext.Value) {
	for walk := strictjson.Into(list); walk.Next(); {
		name := strictjson.Text(strictjson.MemberOf(walk.Value, "name"))
		a := argumentOf(p.Tool, name)
		if a == nil {
			s.warn(p.Tool, "x-mcp: the prompt %s has the argument %q, which the operation does not have", p.Name, name)
			continue
		}
		if a.NonInferrable {
			s.warn(p.Tool, "x-mcp: the prompt %s cannot have the argument %s: it is non-inferrable, so the user is asked for it in an elicitation", p.Name, name)
			continue
		}
		override := PromptArgument{
			Name:        name,
			Title:       strictjson.Text(strictjson.MemberOf(walk.Value, "title")),
			Description: strictjson.Text(strictjson.MemberOf(walk.Value, "description")),
			Required:    strictjson.MemberOf(walk.Value, "required").Kind() == 't',
		}
		if values := strictjson.MemberOf(walk.Value, "values"); values.Kind() == '[' {
			for each := strictjson.Into(values); each.Next(); {
				override.Values = append(override.Values, strictjson.Text(each.Value))
			}
		}
		p.addArgument(a, override)
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
