package tools

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/ocpextension"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// A toolSource is what the tools of one document are made with.
type toolSource struct {
	options      BuildOptions
	report       *Report
	input        *schema.Translator
	plain        schema.FastSet
	descriptions map[*openapi.Node]string // of properties
	extensions   ocpextension.Reader      // of OCP, of the operations
	root         *openapi.File            // of the document itself
	unprotected  []Warning                // about configured non-inferrable names that match no argument
	own          []string                 // the names in the document of the arguments of the current tool; "" for those that it does not name
}

// release drops what only the translation of operations needs. The lists are made after it, and need the memory.
func (s *toolSource) release() { s.descriptions = nil }

// A toolBuilder makes a tool from one operation. It chooses the names of the arguments, translates their schemas,
// and makes the plan of the request.
type toolBuilder struct {
	*toolSource
	operation *openapi.Operation
	tool      *Tool
	plan      *Plan               // of tool
	names     build.NameSet       // of the arguments
	places    map[string][]string // the names of the parameters by location
	constants []request.Pair      // the query pairs in the path of the document
	closed    jsontext.Value      // additionalProperties of the arguments object

	translated   *schema.InputSource         // the latest translation, until an argument takes it
	sources      map[int]*schema.InputSource // of the arguments, by position
	closedSource *schema.InputSource         // of closed
	response     openapi.Place               // the schema of responses; without a Node if there is none

	shape          *build.Shape                   // x-fairway of the operation; nil if there is none
	argumentShapes map[string]build.ArgumentShape // x-fairway of the arguments by name; nil if there are none
	withheld       error                          // why an argument cannot be fixed or hidden as its x-fairway demands
}

// locations is the order of the arguments.
var locations = []Location{InPath, InQuery, InHeader, InCookie}

func (t *toolBuilder) build() error {
	if t.options.Foreign {
		if t.readForeign(); !t.tool.IsRequest() {
			return t.buildForeign()
		}
	}
	t.closed = jsontext.Value("false")
	t.own = t.own[:0]
	t.places = make(map[string][]string)
	t.plan.Query, t.constants = request.ConstantQuery(t.operation.ConstantQuery)
	t.sources = make(map[int]*schema.InputSource)
	for i := range t.operation.Parameters {
		p := &t.operation.Parameters[i]
		t.places[p.In] = append(t.places[p.In], p.Name)
	}
	for _, pair := range t.constants {
		t.places["query"] = append(t.places["query"], pair.Name)
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
	body := &bodyBuilder{toolBuilder: t}
	if err := body.addBody(); err != nil {
		return err
	}
	t.correctNames()
	if body.object != nil {
		body.openBody()
	}
	t.planPath()
	t.describeResponse()
	t.tool.OCP = t.extensions.Operation(t.operation)
	t.tool.MCP = t.readMCP(t.tool.Operation(), t.operation.Place)
	t.markNonInferrable()
	t.plan.index = indexOf(t.plan.Arguments)
	t.tool.Definition.TakesKey = t.options.IdempotencyArgument
	t.tool.list()
	t.plan.Identity = t.identity()
	return cmp.Or(t.withheld, t.readShape())
}

func (t *toolBuilder) warn(reason string) {
	t.report.warn(Warning{Operation: t.tool.Operation(), Reason: reason})
}

// addArgument claims a name for the argument and adds it with its plan. If a.Name is
// empty, the name is derived from a.WireName. Place is where the argument's schema is;
// extensions are read from it and from the holders.
func (t *toolBuilder) addArgument(a Argument, planned request.Argument, place openapi.Place, holders ...openapi.Place) {
	t.own = append(t.own, cmp.Or(a.Name, a.WireName))
	name := argumentName(cmp.Or(a.Name, a.WireName))
	if t.names.Taken[name] {
		name = build.ShortenName(string(a.In) + "_" + name)
	}
	a.Name = t.names.Claim(name)
	a.types = schema.Types(place)
	planned.Needed = a.Required
	if planned.Filled {
		a.Required = false
	} else if def := schema.Default(place); def != nil && request.Fits(def, a.types) {
		a.Default = def
		// The default of a body property is often the value that the API sets when it
		// creates an object. Sent with an update, it would change what the caller did not
		// mention. So defaults of the body are sent only if the body would be incomplete
		// without them.
		if a.In != InBody || planned.NeededInBody {
			planned.Fill = def
			a.Required = false
		}
	}
	planned.Fast = t.plain.Read(a.Schema)
	t.readArgumentExtensions(&a, append(holders, place)...)
	planned.DropNull = !a.Required && !request.Fits(jsontext.Value("null"), a.types)
	t.takeSource(len(t.plan.Arguments))
	t.plan.Arguments = append(t.plan.Arguments, a)
	t.plan.Encodings = append(t.plan.Encodings, planned)
}

// argumentName returns the argument name for a parameter or property: "filter[class]"
// becomes filter_class. An argument without a name is the body.
func argumentName(wireName string) string {
	switch name := build.SanitizeName(wireName); {
	case wireName == "":
		return "body"
	case name == "":
		return "argument"
	case name != wireName:
		return build.ShortenName(strings.TrimRight(name, "_"))
	default:
		return build.ShortenName(name)
	}
}

// correctNames replaces the names of arguments that are wrong (build.Renaming). Where a name differs from that in the
// document, the description begins with the name in the document.
func (t *toolBuilder) correctNames() {
	arguments, differs := t.plan.Arguments, false
	for i := range arguments {
		differs = differs || t.own[i] != "" && t.own[i] != arguments[i].Name
	}
	if !differs {
		return
	}
	former := make([]string, len(arguments))
	for i := range arguments {
		former[i] = arguments[i].Name
	}
	renaming := build.Renaming{Own: t.own, Former: former, Prefix: func(i int) string { return string(arguments[i].In) }}
	renaming.Name = func(i int, read func(string) string) string {
		name := read(t.own[i])
		if name != "" && build.SanitizeName(name) == "" {
			return ""
		}
		return argumentName(name)
	}
	shapes := t.argumentShapes
	t.names, t.argumentShapes = build.NewNameSet(), nil
	for i, name := range renaming.Names() {
		a := &arguments[i]
		a.Name = t.names.Claim(name)
		if name != former[i] {
			if t.tool.Unshaped.former == nil {
				t.tool.Unshaped.former = make(map[string]int)
			}
			t.tool.Unshaped.former[former[i]] = i
		}
		if shape, shaped := shapes[former[i]]; shaped {
			t.addArgumentShape(name, shape)
		}
		if own := t.own[i]; own != "" && own != name {
			inSchema := strictjson.Text(strictjson.MemberOf(a.Schema, "description"))
			a.Description = build.TellName(own, cmp.Or(a.Description, inSchema))
			source := t.sources[i]
			if source == nil {
				source = new(schema.InputSource)
			}
			source.Description = a.Description
			a.Schema = source.Annotate(a.Schema)
		}
	}
}

func (t *toolBuilder) addParameter(p *openapi.Parameter) error {
	if p.In == string(InHeader) && request.ForbiddenHeader(p.Name) {
		t.warn(fmt.Sprintf("header parameter %s is left out: HTTP or the gateway sets that header", p.Name))
		return nil
	}
	if p.In == string(InQuery) && slices.ContainsFunc(t.constants, func(pair request.Pair) bool { return pair.Name == p.Name }) {
		return nil // the path contains its value
	}
	param, err := request.NewSerializer(request.Param{
		Name: p.Name, In: request.In(p.In), Style: request.Style(p.Style), Explode: p.Explode,
		AllowReserved: p.AllowReserved, ContentType: p.ContentType, Reserved: t.places[p.In], Segments: p.Segments,
	})
	if err != nil {
		return t.cannotSend(p, err)
	}
	a := Argument{
		Name:        p.Name,
		WireName:    p.Name,
		In:          Location(p.In),
		Required:    p.Required,
		Description: p.Description,
	}
	if p.In == string(InHeader) {
		a.WireName = http.CanonicalHeaderKey(p.Name)
	}
	plan := request.Argument{Param: param}
	if value := singleValue(p.Required, p.Schema); value != nil && isSendable(param, value) {
		plan.Filled, plan.Fill = true, value
		a.Schema = schema.Const(value)
	} else {
		a.Schema = t.translateAs(p.Schema, &schema.InputSource{
			Description: p.Description, Deprecated: p.Deprecated, Examples: schema.Examples(p.Schema, examplesOf(p.Examples, maxExamples)...),
		})
	}
	t.addArgument(a, plan, p.Schema, p.Object)
	return nil
}

// cannotSend handles a parameter that cannot be sent. If it is required, the operation
// does not become a tool; otherwise the parameter is omitted.
func (t *toolBuilder) cannotSend(p *openapi.Parameter, err error) error {
	reason := fmt.Errorf("%s parameter %s: %w", p.In, p.Name, err)
	if p.Required {
		return reason
	}
	t.warn(reason.Error() + "; it is left out")
	return nil
}

// planPath splits the escaped path at its parameters. Parameters that the gateway fills
// become literal text.
func (t *toolBuilder) planPath() {
	base := cmp.Or(t.options.BasePath, t.operation.BasePath)
	t.plan.Base = request.EscapePath(strings.TrimRight(base, "/"))
	t.addLiteral(t.plan.Base)
	var template strings.Builder
	rest := t.operation.Template
	for {
		literal, behind, found := strings.Cut(rest, "{")
		t.addLiteral(request.EscapePath(literal))
		template.WriteString(literal)
		if !found {
			break
		}
		var name string
		name, rest, _ = strings.Cut(behind, "}")
		i := slices.IndexFunc(t.plan.Arguments, func(a Argument) bool { return a.In == InPath && a.WireName == name }) // package openapi guarantees that there is one
		if plan := &t.plan.Encodings[i]; plan.Filled {
			text, _ := plan.Param.Append(nil, plan.Fill) // cannot fail: isSendable has checked the value
			t.addLiteral(string(text))
			template.Write(text)
			continue
		}
		t.plan.Parts = append(t.plan.Parts, request.Part{Argument: i})
		template.WriteString("{" + name + "}")
	}
	t.plan.Template = template.String()
}

// addLiteral appends escaped text to the path.
func (t *toolBuilder) addLiteral(text string) {
	switch n := len(t.plan.Parts); {
	case text == "":
	case n > 0 && t.plan.Parts[n-1].Literal != "":
		t.plan.Parts[n-1].Literal += text
	default:
		t.plan.Parts = append(t.plan.Parts, request.Part{Literal: text})
	}
}

// identity returns the identifiers of the tool: the query in its path, the parameters that
// the gateway fills with their only allowed value, and the required parameters.
func (t *toolBuilder) identity() (all []request.Identifier) {
	for _, pair := range t.constants {
		all = addIdentifier(all, request.Query, pair.Name, pair.Value)
	}
	for i := range t.plan.Arguments {
		a, planned := &t.plan.Arguments[i], &t.plan.Encodings[i]
		switch {
		case a.In != InQuery && a.In != InHeader:
		case planned.Filled:
			name, value := planned.SentAs(a.In, a.WireName)
			all = addIdentifier(all, a.In, name, value)
		case a.Required && len(a.types) > 0 && !slices.Contains(a.types, "object"):
			all = append(all, request.Identifier{In: a.In, Name: a.WireName})
		}
	}
	return all
}

func addIdentifier(all []request.Identifier, in request.In, name, value string) []request.Identifier {
	for i := range all {
		if all[i].In == in && all[i].Name == name {
			all[i].Values = append(all[i].Values, value)
			return all
		}
	}
	return append(all, request.Identifier{In: in, Name: name, Values: []string{value}})
}
