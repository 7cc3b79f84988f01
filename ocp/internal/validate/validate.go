package validate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/fairwayhq/fairway/internal/text"
)

const (
	// MaxProblems is the largest number of problems in one message.
	MaxProblems = 10

	// MaxProblem is the maximum length of one problem's message, in bytes.
	MaxProblem = 400

	// maxEnumValues is the largest number of enum values that a message lists.
	maxEnumValues = 20
)

// A Problem is one reason why a value is not valid.
type Problem struct {
	Path    string // JSON Pointer to the place in the value; "" for all of it
	Message string
}

// Schema compiles a schema when it is first needed and keeps it. A tool's input schema
// is compiled on the tool's first call.
type Schema struct {
	once   sync.Once
	schema *Compiled
	err    error
}

// Compile compiles the schema on the first call. Schema must return the same value each
// time.
func (v *Schema) Compile(schema func() jsontext.Value) (*Compiled, error) {
	v.once.Do(func() { v.schema, v.err = Compile(schema()) })
	return v.schema, v.err
}

// Explain converts a validation error to one problem for each of its innermost causes,
// sorted by path.
func Explain(err *jsonschema.ValidationError) []Problem {
	var problems []Problem
	collect(err, &problems)
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Path, b.Path) })
	return slices.Compact(problems)
}

func collect(err *jsonschema.ValidationError, problems *[]Problem) {
	if len(*problems) >= MaxProblems {
		return
	}
	path := text.Pointer(err.InstanceLocation...)
	switch k := err.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			*problems = append(*problems, Problem{path + text.Pointer(name), "missing, and required"})
		}
	case *kind.AdditionalProperties:
		// Unknown names at the root are reported elsewhere, with the nearest known name.
		for _, name := range k.Properties {
			if path != "" {
				*problems = append(*problems, Problem{path + text.Pointer(name), "no such property"})
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
		*problems = append(*problems, Problem{path, text.Cut(describe(err.ErrorKind), MaxProblem)})
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
			if at := strings.TrimPrefix(p.Path, text.Pointer(err.InstanceLocation...)); at != "" {
				reason = at + ": " + reason
			}
			if !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
		}
	}
	return text.Cut("fits none of the alternatives of its schema: "+strings.Join(reasons, "; or "), MaxProblem)
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
