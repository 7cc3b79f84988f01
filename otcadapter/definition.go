package otcadapter

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/mediatype"
	"github.com/fairwayhq/fairway/internal/simplify"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// Size limits of the schemas in tool definitions, because models pay for every byte. A schema
// over its limit loses its deepest levels; the schema of a value may be reduced to its type.
// The tools of a list share the total evenly. Space that one schema does not need is available
// to those after it.
const (
	maxValueSchema  = 8 << 10  // bytes, for the schema of one value
	maxValueSchemas = 2 << 20  // bytes, for all of a list
	maxInputSchema  = 64 << 10 // bytes, for the schema of one input that has to be flattened
	maxInputSchemas = 16 << 20 // bytes, for all of a list
)

// A byteBudget is the space that is left for the remaining schemas.
type byteBudget struct {
	remaining, perSchema int
	schemas              int // number of remaining schemas
}

// next returns the limit for the next schema, in bytes.
func (r *byteBudget) next() int {
	return max(min(r.remaining/max(r.schemas, 1), r.perSchema), 0)
}

// take subtracts the size of a schema.
func (r *byteBudget) take(bytes int) {
	r.remaining -= bytes
	r.schemas--
}

// A listedTool is a tool with its schemas in the form in which they are listed.
type listedTool struct {
	*entry
	input, value []byte
}

// buildList encodes the response to GET /tools. The definitions under "tools" have the form of
// OTC 1.0 (Tool Definition Schema). Those under "items" have the form of OXP. The tools are in
// the order of the configuration. If several tools have the same id, only the first is listed,
// and warn is called for the others.
func (c *catalog) buildList(warn func(string)) {
	type span struct{ from, to int } // in b and in items
	var otc, oxp []span
	b := []byte(`{"$schema":"` + otcStandard.schema + `","tools":[`)
	items := []byte(`],"items":[`)
	inputs, values := c.schemaBudgets()
	listed := make(map[string]bool)
	for _, k := range c.toolkits {
		for _, t := range c.source[k.index].Tools.Listed() {
			id := string(k.appendID(nil, t.Name))
			if listed[id] {
				if warn != nil {
					warn("tool " + id + " is in two documents, and the first is used; give the documents different versions, or exclude the tool from one")
				}
				continue
			}
			if len(listed) > 0 {
				b, items = append(b, ','), append(items, ',')
			}
			listed[id] = true
			d := listedTool{entry: k.entries[t.Name]}
			d.input = simplify.Flatten(inputSchema(t), inputs.next())
			d.value = appendValueSchema(nil, &t.Response, values.next())
			inputs.take(len(d.input))
			values.take(len(d.value))
			from, fromItem := len(b), len(items)
			b = k.appendDefinition(b, &d)
			items = k.appendItem(items, &d)
			otc, oxp = append(otc, span{from, len(b)}), append(oxp, span{fromItem, len(items)})
			c.defined = append(c.defined, definedTool{id: id})
		}
	}
	before := len(b)
	c.list = append(append(b, items...), "]}"...)
	c.byID = make(map[string]*definedTool, len(c.defined))
	for i := range c.defined {
		d := &c.defined[i]
		d.otc, d.oxp = c.list[otc[i].from:otc[i].to], c.list[before+oxp[i].from:before+oxp[i].to]
		c.byID[d.id] = d
	}
}

// schemaBudgets returns the space for the schemas of the list.
func (c *catalog) schemaBudgets() (inputs, values byteBudget) {
	n := 0
	for _, k := range c.toolkits {
		n += len(k.entries)
	}
	return byteBudget{maxInputSchemas, maxInputSchema, n}, byteBudget{maxValueSchemas, maxValueSchema, n}
}

// appendDefinition appends the definition in the form of OTC.
func (k *toolkit) appendDefinition(b []byte, t *listedTool) []byte {
	b = k.appendHead(b, t.entry)
	b = append(b, `,"toolkit":{"name":"`...)
	b = append(b, k.name...)
	b = append(b, `","description":`...)
	b = wire.AppendString(b, k.description)
	b = append(b, `,"version":"`...)
	b = append(b, k.version...)
	b = append(b, `"},"input":{"parameters":`...)
	b = append(b, t.input...)
	b = append(b, `,"required":`...)
	b = wire.AppendStrings(b, argumentNames(t.Tool, func(a *tool.Argument) bool { return a.Required }))
	if hidden := argumentNames(t.Tool, isNonInferrable); len(hidden) > 0 {
		b = append(b, `,"non_inferrable_parameters":`...)
		b = wire.AppendStrings(b, hidden)
	}
	b = append(b, `},"output":`...)
	b = appendOutput(b, &t.Response, t.value)
	b = k.appendRequirements(b, t.entry)
	return append(b, '}')
}

// appendItem appends the definition in the form of OXP.
func (k *toolkit) appendItem(b []byte, t *listedTool) []byte {
	b = k.appendHead(b, t.entry)
	b = append(b, `,"version":"`...)
	b = append(b, k.version...)
	b = append(b, `","input_schema":`...)
	b = appendItemInput(b, t)
	b = append(b, `,"output_schema":`...)
	if hasValue, _ := outputModes(&t.Response); hasValue {
		b = append(b, t.value...)
	} else {
		b = append(b, "null"...)
	}
	b = k.appendRequirements(b, t.entry)
	return append(b, '}')
}

// appendHead appends the members that both forms have: id, name and description.
func (k *toolkit) appendHead(b []byte, t *entry) []byte {
	b = append(b, `{"id":"`...)
	b = k.appendID(b, t.Name)
	b = append(b, `","name":`...)
	b = wire.AppendString(b, t.Name)
	b = append(b, `,"description":`...)
	return wire.AppendString(b, description(t.Tool))
}

// appendRequirements appends the tool's requirements. If the gateway adds the API's
// credentials, there are none.
func (k *toolkit) appendRequirements(b []byte, t *entry) []byte {
	if k.injectsCredentials {
		return b
	}
	return appendRequirements(b, listedRequirements(t.requirements))
}

// notInferred tells a model that it must not make up an argument. OTC lists such arguments
// separately. OXP does not, and its clients show the schema to the model unchanged. The
// arguments cannot be hidden, because the client has to provide them.
const notInferred = "Do not make up this value: it must come from the application or the user."

// appendItemInput appends the input schema, with notInferred in the description of each
// argument that a model must not make up.
func appendItemInput(b []byte, t *listedTool) []byte {
	hidden := argumentNames(t.Tool, isNonInferrable)
	if len(hidden) == 0 {
		return append(b, t.input...)
	}
	b = append(b, '{')
	for _, m := range membersOf(t.input) {
		b = appendName(b, m.Name)
		if m.Name != "properties" {
			b = append(b, m.Value...)
			continue
		}
		b = append(b, '{')
		for _, p := range membersOf(m.Value) {
			b = appendName(b, p.Name)
			if slices.Contains(hidden, p.Name) {
				b = appendNotInferred(b, p.Value)
			} else {
				b = append(b, p.Value...)
			}
		}
		b = append(b, '}')
	}
	return append(b, '}')
}

// appendNotInferred appends the schema of an argument that a model must not make up.
func appendNotInferred(b []byte, property jsontext.Value) []byte {
	text := notInferred
	b = append(b, '{')
	for _, m := range membersOf(property) {
		if m.Name == "description" && m.Value.Kind() == '"' {
			text = unquoted(m.Value) + "\n\n" + notInferred
			continue
		}
		b = appendName(b, m.Name)
		b = append(b, m.Value...)
	}
	b = appendName(b, "description")
	return append(wire.AppendString(b, text), '}')
}

// appendName appends the name of a member, after a comma if necessary.
func appendName(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(wire.AppendString(b, name), ':')
}

// description returns the tool's description. For a deprecated tool the description says so,
// because neither protocol has a field for this.
func description(t *tool.Tool) string {
	const mark = "Deprecated"
	if t.Deprecated && !strings.HasPrefix(strings.ToLower(t.Description), strings.ToLower(mark)) {
		return mark + ". " + t.Description
	}
	return t.Description
}

// inputSchema returns the schema of the tool's arguments.
func inputSchema(t *tool.Tool) jsontext.Value {
	if len(t.InputSchema) == 0 {
		return jsontext.Value(`{"type":"object"}`)
	}
	return t.InputSchema
}

// isNonInferrable reports whether a model must not make up the argument.
func isNonInferrable(a *tool.Argument) bool { return a.NonInferrable }

// argumentNames returns the names of the arguments for which include returns true.
func argumentNames(t *tool.Tool, include func(*tool.Argument) bool) (names []string) {
	for i := range t.Arguments {
		if include(&t.Arguments[i]) {
			names = append(names, t.Arguments[i].Name)
		}
	}
	return names
}

// outputModes reports which output modes, besides error, the declared responses allow. A document
// that declares no successful response allows every mode. So does a response without content,
// unless its status excludes content, because documents often omit the content. A call never
// responds in another mode (call.hasValue).
func outputModes(answer *tool.DeclaredResponse) (value, null bool) {
	unknown := len(answer.MediaTypes) == 0 && len(answer.Types) == 0 && !answer.Empty
	value = unknown || answer.Unstated || len(answer.MediaTypes) > 0 || len(answer.Types) > 0
	null = unknown || answer.Empty || slices.Contains(answer.Types, "null")
	return value, null
}

// appendOutput appends the possible outputs of a tool.
func appendOutput(b []byte, answer *tool.DeclaredResponse, value []byte) []byte {
	hasValue, hasNull := outputModes(answer)
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
		b = append(b, value...)
		b = append(b, '}')
	}
	return append(b, '}')
}

// appendValueSchema appends the schema of the value. It contains as much of the document's
// schema as fits into limit bytes, or else only the type.
func appendValueSchema(b []byte, answer *tool.DeclaredResponse, limit int) []byte {
	if len(answer.MediaTypes) > 0 && !slices.ContainsFunc(answer.MediaTypes, maybeStructured) {
		b = append(b, `{"type":"string"`...)
		if !slices.ContainsFunc(answer.MediaTypes, mediatype.IsText) {
			b = append(b, `,"contentEncoding":"base64","contentMediaType":`...)
			b = wire.AppendString(b, answer.MediaTypes[0])
		}
		return append(b, '}')
	}
	if answer.Schema.Kind() == '{' {
		if flat := simplify.FlattenWithin(answer.Schema, limit); flat != nil {
			return append(b, flat...)
		}
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
	b = wire.AppendStrings(b, answer.Types)
	return append(b, '}')
}

// maybeStructured reports whether bodies of the media type can be JSON. The media type may be a
// range such as */*.
func maybeStructured(mediaType string) bool {
	return mediatype.IsJSON(mediaType) || strings.Contains(mediaType, "*")
}

// membersOf returns the members of an object that has already been checked.
func membersOf(object jsontext.Value) (members []wire.Member) {
	members, _ = wire.Members(nil, object)
	return members
}

// unquoted returns the value of a JSON string.
func unquoted(text jsontext.Value) string {
	plain, err := jsontext.AppendUnquote(nil, text)
	if err != nil {
		return ""
	}
	return string(plain)
}
