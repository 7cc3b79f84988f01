package tools

import (
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/schema"
)

// A Definition is what clients see of a tool in lists.
type Definition struct {
	Title       string // the operation's summary, or ""
	Description string // never empty
	OperationID string // as in the document, or ""
	Tags        []string
	Deprecated  bool
	Arguments   []Argument // path, query, header, cookie, then body, each in document order; without those that the gateway fills

	// InputSchema is the JSON Schema 2020-12 of the arguments object. Its root is
	// {"type":"object"} without oneOf, anyOf or allOf. If it would be larger than
	// BuildOptions.MaxSchema, it is Simplified. It then accepts everything that the full
	// schema accepts. Arguments are always validated against the full schema.
	InputSchema jsontext.Value
	Simplified  bool

	// Unchecked means that the full schema is too large to be kept. Arguments are validated against
	// InputSchema, and plain requests are rejected.
	Unchecked bool

	Validator *schema.Validator // of FullSchema

	// Annotations are the hints for clients that a shape sets, by the names that MCP gives them.
	// They take precedence over what the method implies. It is nil if there are none.
	Annotations map[string]bool

	// TakesKey means that callers may give KeyArgument, unless it would have no effect. See Tool.TakesKey.
	TakesKey bool

	full *schema.FullInput // nil if InputSchema is the full schema
}

// listedTexts returns the approximate size of the tool in a list, in bytes, without the schema.
func (d *Definition) listedTexts(name string) int {
	return listedFrame + len(name) + len(d.Title) + len(d.Description)
}

// AppendOCP appends the tool as a JSON object in the format of the OCP tool schema (OCP
// 1.0, Tool Discovery). The schema has no location for cookies, so a cookie parameter has
// the location "header".
func (t *Tool) AppendOCP(dst []byte) []byte {
	if t.read != nil {
		return append(dst, t.read...)
	}
	dst = append(dst, `{"name":`...)
	dst = strictjson.AppendString(dst, t.Name)
	dst = append(dst, `,"description":`...)
	dst = strictjson.AppendString(dst, t.Definition.Description)
	dst = append(dst, `,"method":`...)
	dst = strictjson.AppendString(dst, t.Plan.Method)
	dst = append(dst, `,"path":`...)
	dst = strictjson.AppendString(dst, t.Plan.Path)
	dst = append(dst, `,"operation_id":`...)
	if t.Definition.OperationID == "" {
		dst = append(dst, "null"...)
	} else {
		dst = strictjson.AppendString(dst, t.Definition.OperationID)
	}
	dst = append(dst, `,"parameters":{`...)
	input, _ := schema.Parse(t.Definition.InputSchema)
	for i := range t.Definition.Arguments {
		dst = t.Definition.Arguments[i].appendDefinition(strictjson.Comma(dst), input)
	}
	dst = append(dst, `},"response_schema":`...)
	output, _ := schema.Parse(t.Output.Schema)
	dst = append(dst, output.SingleType()...)
	if len(t.Definition.Tags) > 0 {
		dst = append(dst, `,"tags":`...)
		dst = strictjson.AppendStrings(dst, t.Definition.Tags)
	}
	if len(t.Plan.Security) > 0 {
		dst = append(dst, `,"security":`...)
		dst = appendSecurity(dst, t.Plan.Security)
	}
	dst = append(dst, `,"deprecated":`...)
	dst = strconv.AppendBool(dst, t.Definition.Deprecated)
	return append(dst, '}')
}

func (a *Argument) appendDefinition(dst []byte, input *schema.Root) []byte {
	dst = strictjson.AppendString(dst, a.Name)
	dst = append(dst, `:{"type":`...)
	dst = strictjson.AppendString(dst, a.mainType())
	dst = append(dst, `,"required":`...)
	dst = strconv.AppendBool(dst, a.Required)
	dst = append(dst, `,"location":`...)
	location := a.In
	if location == InCookie {
		location = InHeader
	}
	dst = strictjson.AppendString(dst, string(location))
	dst = append(dst, `,"description":`...)
	dst = strictjson.AppendString(dst, a.Description)
	if a.Default != nil {
		dst = append(dst, `,"default":`...)
		dst = append(dst, a.Default...)
	}
	if a.Schema.Kind() == '{' {
		dst = append(dst, `,"schema":`...)
		own, _ := schema.Parse(a.Schema)
		dst = append(dst, input.Complete(own.Tree)...)
	}
	return append(dst, '}')
}

// mainType returns the single JSON type that the OCP tool schema requires.
func (a *Argument) mainType() string {
	if i := slices.IndexFunc(a.types, func(t string) bool { return t != "null" }); i >= 0 {
		return a.types[i]
	}
	return "string"
}

// appendSecurity appends the security alternatives, with the schemes of each sorted by
// name.
func appendSecurity(dst []byte, alternatives []SecurityRequirement) []byte {
	dst = append(dst, '[')
	for _, requirement := range alternatives {
		dst = strictjson.Comma(dst)
		var object strictjson.ObjectBuilder
		for _, scheme := range slices.Sorted(maps.Keys(requirement)) {
			object.Add(scheme, strictjson.AppendStrings(nil, requirement[scheme]))
		}
		dst = append(dst, object.Close()...)
	}
	return append(dst, ']')
}
