package tools

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/http/httpguts"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/schema"
)

// The extensions that configure the tool protocols in a document.
const (
	// extensionMCP is an object, at the root of the document or in an operation.
	extensionMCP = "x-mcp"

	// extensionMCPHeader is the name of a header, in a parameter or a property.
	extensionMCPHeader = "x-mcp-header"

	// extensionNonInferrable is true in a parameter or a property, or a list of argument
	// names in an operation.
	extensionNonInferrable = "x-otc-non-inferrable"
)

const (
	maxMCPExtension = 64 << 10 // bytes of one x-mcp
	maxMCPHeader    = 64       // bytes of a header name
)

// readMCP returns the holder's x-mcp as JSON, or nil if it has none.
func (s *toolSource) readMCP(where string, holder openapi.Place) jsontext.Value {
	x := holder.At(extensionMCP)
	if x.Node == nil || x.Kind() == 'n' {
		return nil
	}
	var reason string
	switch text := x.AppendJSON(nil); {
	case x.Kind() != '{':
		reason = "x-mcp must be an object and is " + x.Kind().String() + "; it is left out"
	case len(text) > maxMCPExtension:
		reason = "x-mcp is larger than 64 KiB; it is left out"
	default:
		return text
	}
	s.report.warn(Warning{Operation: where, Reason: reason})
	return nil
}

// readArgumentExtensions reads the extensions for the tool protocols from the argument's
// parameter or schema.
func (t *toolBuilder) readArgumentExtensions(a *Argument, holders ...openapi.Place) {
	for _, holder := range holders {
		t.readArgumentShape(a, holder)
		if holder.Get(extensionNonInferrable).True() {
			a.NonInferrable = true
		}
		if name := holder.Get(extensionMCPHeader); name != nil && a.MCPHeader == "" {
			t.readMCPHeader(a, name)
		}
	}
	if a.MCPHeader != "" {
		a.Schema = schema.SetMembers(a.Schema, strictjson.Member{Name: extensionMCPHeader, Value: strictjson.AppendString(nil, a.MCPHeader)})
	}
}

// warnIgnored adds a warning about a part of an extension that is ignored. The operation remains a
// tool.
func (t *toolBuilder) warnIgnored(format string, arguments ...any) {
	t.warn(fmt.Sprintf(format, arguments...))
}

// readMCPHeader reads the header name if it is valid. Clients drop a tool that breaks the
// rules of the extension (MCP 2026-07-28, Streamable HTTP, x-mcp-header).
func (t *toolBuilder) readMCPHeader(a *Argument, node *openapi.Node) {
	name := node.Text()
	switch {
	case len(name) > maxMCPHeader || !httpguts.ValidHeaderFieldName(name):
		t.warnIgnored("x-mcp-header of %s must be a name that a header can have; it is left out", a.WireName)
	case len(a.types) != 1 || !slices.Contains([]string{"string", "integer", "boolean"}, a.types[0]):
		t.warnIgnored("x-mcp-header of %s is for strings, integers and booleans only; it is left out", a.WireName)
	case slices.ContainsFunc(t.plan.Arguments, func(other Argument) bool { return strings.EqualFold(other.MCPHeader, name) }):
		t.warnIgnored("x-mcp-header %s is the name of two arguments; the second is left out", name)
	default:
		a.MCPHeader = name
	}
}
