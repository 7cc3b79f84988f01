package plainrequest

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/match"
	"github.com/fairwayhq/fairway/tools/schema"
)

// ReadDeclared is like ReadRequest but accepts only what the document declares, as Bind
// does. It returns an error of kind UndeclaredName for an undeclared query parameter, an
// undeclared property of the body, and a property inside an argument that the schema
// excludes. Properties that the body explicitly allows (additionalProperties) count as
// declared.
func (r *Routes) ReadDeclared(t *tools.Tool, req *http.Request, body []byte, credentials ...string) (arguments jsontext.Value, err error) {
	reader, err := r.planOf(t).readRequest(req, body, credentials...)
	if err != nil {
		return nil, err
	}
	if err := reader.checkDeclared(); err != nil {
		return nil, err
	}
	return reader.result(), nil
}

func (r *requestReader) checkDeclared() error {
	for i := range r.undeclared.query {
		if p := &r.undeclared.query[i]; !p.Taken {
			return r.refuseUndeclared(tools.InQuery, p.Name)
		}
	}
	for _, m := range r.undeclared.properties {
		if !r.tool.Plan.Undeclared.Open || r.tool.Plan.Undeclared.Taken[m.Name] {
			return r.refuseUndeclared(tools.InBody, m.Name)
		}
	}
	if !r.excludes {
		return nil
	}
	arguments, err := strictjson.Decode(append(slices.Clip(r.arguments.text), '}'))
	if err != nil {
		return err
	}
	return r.checkExcluded(arguments)
}

// refuseUndeclared returns an error for an undeclared name. It suggests the nearest declared
// one.
func (r *requestReader) refuseUndeclared(in tools.Location, name string) error {
	near := text.Nearest(name, func(yield func(string) bool) {
		for i := range r.declared {
			if a := &r.declared[i]; a.In == in && a.WireName != "" && !yield(a.WireName) {
				return
			}
		}
	})
	message := "the " + string(in) + " parameter " + strconv.Quote(text.Cut(name, schema.MaxProblem)) + " is unknown to " + r.tool.Operation()
	return &match.RequestError{Kind: UndeclaredName, In: in, Name: name, Message: message + text.DidYouMean(near)}
}

// checkExcluded returns an error if a property inside an argument is excluded by the
// tool's schema. The API reports other errors itself.
func (p *requestPlan) checkExcluded(arguments any) error {
	compiled, err := p.validator.Compile(p.schema)
	if err != nil {
		return &match.RequestError{Kind: invalidArgument, Message: "the schema of " + p.tool.Operation() + " cannot be used to check the request: " + err.Error()}
	}
	err = compiled.Validate(arguments)
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return &match.RequestError{Kind: invalidArgument, Message: "the request cannot be checked against the schema of " + p.tool.Operation() + ": " + err.Error()}
	}
	path := excludedBy(invalid)
	if path == nil {
		return nil
	}
	e := &match.RequestError{Kind: UndeclaredName, Name: path[len(path)-1]}
	if i, ok := p.names[path[0]]; ok {
		e.In = p.declared[i].In
	}
	e.Message = "the property " + strconv.Quote(text.Cut(text.Pointer(path...), schema.MaxProblem)) + " is unknown to " + p.tool.Operation()
	return e
}

// excludedBy returns the path of a property whose presence makes the value invalid, or nil
// if there is none. If the schema has alternatives, each of them must exclude a property
// or be meant for other values. Otherwise the value may be invalid for another reason.
func excludedBy(err *jsonschema.ValidationError) []string {
	switch k := err.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		return inside(err.InstanceLocation, k.Properties[0])
	case *kind.PropertyNames:
		return inside(err.InstanceLocation, k.Property)
	case *kind.FalseSchema:
		if len(err.InstanceLocation) > 0 {
			return slices.Clone(err.InstanceLocation)
		}
	case *kind.AnyOf, *kind.OneOf:
		var first []string
		for _, cause := range err.Causes {
			path := excludedBy(cause)
			if path == nil && !isForOthers(cause, len(err.InstanceLocation)) {
				return nil
			}
			if first == nil {
				first = path
			}
		}
		return first
	}
	for _, cause := range err.Causes {
		if path := excludedBy(cause); path != nil {
			return path
		}
	}
	return nil
}

// isForOthers reports whether an alternative is meant for other values than the one at the
// given depth, and so does not exclude its properties: null or text, objects with another
// required property, or objects with another value of the discriminating property.
func isForOthers(err *jsonschema.ValidationError, depth int) bool {
	below := len(err.InstanceLocation) - depth
	switch err.ErrorKind.(type) {
	case *kind.Type, *kind.Required:
		return below == 0
	case *kind.Const, *kind.Enum:
		return below <= 1
	}
	return slices.ContainsFunc(err.Causes, func(cause *jsonschema.ValidationError) bool { return isForOthers(cause, depth) })
}

// inside returns the path of a property inside an argument. It returns nil for the
// arguments object itself, whose names are checked already.
func inside(location []string, name string) []string {
	if len(location) == 0 {
		return nil
	}
	return append(slices.Clone(location), name)
}

// excludesNames reports whether a schema excludes properties of an object below its root.
func excludesNames(t *schema.Tree, isRoot bool) bool {
	for _, k := range t.Keywords {
		for _, part := range k.Parts {
			switch k.Name {
			case "additionalProperties", "unevaluatedProperties", "items", "unevaluatedItems", "properties", "patternProperties":
				if part.Text.Kind() == 'f' && (!isRoot || k.Name != "additionalProperties") {
					return true
				}
			case "propertyNames":
				return true
			}
			if excludesNames(part.Tree, false) {
				return true
			}
		}
	}
	return false
}
