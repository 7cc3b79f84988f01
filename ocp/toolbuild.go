package ocp

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/openapi"
	"github.com/fairwayhq/fairway/ocp/schema"
	"github.com/fairwayhq/fairway/ocp/style"
)

// toolBuilder makes one operation a tool.
type toolBuilder struct {
	*builder
	operation *openapi.Operation
	tool      *Tool
	names     namespace           // of the arguments
	places    map[string][]string // the names of the parameters by where they go
	shared    []*schema.Schema    // whose $defs the tool's schema needs
	closed    jsontext.Value      // additionalProperties of the arguments object
	files     map[string]fileUse  // the properties of a multipart form that are files
}

// locations is the order of the arguments.
var locations = []Location{InPath, InQuery, InHeader, InCookie}

func (t *toolBuilder) build() error {
	if err := t.spent(); err != nil {
		return err
	}
	t.closed = jsontext.Value("false")
	t.places = make(map[string][]string)
	for i := range t.operation.Parameters {
		p := &t.operation.Parameters[i]
		t.places[p.In] = append(t.places[p.In], p.Name)
	}
	for _, in := range locations {
		for i := range t.operation.Parameters {
			if p := &t.operation.Parameters[i]; p.In == string(in) {
				if err := t.addParameter(p); err != nil {
					return err
				}
			}
		}
	}
	if err := t.addBody(); err != nil {
		return err
	}
	t.planPath()
	t.describeAnswer()
	t.readExtension()
	t.tool.MCP = t.readMCP(t.tool.where(), t.operation.Place)
	t.markNonInferrable()
	t.tool.InputSchema = t.inputSchema()
	return t.take(t.tool.InputSchema)
}

// addArgument claims a name for the argument, the one that it has or else that of
// its wire name, and adds it with its plan. The place
// is that of its schema; extensions are read there and in the holders.
func (t *toolBuilder) addArgument(a Argument, plan argumentPlan, place openapi.Place, holders ...openapi.Place) {
	name := cmp.Or(a.Name, argumentName(a.WireName))
	if t.names.taken[name] {
		name = shorten(string(a.In) + "_" + name)
	}
	a.Name = t.names.claim(name)
	a.types = schema.Types(place)
	if def := schema.Default(place); def != nil && fits(def, a.types) {
		a.Default = def
		// What a document calls the default of a body property is often what
		// the API sets on creation; sending it with an update would change what
		// the caller did not speak of. So a body is filled in only where it
		// would be incomplete.
		if a.In != InBody || plan.neededInBody {
			plan.fill = def
			a.Required = false
		}
	}
	plan.plain = readPlain(a.Schema)
	t.readArgumentExtensions(&a, append(holders, place)...)
	plan.dropNull = !a.Required && !fits(jsontext.Value("null"), a.types)
	t.tool.index[a.Name] = len(t.tool.Arguments)
	t.tool.Arguments = append(t.tool.Arguments, a)
	t.tool.plans = append(t.tool.plans, plan)
}

// argumentName returns what a caller writes for a parameter or property:
// "filter[class]" is filter_class. The argument without a name is the body.
func argumentName(wireName string) string {
	switch name := sanitize(wireName); {
	case wireName == "":
		return "body"
	case name == "":
		return "argument"
	case name != wireName:
		return shorten(strings.TrimRight(name, "_"))
	default:
		return shorten(name)
	}
}

// fits reports whether a value is of one of the types; any is, if none is known.
func fits(value jsontext.Value, types []string) bool {
	if len(types) == 0 {
		return true
	}
	switch value.Kind() {
	case 'n':
		return slices.Contains(types, "null")
	case 't', 'f':
		return slices.Contains(types, "boolean")
	case '"':
		return slices.Contains(types, "string")
	case '0':
		return slices.Contains(types, "number") || slices.Contains(types, "integer")
	case '[':
		return slices.Contains(types, "array")
	}
	return slices.Contains(types, "object")
}

func (t *toolBuilder) addParameter(p *openapi.Parameter) error {
	if p.In == string(InHeader) && style.ForbiddenHeader(p.Name) {
		if p.Required {
			return fmt.Errorf("header parameter %s is required, and a caller may not set that header", p.Name)
		}
		t.warn(Warning{Operation: t.tool.where(), Reason: fmt.Sprintf("header parameter %s is left out: a caller may not set that header", p.Name)})
		return nil
	}
	param, err := style.New(style.Param{
		Name: p.Name, In: style.In(p.In), Style: style.Style(p.Style), Explode: p.Explode,
		AllowReserved: p.AllowReserved, ContentType: p.ContentType, Reserved: t.places[p.In],
	})
	if err != nil {
		return t.cannotSend(p, err)
	}
	wireName := p.Name
	if p.In == string(InHeader) {
		wireName = http.CanonicalHeaderKey(p.Name)
	}
	t.addArgument(Argument{
		WireName:    wireName,
		In:          Location(p.In),
		Required:    p.Required,
		Description: p.Description,
		Schema:      annotate(t.translate(p.Schema), p.Description, p.Deprecated),
	}, argumentPlan{param: param}, p.Schema, p.Object)
	return nil
}

// cannotSend costs the operation if it needs the parameter, else the parameter.
func (t *toolBuilder) cannotSend(p *openapi.Parameter, err error) error {
	reason := fmt.Errorf("%s parameter %s: %w", p.In, p.Name, err)
	if p.Required {
		return reason
	}
	t.warn(Warning{Operation: t.tool.where(), Reason: reason.Error() + "; it is left out"})
	return nil
}

// annotate puts what the document says of a parameter into its schema, in place
// of what it says of the schema in general.
func annotate(text jsontext.Value, description string, deprecated bool) jsontext.Value {
	if description == "" && !deprecated {
		return text
	}
	if text.Kind() != '{' {
		text = jsontext.Value("{}") // the schema true
	}
	members, err := wire.Members(nil, text)
	if err != nil {
		return text
	}
	annotated := []byte{'{'}
	for _, m := range members {
		if m.Name == "description" && description != "" || m.Name == "deprecated" && deprecated {
			continue
		}
		annotated = appendMember(annotated, m.Name, m.Value)
	}
	if description != "" {
		annotated = appendMember(annotated, "description", wire.AppendString(nil, description))
	}
	if deprecated {
		annotated = appendMember(annotated, "deprecated", []byte("true"))
	}
	return append(annotated, '}')
}

// appendMember appends a member to an object that is still open.
func appendMember(object []byte, name string, value []byte) []byte {
	if object[len(object)-1] != '{' {
		object = append(object, ',')
	}
	object = wire.AppendString(object, name)
	object = append(object, ':')
	return append(object, value...)
}

// planPath splits the escaped path at its parameters.
func (t *toolBuilder) planPath() {
	base := t.options.BasePath
	if base == "" {
		base = t.operation.BasePath
	}
	rest := strings.TrimRight(base, "/") + t.operation.Path
	for rest != "" {
		open := strings.IndexByte(rest, '{')
		closing := strings.IndexByte(rest, '}')
		if open < 0 || closing < open {
			break
		}
		t.addLiteral(rest[:open])
		t.tool.path = append(t.tool.path, pathPart{argument: t.pathArgument(rest[open+1 : closing])})
		rest = rest[closing+1:]
	}
	t.addLiteral(rest)
}

func (t *toolBuilder) addLiteral(path string) {
	if path != "" {
		t.tool.path = append(t.tool.path, pathPart{literal: escapeLiteral(path)})
	}
}

// escapeLiteral escapes what may not stand in a path; what is escaped already
// stays as it is.
func escapeLiteral(path string) string {
	const allowed = "-._~!$&'()*+,;=:@/%"
	var escaped strings.Builder
	for i := range len(path) {
		c := path[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(allowed, c) >= 0 {
			escaped.WriteByte(c)
		} else {
			fmt.Fprintf(&escaped, "%%%02X", c)
		}
	}
	return escaped.String()
}

// pathArgument returns the position of a path parameter. Package openapi sees to
// it that each name in the template has one.
func (t *toolBuilder) pathArgument(name string) int {
	return slices.IndexFunc(t.tool.Arguments, func(a Argument) bool {
		return a.In == InPath && a.WireName == name
	})
}

// inputSchema puts the arguments together into one object schema.
func (t *toolBuilder) inputSchema() jsontext.Value {
	root := []byte(`{"type":"object"`)
	properties := []byte{'{'}
	required := []byte{'['}
	for i := range t.tool.Arguments {
		a := &t.tool.Arguments[i]
		properties = appendMember(properties, a.Name, a.Schema)
		if a.Required {
			if len(required) > 1 {
				required = append(required, ',')
			}
			required = wire.AppendString(required, a.Name)
		}
	}
	root = appendMember(root, "properties", append(properties, '}'))
	if len(required) > 1 {
		root = appendMember(root, "required", append(required, ']'))
	}
	root = appendMember(root, "additionalProperties", t.closed)
	if defs := t.input.AppendDefs(nil, t.shared...); len(defs) > 0 {
		root = append(append(root, ','), defs...)
	}
	return append(root, '}')
}
