package tool

import (
	"maps"
	"slices"
	"strconv"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/schemaedit"
)

// AppendOCP appends the tool as a JSON object in the format of the OCP tool schema (OCP
// 1.0, Tool Discovery). The schema has no location for cookies, so a cookie parameter has
// the location "header".
func (t *Tool) AppendOCP(dst []byte) []byte {
	if t.read != nil {
		return append(dst, t.read...)
	}
	dst = append(dst, `{"name":`...)
	dst = wire.AppendString(dst, t.Name)
	dst = append(dst, `,"description":`...)
	dst = wire.AppendString(dst, t.Description)
	dst = append(dst, `,"method":`...)
	dst = wire.AppendString(dst, t.Method)
	dst = append(dst, `,"path":`...)
	dst = wire.AppendString(dst, t.Path)
	dst = append(dst, `,"operation_id":`...)
	if t.OperationID == "" {
		dst = append(dst, "null"...)
	} else {
		dst = wire.AppendString(dst, t.OperationID)
	}
	dst = append(dst, `,"parameters":{`...)
	defs := schemaedit.ReadDefinitions(t.InputSchema)
	for i := range t.Arguments {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = t.Arguments[i].appendDefinition(dst, defs)
	}
	dst = append(dst, `},"response_schema":`...)
	dst = schemaedit.AppendSingleType(dst, t.Response.Schema)
	if len(t.Tags) > 0 {
		dst = append(dst, `,"tags":`...)
		dst = wire.AppendStrings(dst, t.Tags)
	}
	if len(t.Security) > 0 {
		dst = append(dst, `,"security":`...)
		dst = appendSecurity(dst, t.Security)
	}
	dst = append(dst, `,"deprecated":`...)
	dst = strconv.AppendBool(dst, t.Deprecated)
	return append(dst, '}')
}

func (a *Argument) appendDefinition(dst []byte, defs schemaedit.Definitions) []byte {
	dst = wire.AppendString(dst, a.Name)
	dst = append(dst, `:{"type":`...)
	dst = wire.AppendString(dst, a.mainType())
	dst = append(dst, `,"required":`...)
	dst = strconv.AppendBool(dst, a.Required)
	dst = append(dst, `,"location":`...)
	location := a.In
	if location == InCookie {
		location = InHeader
	}
	dst = wire.AppendString(dst, string(location))
	dst = append(dst, `,"description":`...)
	dst = wire.AppendString(dst, a.Description)
	if a.Default != nil {
		dst = append(dst, `,"default":`...)
		dst = append(dst, a.Default...)
	}
	if a.Schema.Kind() == '{' {
		dst = append(dst, `,"schema":`...)
		dst = append(dst, defs.Complete(a.Schema)...)
	}
	return append(dst, '}')
}

// mainType returns the single JSON type that the OCP tool schema requires.
func (a *Argument) mainType() string {
	for _, t := range a.types {
		if t != "null" {
			return t
		}
	}
	return "string"
}

// appendSecurity appends the security alternatives, with the schemes of each sorted by
// name.
func appendSecurity(dst []byte, alternatives []SecurityRequirement) []byte {
	dst = append(dst, '[')
	for i, requirement := range alternatives {
		if i > 0 {
			dst = append(dst, ',')
		}
		object := []byte{'{'}
		for _, scheme := range slices.Sorted(maps.Keys(requirement)) {
			object = schemaedit.Append(object, scheme, wire.AppendStrings(nil, requirement[scheme]))
		}
		dst = append(append(dst, object...), '}')
	}
	return append(dst, ']')
}
