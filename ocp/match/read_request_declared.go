package match

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/validate"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// ReadDeclared is like ReadRequest but accepts only what the document declares, as Bind
// does. It returns an error of kind UndeclaredName for an undeclared query parameter, an
// undeclared property of the body, and a property inside an argument that the schema
// excludes. Properties that the body explicitly allows (additionalProperties) count as
// declared.
func ReadDeclared(t *tool.Tool, r *http.Request, body []byte, credentials ...string) (arguments jsontext.Value, err error) {
	reader, err := readRequest(t, r, body, credentials...)
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
			return r.refuseUndeclared(tool.InQuery, p.Name)
		}
	}
	for _, m := range r.undeclared.properties {
		if !r.planned.OpenBody || r.planned.Taken[m.Name] {
			return r.refuseUndeclared(tool.InBody, m.Name)
		}
	}
	if !r.plan.excludes {
		return nil
	}
	arguments, err := wire.Decode(append(slices.Clip(r.arguments.text), '}'))
	if err != nil {
		return err
	}
	return r.plan.checkExcluded(r.tool, arguments)
}

// refuseUndeclared returns an error for an undeclared name. It suggests the nearest declared
// one.
func (r *requestReader) refuseUndeclared(in tool.Location, name string) error {
	near := nearest.Name(name, func(yield func(string) bool) {
		for i := range r.all {
			if a := &r.all[i]; a.In == in && a.WireName != "" && !yield(a.WireName) {
				return
			}
		}
	})
	message := "the " + string(in) + " parameter " + strconv.Quote(text.Cut(name, validate.MaxProblem)) + " is unknown to " + r.tool.Operation()
	if near != "" {
		message += "; did you mean " + near + "?"
	}
	return &RequestError{Kind: UndeclaredName, In: in, Name: name, Message: message}
}

// checkExcluded returns an error if a property inside an argument is excluded by the
// tool's schema. The API reports other errors itself.
func (p *requestPlan) checkExcluded(t *tool.Tool, arguments any) error {
	compiled, err := t.Plan().Validator.Compile(t.Plan().Schema)
	if err != nil {
		return &RequestError{Kind: InvalidArgument, Message: "the schema of " + t.Operation() + " cannot be used to check the request: " + err.Error()}
	}
	err = compiled.Validate(arguments)
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return &RequestError{Kind: InvalidArgument, Message: "the request cannot be checked against the schema of " + t.Operation() + ": " + err.Error()}
	}
	path := excludedBy(invalid)
	if path == nil {
		return nil
	}
	e := &RequestError{Kind: UndeclaredName, Name: path[len(path)-1]}
	if i, ok := p.names[path[0]]; ok {
		e.In = t.All()[i].In
	}
	e.Message = "the property " + strconv.Quote(text.Cut(text.Pointer(path...), validate.MaxProblem)) + " is unknown to " + t.Operation()
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
// If a property has the name of a keyword, the result may be a false positive, which only
// costs an unneeded check.
func excludesNames(schema jsontext.Value) bool {
	value, err := wire.Decode(schema)
	if err != nil {
		return false
	}
	root, _ := value.(map[string]any)
	for name, below := range root {
		if name != "additionalProperties" && excludesIn(name, below) {
			return true
		}
	}
	return false
}

// excludesIn is like excludesNames, for the value of a keyword or a property.
func excludesIn(name string, value any) bool {
	switch value := value.(type) {
	case bool:
		switch name {
		case "additionalProperties", "unevaluatedProperties", "items", "additionalItems", "unevaluatedItems":
			return !value
		}
	case map[string]any:
		if name == "propertyNames" {
			return true
		}
		for below, v := range value {
			if v == false && (name == "properties" || name == "patternProperties") || excludesIn(below, v) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, func(v any) bool { return excludesIn("", v) })
	}
	return false
}
