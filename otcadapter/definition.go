package otcadapter

import (
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp"
)

// How much of the API's own schemas of its answers the definitions have: models
// pay for each byte. Beyond it they say the type alone.
const (
	maxValueSchema  = 8 << 10 // bytes of one
	maxValueSchemas = 1 << 20 // bytes of all in one list
)

// appendList appends the answer to GET /tools. The definitions under "tools" are
// those of OTC 1.0 (Tool Definition Schema); those under "items" have the form
// that OXP gives them. Of tools with the same id the first is there.
func (c *catalog) appendList(b []byte, warn func(string)) []byte {
	b = append(b, `{"$schema":"`+otcStandard.schema+`","tools":[`...)
	b = c.appendAll(b, warn, (*toolkit).appendDefinition)
	b = append(b, `],"items":[`...)
	b = c.appendAll(b, nil, (*toolkit).appendItem)
	return append(b, "]}"...)
}

// appendAll appends the tools of all toolkits, in the order of the configuration,
// and warns of those that are hidden behind others of the same id.
func (c *catalog) appendAll(b []byte, warn func(string), define func(*toolkit, []byte, *entry, *ocp.Answer) []byte) []byte {
	budget := maxValueSchemas
	listed := make(map[string]bool)
	first := true
	for _, k := range c.toolkits {
		for _, t := range c.source[k.index].Tools.Tools() {
			id := string(k.appendID(nil, t.Name))
			if listed[id] {
				if warn != nil {
					warn("two documents have the tool " + id + ": the first of them is used; give the documents different versions, or exclude it from one")
				}
				continue
			}
			listed[id] = true
			if !first {
				b = append(b, ',')
			}
			first = false
			answer := t.Answer
			if budget -= len(answer.Schema); len(answer.Schema) > maxValueSchema || budget < 0 {
				answer.Schema = nil
			}
			b = define(k, b, k.entries[t.Name], &answer)
		}
	}
	return b
}

func (k *toolkit) appendDefinition(b []byte, t *entry, answer *ocp.Answer) []byte {
	b = k.appendHead(b, t)
	b = append(b, `,"toolkit":{"name":"`...)
	b = append(b, k.name...)
	b = append(b, `","description":`...)
	b = wire.AppendString(b, k.description)
	b = append(b, `,"version":"`...)
	b = append(b, k.version...)
	b = append(b, `"},"input":{"parameters":`...)
	b = append(b, inputSchema(t.Tool)...)
	b = append(b, `,"required":`...)
	b = appendStrings(b, argumentNames(t.Tool, func(a *ocp.Argument) bool { return a.Required }))
	if hidden := argumentNames(t.Tool, func(a *ocp.Argument) bool { return a.NonInferrable }); len(hidden) > 0 {
		b = append(b, `,"non_inferrable_parameters":`...)
		b = appendStrings(b, hidden)
	}
	b = append(b, `},"output":`...)
	b = appendOutput(b, answer)
	b = k.appendRequirements(b, t)
	return append(b, '}')
}

// appendItem appends the definition in the form of OXP.
func (k *toolkit) appendItem(b []byte, t *entry, answer *ocp.Answer) []byte {
	b = k.appendHead(b, t)
	b = append(b, `,"version":"`...)
	b = append(b, k.version...)
	b = append(b, `","input_schema":`...)
	b = append(b, inputSchema(t.Tool)...)
	b = append(b, `,"output_schema":`...)
	if hasValue, _ := modes(answer); hasValue {
		b = appendValueSchema(b, answer)
	} else {
		b = append(b, "null"...)
	}
	b = k.appendRequirements(b, t)
	return append(b, '}')
}

// appendHead appends what both forms have: id, name and description.
func (k *toolkit) appendHead(b []byte, t *entry) []byte {
	b = append(b, `{"id":"`...)
	b = k.appendID(b, t.Name)
	b = append(b, `","name":`...)
	b = wire.AppendString(b, t.Name)
	b = append(b, `,"description":`...)
	return wire.AppendString(b, describe(t.Tool))
}

// appendRequirements appends what a client has to bring. Where the gateway holds
// the API's credentials that is nothing.
func (k *toolkit) appendRequirements(b []byte, t *entry) []byte {
	if k.held {
		return b
	}
	return appendRequirements(b, demanded(t.requirements))
}

// describe returns the tool's description. Neither protocol has a field to mark a
// deprecated tool with, and their schemas allow no other.
func describe(t *ocp.Tool) string {
	const mark = "Deprecated"
	if t.Deprecated && !strings.HasPrefix(strings.ToLower(t.Description), strings.ToLower(mark)) {
		return mark + ". " + t.Description
	}
	return t.Description
}

func inputSchema(t *ocp.Tool) []byte {
	if len(t.InputSchema) == 0 {
		return []byte(`{"type":"object"}`)
	}
	return t.InputSchema
}

// argumentNames lists the arguments of which that is true.
func argumentNames(t *ocp.Tool, holds func(*ocp.Argument) bool) (names []string) {
	for i := range t.Arguments {
		if holds(&t.Arguments[i]) {
			names = append(names, t.Arguments[i].Name)
		}
	}
	return names
}

func appendStrings(b []byte, texts []string) []byte {
	b = append(b, '[')
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendString(b, text)
	}
	return append(b, ']')
}

// modes reports which output modes beside error the declared answers leave open.
// A document that declares nothing of them leaves every mode open.
func modes(answer *ocp.Answer) (value, null bool) {
	unknown := len(answer.MediaTypes) == 0 && len(answer.Types) == 0 && !answer.Empty
	value = unknown || len(answer.MediaTypes) > 0 || len(answer.Types) > 0
	null = unknown || answer.Empty || slices.Contains(answer.Types, "null")
	return value, null
}

// appendOutput appends what a call may give.
func appendOutput(b []byte, answer *ocp.Answer) []byte {
	hasValue, hasNull := modes(answer)
	b = append(b, `{"available_modes":[`...)
	if hasValue {
		b = append(b, `"value",`...)
	}
	b = append(b, `"error"`...)
	if hasNull {
		b = append(b, `,"null"`...)
	}
	b = append(b, ']')
	if answer.Description != "" {
		b = append(b, `,"description":`...)
		b = wire.AppendString(b, answer.Description)
	}
	if hasValue {
		b = append(b, `,"value":{"parameters":`...)
		b = appendValueSchema(b, answer)
		b = append(b, '}')
	}
	return append(b, '}')
}

// appendValueSchema appends the schema of the value: the document's own where the
// Toolset has it and it is an object, or else the type.
func appendValueSchema(b []byte, answer *ocp.Answer) []byte {
	if len(answer.MediaTypes) > 0 && !slices.ContainsFunc(answer.MediaTypes, maybeStructured) {
		b = append(b, `{"type":"string"`...)
		if !slices.ContainsFunc(answer.MediaTypes, isText) {
			b = append(b, `,"contentEncoding":"base64","contentMediaType":`...)
			b = wire.AppendString(b, answer.MediaTypes[0])
		}
		return append(b, '}')
	}
	if answer.Schema.Kind() == '{' {
		return append(b, answer.Schema...)
	}
	switch len(answer.Types) {
	case 0:
		return append(b, "{}"...)
	case 1:
		b = append(b, `{"type":`...)
		b = wire.AppendString(b, answer.Types[0])
		return append(b, '}')
	}
	b = append(b, `{"type":`...)
	b = appendStrings(b, answer.Types)
	return append(b, '}')
}

// maybeStructured reports whether bodies of the media type, which may be a range
// such as */*, can be JSON.
func maybeStructured(mediaType string) bool {
	return isStructured(mediaType) || strings.Contains(mediaType, "*")
}
