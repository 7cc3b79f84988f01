package otcadapter

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/schema"
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
func (r *byteBudget) take(size int) {
	r.remaining -= size
	r.schemas--
}

// A definition is a tool in the form of OTC 1.0 (Tool Definition Schema).
type definition struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	Description  string            `json:"description"`
	Toolkit      definedToolkit    `json:"toolkit"`
	Input        definedInput      `json:"input"`
	Output       definedOutput     `json:"output"`
	Requirements *requirementLists `json:"requirements,omitzero"`
}

type definedToolkit struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Version     string `json:"version"`
}

type definedInput struct {
	Parameters    jsontext.Value `json:"parameters"`
	Required      []string       `json:"required"`
	NonInferrable []string       `json:"non_inferrable_parameters,omitempty"`
}

type definedOutput struct {
	Modes       []string      `json:"available_modes"`
	Description string        `json:"description,omitempty"`
	Value       *definedValue `json:"value,omitzero"` // nil without the mode value
}

type definedValue struct {
	Parameters jsontext.Value `json:"parameters"`
}

// An item is a tool in the form of OXP.
type item struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	Description  string            `json:"description"`
	Version      string            `json:"version"`
	Input        jsontext.Value    `json:"input_schema"`
	Output       jsontext.Value    `json:"output_schema"` // null without the mode value
	Requirements *requirementLists `json:"requirements,omitzero"`
}

// buildList encodes the response to GET /tools: the definitions under "tools", the items under "items". The
// tools are in the order of the configuration. If several tools have the same id, only the first is listed,
// and warn is called for the others.
func (c *catalog) buildList(warn func(string)) {
	n := 0
	for _, k := range c.toolkits {
		n += len(k.entries)
	}
	inputs, values := byteBudget{maxInputSchemas, maxInputSchema, n}, byteBudget{maxValueSchemas, maxValueSchema, n}
	c.byID = make(map[string]*definedTool, n)
	for _, k := range c.toolkits {
		for _, t := range c.source[k.index].Tools.Listed() {
			id := string(k.appendID(nil, t.Name))
			if c.byID[id] != nil {
				warn("tool " + id + " is in two documents, and the first is used; give the documents different versions, or exclude the tool from one")
				continue
			}
			input := schema.Flatten(inputSchema(t), inputs.next())
			value := appendValueSchema(nil, &t.Output, values.next())
			inputs.take(len(input))
			values.take(len(value))
			d, err := k.define(id, k.entries[t.Name], input, value)
			if err != nil {
				warn("tool " + id + " is not listed: " + err.Error())
				continue
			}
			c.byID[id] = d
			c.defined = append(c.defined, d)
		}
	}
	c.list = appendList(nil, c.defined)
	rest := c.list[len(listStart):]
	for _, d := range c.defined {
		d.otc, rest = rest[:len(d.otc)], rest[len(d.otc)+1:] // with the comma or bracket after it
	}
	rest = bytes.TrimPrefix(rest, []byte(itemsStart))
	for _, d := range c.defined {
		d.oxp, rest = rest[:len(d.oxp)], rest[len(d.oxp)+1:]
	}
}

// define encodes the definitions of a tool.
func (k *toolkit) define(id string, t *entry, input, value jsontext.Value) (*definedTool, error) {
	otc := definition{
		ID: id, Name: t.Name, Description: description(t.Tool),
		Toolkit: definedToolkit{k.name, k.description, k.version},
		Input: definedInput{
			Parameters:    input,
			Required:      argumentNames(t.Tool, func(a *tools.Argument) bool { return a.Required }),
			NonInferrable: argumentNames(t.Tool, func(a *tools.Argument) bool { return a.NonInferrable }),
		},
		Output: definedOutput{Description: t.Output.Description},
	}
	oxp := item{
		ID: id, Name: t.Name, Description: otc.Description, Version: k.version,
		Input: itemInput(input, otc.Input.NonInferrable), Output: jsontext.Value("null"),
	}
	hasValue, _, hasNull := outputModes(&t.Output)
	if hasValue {
		otc.Output.Modes, otc.Output.Value, oxp.Output = []string{"value"}, &definedValue{value}, value
	}
	otc.Output.Modes = append(otc.Output.Modes, "error")
	if hasNull {
		otc.Output.Modes = append(otc.Output.Modes, "null")
	}
	if listed := listedRequirements(t.requirements); !k.injectsCredentials && len(listed) > 0 {
		otc.Requirements = listRequirements(listed, func(r requirement, to *listedRequirement) {
			if r.scheme.Type == "oauth2" || r.scheme.Type == "openIdConnect" {
				to.OAuth2 = &listedScopes{r.scopes}
			}
		})
		oxp.Requirements = otc.Requirements
	}
	d := &definedTool{id: id}
	var err, failed error
	d.otc, err = json.Marshal(&otc, jsontext.AllowInvalidUTF8(true))
	d.oxp, failed = json.Marshal(&oxp, jsontext.AllowInvalidUTF8(true))
	return d, errors.Join(err, failed)
}

// notInferred tells a model that it must not make up an argument. OTC lists such arguments
// separately. OXP does not, and its clients show the schema to the model unchanged. The
// arguments cannot be hidden, because the client has to provide them.
const notInferred = "Do not make up this value: it must come from the application or the user."

// itemInput returns the input schema, with notInferred in the description of each of the hidden arguments.
func itemInput(input jsontext.Value, hidden []string) jsontext.Value {
	if len(hidden) == 0 {
		return input
	}
	root, _ := schema.Parse(input)
	mark := schema.Edit{Set: make(map[string][]strictjson.Member)}
	for _, name := range hidden {
		text := notInferred
		if own := strictjson.Text(root.Property(name).Value("description")); own != "" {
			text = own + "\n\n" + notInferred
		}
		mark.Set[name] = []strictjson.Member{{Name: "description", Value: strictjson.AppendString(nil, text)}}
	}
	return mark.Apply(input)
}

// description returns the tool's description. For a deprecated tool the description says so,
// because neither protocol has a field for this.
func description(t *tools.Tool) string {
	const mark = "Deprecated"
	if t.Definition.Deprecated && !strings.HasPrefix(strings.ToLower(t.Definition.Description), strings.ToLower(mark)) {
		return mark + ". " + t.Definition.Description
	}
	return t.Definition.Description
}

// inputSchema returns the schema of the tool's arguments.
func inputSchema(t *tools.Tool) jsontext.Value {
	if len(t.Definition.InputSchema) == 0 {
		return jsontext.Value(`{"type":"object"}`)
	}
	return t.Definition.InputSchema
}

// argumentNames returns the names of the arguments for which include returns true.
func argumentNames(t *tools.Tool, include func(*tools.Argument) bool) (names []string) {
	for i := range t.Definition.Arguments {
		if include(&t.Definition.Arguments[i]) {
			names = append(names, t.Definition.Arguments[i].Name)
		}
	}
	return names
}

// appendValueSchema appends the schema of the value. It contains as much of the document's
// schema as fits into limit bytes, or else only the type.
func appendValueSchema(b []byte, answer *tools.Output, limit int) []byte {
	if len(answer.MediaTypes) > 0 && !slices.ContainsFunc(answer.MediaTypes, maybeStructured) {
		b = append(b, `{"type":"string"`...)
		if !slices.ContainsFunc(answer.MediaTypes, httpheader.IsText) {
			b = append(b, `,"contentEncoding":"base64","contentMediaType":`...)
			b = strictjson.AppendString(b, answer.MediaTypes[0])
		}
		return append(b, '}')
	}
	if answer.Schema.Kind() == '{' {
		if flat := schema.FlattenWithin(answer.Schema, limit); flat != nil {
			return append(b, flat...)
		}
	}
	switch len(answer.Types) {
	case 0:
		return append(b, "{}"...)
	case 1:
		b = append(b, `{"type":`...)
		b = strictjson.AppendString(b, answer.Types[0])
		return append(b, '}')
	}
	b = append(b, `{"type":`...)
	b = strictjson.AppendStrings(b, answer.Types)
	return append(b, '}')
}

// maybeStructured reports whether bodies of the media type can be JSON. The media type may be a
// range such as */*.
func maybeStructured(mediaType string) bool {
	return httpheader.IsJSON(mediaType) || strings.Contains(mediaType, "*")
}
