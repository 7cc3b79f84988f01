package ocp

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

const (
	// maxProblems is the largest number of problems in one message.
	maxProblems = 10

	// maxProblem is the maximum length of one problem's message, in bytes.
	maxProblem = 400

	// maxEnumValues is the largest number of enum values that a message lists.
	maxEnumValues = 20
)

// validator compiles a schema when it is first needed and keeps it. A tool's input schema
// is compiled on the tool's first call.
type validator struct {
	once   sync.Once
	schema *boundedSchema
	err    error
}

// validate returns the problems with the arguments. Arguments for which forgiven returns
// true may be missing; if forgiven is nil, none may. The error means that the schema
// itself cannot be compiled.
func (v *validator) validate(t *Tool, arguments map[string]any, forgiven func(*Argument) bool) ([]Problem, error) {
	compiled, err := v.compile(t.checkedSchema)
	if err != nil {
		return nil, err
	}
	err = compiled.Validate(arguments)
	if err == nil {
		return nil, nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return []Problem{{Message: "the object of arguments " + err.Error()}}, nil
	}
	if forgiven != nil {
		t.forgive(invalid, forgiven)
	}
	return explain(invalid), nil
}

// forgive removes from the error the missing arguments for which forgiven returns true.
func (t *Tool) forgive(err *jsonschema.ValidationError, forgiven func(*Argument) bool) {
	if required, ok := err.ErrorKind.(*kind.Required); ok && len(err.InstanceLocation) == 0 {
		required.Missing = slices.DeleteFunc(required.Missing, func(name string) bool {
			i, known := t.index.position(t.all, name)
			return known && forgiven(&t.all[i])
		})
	}
	for _, cause := range err.Causes {
		t.forgive(cause, forgiven)
	}
}

// compile compiles the schema on the first call. Schema must return the same value each
// time.
func (v *validator) compile(schema func() jsontext.Value) (*boundedSchema, error) {
	v.once.Do(func() { v.schema, v.err = compileSchema(schema()) })
	return v.schema, v.err
}

// explain converts a validation error to one problem for each of its innermost causes,
// sorted by path.
func explain(err *jsonschema.ValidationError) []Problem {
	var problems []Problem
	collect(err, &problems)
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Path, b.Path) })
	return slices.Compact(problems)
}

func collect(err *jsonschema.ValidationError, problems *[]Problem) {
	if len(*problems) >= maxProblems {
		return
	}
	path := pointer(err.InstanceLocation...)
	switch k := err.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			*problems = append(*problems, Problem{path + pointer(name), "missing, and required"})
		}
	case *kind.AdditionalProperties:
		// Unknown names at the root are reported elsewhere, with the nearest known name.
		for _, name := range k.Properties {
			if path != "" {
				*problems = append(*problems, Problem{path + pointer(name), "no such property"})
			}
		}
	case *kind.AnyOf, *kind.OneOf:
		*problems = append(*problems, Problem{path, alternatives(err)})
	default:
		if len(err.Causes) > 0 {
			for _, cause := range err.Causes {
				collect(cause, problems)
			}
			return
		}
		*problems = append(*problems, Problem{path, clip(describe(err.ErrorKind), maxProblem)})
	}
}

// alternatives explains in one line why none of several schemas fits, or too many do.
func alternatives(err *jsonschema.ValidationError) string {
	if len(err.Causes) == 0 {
		return "must fit exactly one of the alternatives of its schema, and fits more"
	}
	var reasons []string
	for _, cause := range err.Causes {
		var nested []Problem
		collect(cause, &nested)
		for _, p := range nested {
			reason := p.Message
			if at := strings.TrimPrefix(p.Path, pointer(err.InstanceLocation...)); at != "" {
				reason = at + ": " + reason
			}
			if !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
		}
	}
	return clip("fits none of the alternatives of its schema: "+strings.Join(reasons, "; or "), maxProblem)
}

func describe(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("must be %s, and is %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Enum:
		return "must be one of " + listValues(k.Want)
	case *kind.Const:
		return fmt.Sprintf("must be %s", listValues([]any{k.Want}))
	case *kind.Pattern:
		return "must match the pattern " + k.Want
	case *kind.Format:
		return "must be a valid " + k.Want
	}
	return k.LocalizedString(message.NewPrinter(language.English))
}

func listValues(values []any) string {
	var list []string
	for _, v := range values[:min(len(values), maxEnumValues)] {
		if text, ok := v.(string); ok {
			list = append(list, fmt.Sprintf("%q", text))
		} else {
			list = append(list, fmt.Sprint(v))
		}
	}
	if more := len(values) - maxEnumValues; more > 0 {
		list = append(list, fmt.Sprintf("… (%d more)", more))
	}
	return strings.Join(list, ", ")
}

// pointer returns the JSON Pointer (RFC 6901) of the tokens.
func pointer(tokens ...string) string {
	var p strings.Builder
	for _, token := range tokens {
		p.WriteByte('/')
		p.WriteString(pointerEscaper.Replace(token))
	}
	return p.String()
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// clip shortens s to at most limit bytes, ending it with an ellipsis.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-len("…")], "") + "…"
}
