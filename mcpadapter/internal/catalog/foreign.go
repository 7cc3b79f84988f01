package catalog

import (
	"maps"
	"slices"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

// appendForeign appends what an MCP server says of its own tool: outputSchema, annotations and icons. Annotations that the
// operator has set take precedence. A tool whose results the gateway changes has no outputSchema.
func appendForeign(dst []byte, tool *tools.Tool, v protocol.Revision) []byte {
	output := tool.Foreign.Member("outputSchema")
	if output.Kind() == '{' && tool.Output.Select == nil && !tool.Output.Fields && v.SupportsOutputSchema() &&
		(!v.RequiresObjectOutput() || strictjson.Text(strictjson.MemberOf(output, "type")) == "object") {
		dst = append(append(dst, `,"outputSchema":`...), output...)
	}
	if !v.SupportsAnnotations() {
		return dst
	}
	var annotations strictjson.ObjectBuilder
	for walk := strictjson.Into(tool.Foreign.Member("annotations")); walk.Next(); {
		name := strictjson.Text(walk.Name)
		if _, set := tool.Definition.Annotations[name]; !set {
			annotations.Add(name, walk.Value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tool.Definition.Annotations)) {
		annotations.Add(name, strictjson.Boolean(tool.Definition.Annotations[name]))
	}
	if len(annotations) > 0 {
		dst = append(append(dst, `,"annotations":`...), annotations.Close()...)
	}
	return content.AppendIcons(dst, content.ReadIcons(tool.Foreign.Member("icons")), v)
}

// addForeignMeta adds the members of _meta that an MCP server has given its tool.
func addForeignMeta(meta *strictjson.ObjectBuilder, tool *tools.Tool) {
	for walk := strictjson.Into(tool.Foreign.Member("_meta")); walk.Next(); {
		if name := strictjson.Text(walk.Name); name != "securitySchemes" {
			meta.Add(name, walk.Value)
		}
	}
}
