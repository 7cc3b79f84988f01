package otcadapter

import (
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp"
)

// schemaURI names the version of the standard that answers follow.
const schemaURI = "https://github.com/ArcadeAI/OpenToolCalling/tree/main/specification/http/1.0/openapi.json"

// A catalog is what the server says of one Toolset: its toolkit, and the encoded
// answer to GET /tools.
type catalog struct {
	tools   *ocp.Toolset
	toolkit toolkit
	list    []byte
}

// catalog returns the catalog of the Toolset, which is made at its first request
// and kept until the next Toolset comes.
func (s *Server) catalog(tools *ocp.Toolset) *catalog {
	if c := s.current.Load(); c != nil && c.tools == tools {
		return c
	}
	s.compiling.Lock()
	defer s.compiling.Unlock()
	if c := s.current.Load(); c != nil && c.tools == tools {
		return c
	}
	kit := newToolkit(s.options, tools)
	c := &catalog{tools: tools, toolkit: kit, list: kit.appendList(nil, tools)}
	s.current.Store(c)
	return c
}

// resolve returns the name of the tool that the id means. It decides on toolkit
// and version; whether there is such a tool is for the Caller to say.
func (c *catalog) resolve(id string) (name string, f *fault) {
	path, version, versioned := strings.Cut(id, "@")
	kit, name, dotted := strings.Cut(path, ".")
	if !dotted || !isWord(kit) || !isWord(name) || versioned && !isVersion(version) {
		return "", badToolID(id, c.toolkit)
	}
	if kit != c.toolkit.name {
		return "", unknownToolkit(kit, c.toolkit)
	}
	if versioned && version != "latest" && version != c.toolkit.version {
		return "", unknownVersion(version, c.toolkit)
	}
	return name, nil
}

// appendList appends the answer to GET /tools. The definitions under "tools" are
// those of OTC 1.0 (Tool Definition Schema); those under "items" have the shape
// that OXP, its successor, gives them.
func (k toolkit) appendList(b []byte, tools *ocp.Toolset) []byte {
	b = append(b, `{"$schema":"`+schemaURI+`","tools":[`...)
	for i, t := range tools.Tools() {
		if i > 0 {
			b = append(b, ',')
		}
		b = k.appendDefinition(b, t)
	}
	b = append(b, `],"items":[`...)
	for i, t := range tools.Tools() {
		if i > 0 {
			b = append(b, ',')
		}
		b = k.appendItem(b, t)
	}
	return append(b, "]}"...)
}

func (k toolkit) appendDefinition(b []byte, t *ocp.Tool) []byte {
	b = k.appendHead(b, t)
	b = append(b, `,"toolkit":{"name":"`...)
	b = append(b, k.name...)
	b = append(b, `","description":`...)
	b = wire.AppendString(b, k.description)
	b = append(b, `,"version":"`...)
	b = append(b, k.version...)
	b = append(b, `"},"input":{"parameters":`...)
	b = append(b, inputSchema(t)...)
	b = appendRequired(b, t)
	b = append(b, `},"output":`...)
	b = appendOutput(b, &t.Answer)
	return append(b, '}')
}

// appendItem appends the definition in the shape of OXP.
func (k toolkit) appendItem(b []byte, t *ocp.Tool) []byte {
	b = k.appendHead(b, t)
	b = append(b, `,"version":"`...)
	b = append(b, k.version...)
	b = append(b, `","input_schema":`...)
	b = append(b, inputSchema(t)...)
	return append(b, '}')
}

// appendHead appends what both shapes have: id, name and description.
func (k toolkit) appendHead(b []byte, t *ocp.Tool) []byte {
	b = append(b, `{"id":"`...)
	b = k.appendID(b, t.Name)
	b = append(b, `","name":`...)
	b = wire.AppendString(b, t.Name)
	b = append(b, `,"description":`...)
	return wire.AppendString(b, describe(t))
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

// appendRequired appends the names of the required arguments beside the
// parameters, where the protocol's example has them.
func appendRequired(b []byte, t *ocp.Tool) []byte {
	b = append(b, `,"required":[`...)
	first := true
	for _, argument := range t.Arguments {
		if !argument.Required {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = wire.AppendString(b, argument.Name)
	}
	return append(b, ']')
}

// appendOutput appends what a call may give. A document that declares nothing of
// its answers leaves every mode open.
func appendOutput(b []byte, answer *ocp.Answer) []byte {
	unknown := len(answer.MediaTypes) == 0 && len(answer.Types) == 0 && !answer.Empty
	hasValue := unknown || len(answer.MediaTypes) > 0 || len(answer.Types) > 0
	b = append(b, `{"available_modes":[`...)
	if hasValue {
		b = append(b, `"value",`...)
	}
	b = append(b, `"error"`...)
	if unknown || answer.Empty || slices.Contains(answer.Types, "null") {
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

// appendValueSchema appends a loose schema of the value: real APIs often miss the
// one that they declare.
func appendValueSchema(b []byte, answer *ocp.Answer) []byte {
	if len(answer.MediaTypes) > 0 && !slices.ContainsFunc(answer.MediaTypes, maybeStructured) {
		b = append(b, `{"type":"string"`...)
		if !slices.ContainsFunc(answer.MediaTypes, isText) {
			b = append(b, `,"contentEncoding":"base64","contentMediaType":`...)
			b = wire.AppendString(b, answer.MediaTypes[0])
		}
		return append(b, '}')
	}
	switch len(answer.Types) {
	case 0:
		return append(b, "{}"...)
	case 1:
		b = append(b, `{"type":`...)
		b = wire.AppendString(b, answer.Types[0])
		return append(b, '}')
	}
	b = append(b, `{"type":[`...)
	for i, name := range answer.Types {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendString(b, name)
	}
	return append(b, "]}"...)
}

// maybeStructured reports whether bodies of the media type, which may be a range
// such as */*, can be JSON.
func maybeStructured(mediaType string) bool {
	return isStructured(mediaType) || strings.Contains(mediaType, "*")
}
