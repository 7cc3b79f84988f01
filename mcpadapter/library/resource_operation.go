package library

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/yosida95/uritemplate/v3"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/schema"
)

// addOperation adds an operation as a resource or a prompt, if x-mcp or the Library says so.
func (s *Index) addOperation(l *Library, toolset *tools.Toolset, tool *tools.Tool, denied bool) {
	e := readExtension(tool.MCP, silent)
	if prompt, ok := e.declared("prompt"); ok {
		s.addOperationPrompt(tool, prompt, denied)
	}
	resource, ok := e.declared("resource")
	if !ok && (tool.Plan.Method != "GET" || !l.chosen.Matches(tool.Candidate())) {
		return
	}
	if tool.Plan.Method != "GET" {
		s.warn(tool, "x-mcp: only a GET operation can be a resource")
		return
	}
	described := operationResource(resource, tool)
	described.Denied = denied
	if isPage(described.uri, described.Mime) {
		described.Mime = AppType
	}
	described.describePage(e)
	if described.uri == "" {
		s.addByPath(toolset, tool, described)
		return
	}
	template, err := parseTemplate(described.uri)
	if err != nil && tool.Foreign != nil && tool.Foreign.Kind == tools.ForeignResource && len(described.uri) <= maxTemplate {
		template, err = literalTemplate(described.uri), nil
	}
	if err != nil {
		s.warn(tool, "x-mcp: invalid uri of the resource: %v", err)
		return
	}
	s.addUnder(template, tool, described)
}

// operationResource returns the resource of an operation. What x-mcp omits defaults to that of the operation.
func operationResource(d declared, tool *tools.Tool) Entry {
	r := Entry{title: tool.Definition.Title, description: tool.Definition.Description, size: -1, Tool: tool}
	if tool.Foreign != nil {
		r.describeForeign(tool.Foreign)
	}
	r.uri, r.name, r.Mime = d.URI, cmp.Or(d.Name, tool.Name), cmp.Or(d.MIMEType, declaredType(tool))
	r.title, r.description = cmp.Or(d.Title, r.title), cmp.Or(d.Description, r.description)
	r.icons, r.meta = content.ReadIcons(d.Icons), d.Meta
	return r
}

// describeForeign sets what only resources of MCP servers have. They have no texts of an operation.
func (r *Entry) describeForeign(f *tools.Foreign) {
	r.title, r.description = "", ""
	if annotations := f.Member("annotations"); annotations.Kind() == '{' {
		r.annotations = annotations
	}
	if size, err := strconv.ParseInt(string(f.Member("size")), 10, 64); err == nil && size >= 0 {
		r.size = size
	}
}

// declaredType returns the media type of the operation's responses if the document declares exactly
// one, otherwise "".
func declaredType(tool *tools.Tool) string {
	if types := tool.Output.MediaTypes; len(types) == 1 && types[0] != content.NativeType && !strings.Contains(types[0], "*") {
		return types[0]
	}
	return ""
}

// addByPath adds the operation under a URI derived from its path: TOOLSET:///PATH{?QUERY}. If the
// operation can be called without path and query arguments, it also adds a resource with a fixed
// URI.
func (s *Index) addByPath(toolset *tools.Toolset, t *tools.Tool, described Entry) {
	uri := schemeOf(toolset.PartOf(t).Name) + "://" + pathTemplate(t)
	var query []string
	needed := false
	for i := range t.Definition.Arguments {
		switch a := &t.Definition.Arguments[i]; {
		case a.NonInferrable && a.In != tools.InPath: // the server asks the user for it
		case a.In == tools.InQuery:
			query = append(query, a.Name)
			needed = needed || a.Required
		case a.In != tools.InPath && a.Required:
			s.warn(t, "the operation cannot be a resource: a URI cannot contain its required argument %s", a.Name)
			return
		}
	}
	plain, err := parseTemplate(uri)
	if err != nil {
		s.warn(t, "the operation cannot be a resource under its path: %v; give it a uri in x-mcp", err)
		return
	}
	if plain.isURI() && !needed {
		s.addUnder(plain, t, described)
	}
	query = query[:min(len(query), maxVariables-len(plain.variables))]
	if len(query) > 0 {
		if plain, err = parseTemplate(uri + "{?" + strings.Join(query, ",") + "}"); err != nil {
			s.warn(t, "the operation cannot be a resource with its query: %v", err)
			return
		}
	}
	if !plain.isURI() {
		s.addUnder(plain, t, described)
	}
}

// schemeOf converts a toolset's name to a URI scheme.
func schemeOf(name string) string {
	switch extension := path.Ext(name); extension {
	case ".yaml", ".yml", ".json":
		name = strings.TrimSuffix(name, extension)
	}
	scheme := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-', r == '.', r == '+':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
	if scheme == "" || scheme[0] < 'a' || scheme[0] > 'z' {
		return "api"
	}
	return scheme
}

// pathTemplate returns the operation's path with the names of the tool's arguments in place of its
// parameters' names.
func pathTemplate(tool *tools.Tool) string {
	var b strings.Builder
	rest := tool.Plan.Template
	for {
		literal, after, found := strings.Cut(rest, "{")
		b.WriteString((&url.URL{Path: literal}).EscapedPath())
		if !found {
			return b.String()
		}
		var name string
		if name, rest, found = strings.Cut(after, "}"); !found {
			return b.String()
		}
		b.WriteString(argumentName(tool, name))
	}
}

// argumentName returns the variable for a path parameter: the name of the tool's argument, with a plus if it has several
// segments. A parameter that the operator fixes is not a variable: the template contains its name.
func argumentName(t *tools.Tool, wireName string) string {
	of := func(a tools.Argument) bool { return a.In == tools.InPath && a.WireName == wireName }
	listed := slices.IndexFunc(t.Definition.Arguments, of)
	if listed < 0 {
		return wireName
	}
	variable := t.Definition.Arguments[listed].Name
	if t.Plan.Encodings[slices.IndexFunc(t.Plan.Arguments, of)].Param.Segments() != "" {
		variable = "+" + variable
	}
	return "{" + variable + "}"
}

// addUnder adds the operation under a URI or a URI template.
func (s *Index) addUnder(template *uriTemplate, t *tools.Tool, described Entry) {
	r := described
	r.arguments = make(arguments)
	for _, variable := range slices.Concat(template.variables, template.query) {
		a := argumentOf(t, variable)
		if a == nil {
			s.warn(t, "x-mcp: the uri of the resource has the variable %s, which is not an argument of the operation", variable)
			return
		}
		if a.NonInferrable {
			s.warn(t, "the operation cannot be a resource: its URI would contain the non-inferrable argument %s, which only the user can give", a.Name)
			return
		}
		r.arguments[variable] = a
	}
	if a := r.arguments.missing(t); a != nil {
		s.warn(t, "x-mcp: the uri of the resource lacks the argument %s, which the operation requires; add {%s}", a.Name, a.Name)
		return
	}
	if template.isURI() {
		r.uri = template.text
		if !s.addResource(&r) && !s.addPrefixed(&r) {
			s.warn(t, "ignored the resource %s: another resource has the same URI", r.uri)
			return
		}
		s.addForeignSkill(&r)
	} else {
		r.uri, r.template = "", template
		if !s.addTemplate(&r) {
			s.warn(t, "ignored the template %s: another resource has the same template", template.text)
			return
		}
	}
	s.byTool[t] = &r
}

// addPrefixed adds a resource of an MCP server whose URI another resource has, with the name of its toolset before the
// URI. Pages of apps keep their scheme, ui, so they are not added.
func (s *Index) addPrefixed(r *Entry) bool {
	if r.Tool.Foreign == nil || strings.HasPrefix(r.uri, "ui:") {
		return false
	}
	r.uri = schemeOf(s.tools.PartOf(r.Tool).Name) + "+" + r.uri
	return s.addResource(r)
}

// argumentOf returns the argument with the given name, which is the name in the tool or in the API.
func argumentOf(tool *tools.Tool, name string) *tools.Argument {
	for i := range tool.Definition.Arguments {
		if tool.Definition.Arguments[i].Name == name {
			return &tool.Definition.Arguments[i]
		}
	}
	for i := range tool.Definition.Arguments {
		if tool.Definition.Arguments[i].WireName == name {
			return &tool.Definition.Arguments[i]
		}
	}
	return nil
}

// arguments are arguments of a tool that a template or a prompt sets, by the name of the variable there.
type arguments map[string]*tools.Argument

// missing returns an argument that the tool requires and nothing sets, or nil.
func (as arguments) missing(t *tools.Tool) *tools.Argument {
	set := slices.Collect(maps.Values(as))
	for i := range t.Definition.Arguments {
		if a := &t.Definition.Arguments[i]; a.Required && a.Default == nil && !a.NonInferrable && !slices.Contains(set, a) {
			return a
		}
	}
	return nil
}

// Call returns the operation's arguments for the URI.
func (t Target) Call() []byte {
	var call strictjson.ObjectBuilder
	for _, binding := range t.bindings {
		a := t.arguments[binding.name]
		call.Add(a.Name, appendArgument(nil, a, t.Tool, binding.value))
	}
	return call.Close()
}

// appendArgument appends a string as a value of the type in the argument's schema: JSON of that type, or an array of
// comma-separated values. A value that does not fit stays a string; validation of the arguments then reports it.
func appendArgument(dst []byte, a *tools.Argument, tool *tools.Tool, value string) []byte {
	root, of := schema.Open(tool.Definition.InputSchema, a.Schema)
	types := of.Types()
	if !slices.Contains(types, "array") || isText(types) || strings.HasPrefix(value, "[") && strictjson.Check([]byte(value)) == nil {
		return appendValue(dst, types, value)
	}
	types = root.Resolve(of.Part("items")).Types()
	dst = append(dst, '[')
	for part := range strings.SplitSeq(value, ",") {
		dst = appendValue(strictjson.Comma(dst), types, part)
	}
	return append(dst, ']')
}

// isText reports whether values of the types are sent as strings.
func isText(types []string) bool { return len(types) == 0 || slices.Contains(types, "string") }

// appendValue appends a value as it is if it is JSON of one of the types, otherwise as a string.
func appendValue(dst []byte, types []string, value string) []byte {
	if !isText(types) && strictjson.Check([]byte(value)) == nil && schema.AllowsValue(types, jsontext.Value(value)) {
		return append(dst, value...)
	}
	return strictjson.AppendString(dst, value)
}

// ResourceAt returns the resource for a GET of a path of the API that the tool from belongs to.
// location is the escaped path with its query.
func (s *Index) ResourceAt(from *tools.Tool, location string) (uri, name string, ok bool) {
	routes := s.routes[s.tools.PartOf(from)]
	location, _, _ = strings.Cut(location, "#")
	escaped, query, _ := strings.Cut(location, "?")
	plain, err := url.PathUnescape(escaped)
	values, invalid := url.ParseQuery(query)
	if routes == nil || err != nil || invalid != nil {
		return "", "", false
	}
	tool := routes.ToolOf(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: plain, RawPath: escaped, RawQuery: query}})
	r := s.byTool[tool]
	if tool == nil || r == nil {
		return "", "", false
	}
	template, err := parseTemplate("path:" + tool.Plan.Base + pathTemplate(tool))
	if err != nil {
		return "", "", false
	}
	bindings, ok := template.match("path:" + escaped)
	if !ok {
		return "", "", false
	}
	return r.expand(bindings, values)
}

// expand returns the resource's URI for the values of the path and query arguments. ok is false if
// the URI cannot express all of them.
func (r *Entry) expand(bindings []binding, query url.Values) (uri, name string, ok bool) {
	byName := make(map[string]string)
	for _, b := range bindings {
		byName[b.name] = b.value
	}
	for i := range r.Tool.Definition.Arguments {
		if a := &r.Tool.Definition.Arguments[i]; a.In == tools.InQuery && len(query[a.WireName]) == 1 {
			byName[a.Name] = query[a.WireName][0]
		}
	}
	switch {
	case len(byName) != len(bindings)+len(query):
		return "", "", false
	case r.template == nil && len(byName) == 0:
		return r.uri, r.name, true
	case r.template == nil:
		return "", "", false
	}
	values := make(uritemplate.Values)
	for variable, a := range r.arguments {
		value, given := byName[a.Name]
		switch {
		case given && strings.Contains(r.template.text, "{+"+variable+"}"):
			values.Set(variable, uritemplate.String(escapePath(value))) // Expand keeps what is escaped
		case given:
			values.Set(variable, uritemplate.String(value))
		case !slices.Contains(r.template.query, variable):
			return "", "", false
		}
	}
	template, err := uritemplate.New(r.template.text)
	if err != nil || len(values) != len(byName) {
		return "", "", false
	}
	uri, err = template.Expand(values)
	return uri, r.name, err == nil
}
