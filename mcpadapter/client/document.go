package client

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/yosida95/uritemplate/v3"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/tools"
)

// Document returns an OpenAPI document with an operation for each thing that the server offers, so that every policy
// for operations holds for it. It is for tools.Build with the option Foreign:
//
//	tool        POST /<name>/<tool>                the arguments as a JSON object
//	resource    GET  /<name>/resources/<name>      x-mcp makes it a resource, and no tool
//	template    GET  /<name>/templates/<name>      the variables as query parameters
//	prompt      POST /<name>/prompts/<name>        the arguments as a JSON object
//	completion  POST /<name>/completion            ref, argument and context as a JSON object
//
// If trust is true, a tool with the annotation readOnlyHint counts as one that only reads.
func (d *discovery) Document(name string, trust bool) []byte {
	var info, document strictjson.ObjectBuilder
	info.Add("title", strictjson.AppendString(nil, d.text("title", d.text("name", name))))
	info.Add("version", strictjson.AppendString(nil, d.text("version", "0")))
	if d.Instructions != "" {
		info.Add("description", strictjson.AppendString(nil, d.Instructions))
	}
	b := documentBuilder{name: name, taken: make(map[string]bool), tools: make(map[string]bool)}
	for i, definition := range d.Tools {
		b.addTool(i, definition, trust)
	}
	for _, r := range d.resources(name) {
		b.addResource(tools.ForeignResource, r.definition, r.uri)
	}
	for _, definition := range d.Templates {
		b.addResource(tools.ForeignTemplate, definition, strictjson.Text(strictjson.MemberOf(definition, "uriTemplate")))
	}
	for _, definition := range d.Prompts {
		b.addPrompt(definition)
	}
	if d.Completions && len(d.Templates)+len(d.Prompts) > 0 {
		b.add("post", "/completion", "completion", tools.ForeignCompletion, []byte("{}"), func(post *strictjson.ObjectBuilder) {
			post.Add("x-mcp", []byte(`{"tool":false}`))
			post.Add("requestBody", []byte(`{"required":true,"content":{"application/json":{"schema":{"type":"object","required":["ref","argument"],"properties":`+
				`{"ref":{"type":"object"},"argument":{"type":"object"},"context":{"type":"object"}}}}}}`))
		})
	}
	document.Add("openapi", []byte(`"3.1.0"`))
	document.Add("info", info.Close())
	document.Add(tools.ExtensionForeignWarnings, strictjson.AppendStrings(nil, slices.Concat(d.Warnings, b.warnings)))
	document.Add("paths", b.paths.Close())
	return document.Close()
}

// text returns a member of serverInfo, or a default.
func (d *discovery) text(member, standard string) string {
	if value := strictjson.Text(strictjson.MemberOf(d.Info, member)); value != "" {
		return value
	}
	return standard
}

// A documentBuilder makes the paths of a document.
type documentBuilder struct {
	name  string
	paths strictjson.ObjectBuilder
	taken map[string]bool // paths
	tools map[string]bool // names

	warnings []string
}

// responses are those of all operations.
const responses = `{"200":{"description":"The result of the MCP server.","content":{"` + content.NativeType + `":{"schema":{"type":"object"}}}}}`

// add adds an operation.
func (b *documentBuilder) add(method, path, id string, kind tools.ForeignKind, definition jsontext.Value, members func(*strictjson.ObjectBuilder)) {
	unique := path
	for n := 2; b.taken[unique]; n++ {
		unique = path + "_" + strconv.Itoa(n)
	}
	b.taken[unique] = true
	var operation, item strictjson.ObjectBuilder
	operation.Add("operationId", strictjson.AppendString(nil, id))
	for _, member := range [][2]string{{"title", "summary"}, {"description", "description"}} {
		if value := strictjson.MemberOf(definition, member[0]); value.Kind() == '"' {
			operation.Add(member[1], value)
		}
	}
	operation.Add("responses", []byte(responses))
	operation.Add(tools.ExtensionForeignKind, strictjson.AppendString(nil, string(kind)))
	operation.Add(tools.ExtensionForeign, definition)
	members(&operation)
	item.Add(method, operation.Close())
	b.paths.Add("/"+b.name+unique, item.Close())
}

// segment returns a path segment for a name: characters that a segment does not have are replaced.
func segment(name string) string {
	if name == "" {
		return "_"
	}
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
			return c
		}
		return '_'
	}, name)
}

// addTool adds a tool. A name calls one tool: one without a name, and a second one of a name, cannot be called.
func (b *documentBuilder) addTool(i int, definition jsontext.Value, trust bool) {
	name, annotations := strictjson.Text(strictjson.MemberOf(definition, "name")), strictjson.MemberOf(definition, "annotations")
	switch {
	case name == "":
		b.warnings = append(b.warnings, fmt.Sprintf("tool %d of the MCP server is left out: it has no name", i+1))
		return
	case b.tools[name]:
		b.warnings = append(b.warnings, fmt.Sprintf("tool %d of the MCP server is left out: another one has the name %.64q", i+1, name))
		return
	}
	b.tools[name] = true
	b.add("post", "/"+segment(name), name, tools.ForeignTool, definition, func(operation *strictjson.ObjectBuilder) {
		if title := strictjson.MemberOf(annotations, "title"); title.Kind() == '"' && !strictjson.HasMember(definition, "title") {
			operation.Add("summary", title)
		}
		if trust && strictjson.MemberOf(annotations, "readOnlyHint").Kind() == 't' {
			operation.Add(tools.ExtensionForeignReads, []byte("true"))
		}
	})
}

// addResource adds a resource or a template. The variables of a template are query parameters.
func (b *documentBuilder) addResource(kind tools.ForeignKind, definition jsontext.Value, uri string) {
	name := strictjson.Text(strictjson.MemberOf(definition, "name"))
	b.add("get", "/"+string(kind)+"s/"+segment(name), string(kind)+"_"+name, kind, definition, func(operation *strictjson.ObjectBuilder) {
		var extension strictjson.ObjectBuilder
		extension.Add("tool", []byte("false"))
		extension.Add("resource", described(definition, "uri", uri))
		operation.Add("x-mcp", extension.Close())
		operation.Add("tags", []byte(`["resources"]`))
		if template, err := uritemplate.New(uri); err == nil && kind == tools.ForeignTemplate {
			operation.Add("parameters", parameters(template.Varnames()))
		}
	})
}

// parameters returns optional query parameters.
func parameters(names []string) []byte {
	list := []byte{'['}
	for _, name := range names {
		list = strictjson.AppendString(append(strictjson.Comma(list), `{"in":"query","schema":{"type":"string"},"name":`...), name)
		list = append(list, '}')
	}
	return append(list, ']')
}

// described returns the resource or the prompt of x-mcp: the definition with one member set.
func described(definition jsontext.Value, member, value string) []byte {
	var object strictjson.ObjectBuilder
	object.Add(member, strictjson.AppendString(nil, value))
	for walk := strictjson.Into(definition); walk.Next(); {
		switch name := string(walk.Key()); name {
		case "name", "title", "description", "mimeType", "icons", "arguments", "_meta":
			if name != member {
				object.Add(name, walk.Value)
			}
		}
	}
	return object.Close()
}

// addPrompt adds a prompt. Its arguments are strings.
func (b *documentBuilder) addPrompt(definition jsontext.Value) {
	name := strictjson.Text(strictjson.MemberOf(definition, "name"))
	b.add("post", "/prompts/"+segment(name), "prompt_"+name, tools.ForeignPrompt, definition, func(operation *strictjson.ObjectBuilder) {
		var extension, properties, body strictjson.ObjectBuilder
		var required []string
		for walk := strictjson.Into(strictjson.MemberOf(definition, "arguments")); walk.Next(); {
			argument := strictjson.Text(strictjson.MemberOf(walk.Value, "name"))
			properties.Add(argument, []byte(`{"type":"string"}`))
			if strictjson.MemberOf(walk.Value, "required").Kind() == 't' {
				required = append(required, argument)
			}
		}
		extension.Add("tool", []byte("false"))
		extension.Add("prompt", described(definition, "name", name))
		operation.Add("x-mcp", extension.Close())
		operation.Add("tags", []byte(`["prompts"]`))
		body.Add("type", []byte(`"object"`))
		body.Add("properties", properties.Close())
		body.Add("required", strictjson.AppendStrings(nil, required))
		body.Add("additionalProperties", []byte("false"))
		operation.Add("requestBody", append(append([]byte(`{"required":true,"content":{"application/json":{"schema":`), body.Close()...), "}}}"...))
	})
}
