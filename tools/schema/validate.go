package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
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

// Validator compiles a schema when it is first needed and keeps it. A tool's input schema
// is compiled on the tool's first call.
type Validator struct {
	once   sync.Once
	schema *Compiled
	err    error
}

// Compile compiles the schema on the first call, without the parts that cannot be compiled: the API or the MCP server
// checks them itself. Schema must return the same value each time.
func (v *Validator) Compile(schema func() jsontext.Value) (*Compiled, error) {
	v.once.Do(func() {
		source := schema()
		if v.schema, v.err = Compile(source); v.err != nil {
			v.schema, _, v.err = compileRest(source)
		}
	})
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
	causes := slices.DeleteFunc(slices.Clone(err.Causes), func(cause *jsonschema.ValidationError) bool {
		return isOfAnotherType(cause, len(err.InstanceLocation))
	})
	if len(causes) == 1 { // the other alternatives have another type
		var nested []Problem
		if collect(causes[0], &nested); len(nested) == 1 && nested[0].Path == text.Pointer(err.InstanceLocation...) {
			return nested[0].Message
		}
	}
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

// isOfAnotherType reports whether the only fault is the type of the value at that depth.
func isOfAnotherType(err *jsonschema.ValidationError, depth int) bool {
	for len(err.Causes) == 1 {
		err = err.Causes[0]
	}
	_, ok := err.ErrorKind.(*kind.Type)
	return ok && len(err.Causes) == 0 && len(err.InstanceLocation) == depth
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
		if source, ok := v.(string); ok {
			list = append(list, fmt.Sprintf("%q", source))
		} else {
			list = append(list, fmt.Sprint(v))
		}
	}
	if more := len(values) - maxEnumValues; more > 0 {
		list = append(list, fmt.Sprintf("… (%d more)", more))
	}
	return strings.Join(list, ", ")
}

// These constants limit the effort of validating one value. If the alternatives of a
// schema refer back to the schema, the validator walks the schema again for each
// alternative at every level of the value. The validator cannot be canceled, so without
// limits a value of a hundred bytes could occupy it, and fill the memory, forever.
const (
	stepsAtLeast  = 1 << 17 // schemas tried
	stepsPerValue = 1 << 6  // additional schemas for each value inside the value
	stepsAtMost   = 1 << 20

	maxNumberText = 400 // bytes of a number
	maxExponent   = 400 // larger than a double; the validator expands exponents into digits
)

// RefPrefix is how package schema writes a reference to one of the $defs. It cannot appear
// inside a JSON string, which would escape the quotes.
const RefPrefix = `"$ref":"#/$defs/`

var errTooMuchEffort = errors.New("takes too many steps to validate against its schema: nest it less deeply, or send fewer values in one call")

// A Compiled is a compiled schema whose validation takes limited effort.
type Compiled struct {
	schema *jsonschema.Schema
	mu     sync.Mutex        // held while effort is spent; unused if effort is nil
	effort *validationBudget // nil if the schema has no references and is therefore walked at most once
}

// Compile compiles a schema that this package has written.
func Compile(source []byte) (*Compiled, error) {
	return compile(source, bytes.Contains(source, []byte(RefPrefix)))
}

// CompileBounded compiles any schema. Its validation always takes limited effort.
func CompileBounded(source []byte) (*Compiled, error) { return compile(source, true) }

func compile(source []byte, bounded bool) (*Compiled, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
	if err != nil {
		return nil, err
	}
	return compileDocument(document, bounded)
}

func compileDocument(document any, bounded bool) (*Compiled, error) {
	const here = "fairway:///tool"
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noLoader{})
	b := &Compiled{}
	if bounded {
		b.effort = new(validationBudget)
		compiler.RegisterVocabulary(b.effort.vocabulary())
		compiler.AssertVocabs()
	}
	err := compiler.AddResource(here, document)
	if err == nil {
		b.schema, err = compiler.Compile(here)
	}
	return b, err
}

// Validate returns nil if the decoded value is valid for the schema. The error is a
// *jsonschema.ValidationError, or says why the value cannot be validated.
func (b *Compiled) Validate(value any) (err error) {
	count, err := weigh(value)
	if err != nil {
		return err
	}
	if b.effort == nil {
		return b.schema.Validate(value)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.effort.left = min(stepsAtLeast+stepsPerValue*count, stepsAtMost)
	defer func() {
		if cause := recover(); cause == errTooMuchEffort {
			err = errTooMuchEffort
		} else if cause != nil {
			panic(cause)
		}
	}()
	return b.schema.Validate(value)
}

// weigh counts the values inside a decoded value. It rejects numbers that are short to
// write but expensive to compare.
func weigh(value any) (count int, err error) {
	switch value := value.(type) {
	case json.Number:
		if !isWritable(string(value)) {
			return 0, errors.New("has a number that is too large or too small to validate")
		}
	case map[string]any:
		for _, v := range value {
			n, err := weigh(v)
			if err != nil {
				return 0, err
			}
			count += n
		}
	case []any:
		for _, v := range value {
			n, err := weigh(v)
			if err != nil {
				return 0, err
			}
			count += n
		}
	}
	return count + 1, nil
}

func isWritable(number string) bool {
	if len(number) > maxNumberText {
		return false
	}
	i := strings.IndexAny(number, "eE")
	if i < 0 {
		return true
	}
	exponent, err := strconv.Atoi(number[i+1:])
	return err == nil && -maxExponent <= exponent && exponent <= maxExponent
}

// A validationBudget is the remaining effort of one validation. It takes part in the validation as
// a keyword that is added to every schema.
type validationBudget struct {
	left int
}

// vocabulary returns the keyword.
func (e *validationBudget) vocabulary() *jsonschema.Vocabulary {
	anything := true
	return &jsonschema.Vocabulary{
		URL:    "fairway:///effort",
		Schema: &jsonschema.Schema{Bool: &anything},
		Compile: func(_ *jsonschema.CompilerContext, schema map[string]any) (jsonschema.SchemaExt, error) {
			s := step{effort: e, cost: 1}
			for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
				list, _ := schema[keyword].([]any)
				s.cost += len(list)
			}
			return s, nil
		},
	}
}

// A step counts the effort of trying one schema.
type step struct {
	effort *validationBudget
	cost   int
}

// Validate stops the validation when no effort is left. A panic is the only way to stop
// the validator; Compiled recovers from it.
func (s step) Validate(*jsonschema.ValidatorContext, any) {
	if s.effort.left -= s.cost; s.effort.left < 0 {
		panic(errTooMuchEffort)
	}
}

// noLoader rejects references to schemas outside the schema that is compiled.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("schemas are never loaded from outside the document: %s is not loaded", url)
}
