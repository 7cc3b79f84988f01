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

	// missing is the message about a required property.
	missing = "missing, and required"

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
// sorted by path. Value is the decoded value that is not valid.
func Explain(err *jsonschema.ValidationError, value any) []Problem {
	var problems []Problem
	explainer{value}.collect(err, &problems)
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Path, b.Path) })
	return slices.Compact(problems)
}

// An explainer explains why a value is not valid.
type explainer struct{ value any }

func (e explainer) collect(err *jsonschema.ValidationError, problems *[]Problem) {
	if len(*problems) >= MaxProblems {
		return
	}
	path := text.Pointer(err.InstanceLocation...)
	switch k := err.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			*problems = append(*problems, Problem{path + text.Pointer(name), missing})
		}
	case *kind.AdditionalProperties:
		// Unknown names at the root are reported elsewhere, with the nearest known name.
		for _, name := range k.Properties {
			if path != "" {
				*problems = append(*problems, Problem{path + text.Pointer(name), "no such property"})
			}
		}
	case *kind.AnyOf, *kind.OneOf:
		*problems = append(*problems, e.alternatives(err, path)...)
	default:
		if len(err.Causes) > 0 {
			for _, cause := range err.Causes {
				e.collect(cause, problems)
			}
			return
		}
		*problems = append(*problems, Problem{path, text.Cut(describe(err.ErrorKind), MaxProblem)})
	}
}

// alternatives explains why none of several schemas fits, or too many do.
func (e explainer) alternatives(err *jsonschema.ValidationError, path string) []Problem {
	if len(err.Causes) == 0 {
		return []Problem{{path, "must fit exactly one of the alternatives of its schema, and fits more"}}
	}
	depth := len(err.InstanceLocation)
	causes := slices.DeleteFunc(slices.Clone(err.Causes), func(cause *jsonschema.ValidationError) bool {
		return isOfAnotherType(cause, depth)
	})
	if len(causes) == 0 {
		causes = err.Causes
	}
	prefix := ""
	if selected, tag := e.selectAlternatives(causes, depth); tag != nil {
		if len(selected) == 0 {
			return []Problem{{path + text.Pointer(tag.property), "must be one of " + listValues(tag.want)}}
		}
		causes, prefix = selected, fmt.Sprintf("%s is %s: ", tag.property, listValues([]any{tag.got}))
	}
	if len(causes) == 1 {
		var inside []Problem
		e.collect(causes[0], &inside)
		if prefix == "" {
			return inside
		}
		return []Problem{{path, text.Cut(prefix+strings.Join(reasons(inside, path), "; "), MaxProblem)}}
	}
	var all, shared []string
	for i, cause := range causes {
		var inside []Problem
		e.collect(cause, &inside)
		found := reasons(inside, path)
		if i == 0 {
			shared = slices.Clone(found)
		}
		shared = slices.DeleteFunc(shared, func(reason string) bool { return !slices.Contains(found, reason) })
		for _, reason := range found {
			if !slices.Contains(all, reason) {
				all = append(all, reason)
			}
		}
	}
	if len(shared) > 0 {
		all = shared
	}
	return []Problem{{path, text.Cut(prefix+"fits none of the alternatives of its schema: "+strings.Join(all, "; or "), MaxProblem)}}
}

// reasons returns problems inside the value at path as short texts: "iban is missing", "owner/name must be string".
func reasons(problems []Problem, path string) (all []string) {
	for _, p := range problems {
		reason := p.Message
		if at := strings.TrimPrefix(strings.TrimPrefix(p.Path, path), "/"); at != "" {
			if reason == missing {
				reason = "is missing"
			}
			reason = at + " " + reason
		}
		all = append(all, reason)
	}
	return all
}

// A tag is the property by which a value selects one of several alternatives.
type tag struct {
	property string
	got      any   // its value
	want     []any // the values that alternatives allow
}

// selectAlternatives returns the alternatives whose errors are not about the property that distinguishes them, and
// that property. The tag is nil if no property distinguishes them. If its value selects no alternative, the list is empty.
func (e explainer) selectAlternatives(causes []*jsonschema.ValidationError, depth int) (selected []*jsonschema.ValidationError, found *tag) {
	excluded := make([]map[string]*tag, len(causes)) // for each alternative, the properties whose values exclude it
	counts := make(map[string]int)
	distinguishes := make(map[string]bool)
	least := leastFaults(causes)
	for i, cause := range causes {
		excluded[i] = make(map[string]*tag)
		e.exclusions(cause, depth, excluded[i])
		for property, t := range excluded[i] {
			counts[property]++
			// The only fault of an alternative is its list of several values: this is probably a wrong value of
			// another property.
			distinguishes[property] = distinguishes[property] || len(t.want) <= 1 || faults(cause) > least
		}
	}
	best := ""
	for property, n := range counts {
		if distinguishes[property] && (n > counts[best] || n == counts[best] && property < best) {
			best = property
		}
	}
	if best == "" {
		return nil, nil
	}
	for i, cause := range causes {
		t := excluded[i][best]
		switch {
		case t == nil:
			selected = append(selected, cause)
		case found == nil:
			found = t
		default:
			found.want = append(found.want, t.want...)
		}
	}
	if len(selected) == 0 && len(found.want) == 0 {
		return nil, nil
	}
	return selected, found
}

// faults returns the number of innermost causes of an error.
func faults(err *jsonschema.ValidationError) (n int) {
	if required, ok := err.ErrorKind.(*kind.Required); ok {
		return len(required.Missing)
	}
	for _, cause := range err.Causes {
		n += faults(cause)
	}
	return max(n, 1)
}

func leastFaults(causes []*jsonschema.ValidationError) int {
	least := faults(causes[0])
	for _, cause := range causes[1:] {
		least = min(least, faults(cause))
	}
	return least
}

// exclusions adds the properties of the value at that depth whose own values do not fit one alternative.
func (e explainer) exclusions(err *jsonschema.ValidationError, depth int, found map[string]*tag) {
	if len(err.InstanceLocation) == depth+1 {
		property := err.InstanceLocation[depth]
		switch k := err.ErrorKind.(type) {
		case *kind.Enum:
			found[property] = &tag{property, k.Got, k.Want}
		case *kind.Const:
			found[property] = &tag{property, k.Got, []any{k.Want}}
		case *kind.Not: // of checkKey: the value selects another alternative
			got, _ := valueAt(e.value, err.InstanceLocation)
			found[property] = &tag{property: property, got: got}
		}
	}
	switch err.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf: // all of its alternatives must exclude the value
		if selected, t := e.selectAlternatives(err.Causes, depth); t != nil && len(selected) == 0 {
			found[t.property] = t
		}
		return
	}
	for _, cause := range err.Causes {
		e.exclusions(cause, depth, found)
	}
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

// refPrefix is how package schema writes a reference to one of the $defs. It cannot appear
// inside a JSON string, which would escape the quotes.
const refPrefix = `"$ref":"#/$defs/`

var errTooMuchEffort = errors.New("takes too many steps to validate against its schema: nest it less deeply, or send fewer values in one call")

// A Compiled is a compiled schema whose validation takes limited effort.
type Compiled struct {
	schema *jsonschema.Schema
	mu     sync.Mutex        // held while effort is spent; unused if effort is nil
	effort *validationBudget // nil if the schema has no references and is therefore walked at most once

	integers func() (*Compiled, error) // the schema with the vocabulary of integers, compiled when it is first needed
}

// Compile compiles the schema of a tool. Its oneOfs accept values that fit several alternatives.
func Compile(source []byte) (*Compiled, error) {
	return compile(withoutOneOf(source), bytes.Contains(source, []byte(refPrefix)), false)
}

// CompileBounded compiles any schema. Its validation always takes limited effort.
func CompileBounded(source []byte) (*Compiled, error) { return compile(source, true, false) }

func compile(source []byte, bounded, inDigits bool) (*Compiled, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(checked(source)))
	if err != nil {
		return nil, err
	}
	b, err := compileDocument(document, bounded, inDigits)
	b.integers = sync.OnceValues(func() (*Compiled, error) { return compile(source, bounded, true) })
	return b, err
}

func compileDocument(document any, bounded, inDigits bool) (*Compiled, error) {
	const here = "fairway:///tool"
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noLoader{})
	b := &Compiled{}
	if inDigits {
		compiler.RegisterVocabulary(integers())
		compiler.AssertVocabs()
	}
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
func (b *Compiled) Validate(value any) error {
	_, err := b.Check(value)
	return err
}

// Check is like Validate. It also reports whether the value has a whole number with a fraction or an exponent, for Digits.
func (b *Compiled) Check(value any) (hasWhole bool, err error) {
	var w weight
	if err := w.add(value); err != nil {
		return false, err
	}
	return w.whole, b.validate(value, w.values)
}

func (b *Compiled) validate(value any, count int) (err error) {
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

// A weight is what a decoded value weighs for the validator.
type weight struct {
	values int  // inside the value
	whole  bool // one is a whole number with a fraction or an exponent
}

// add adds a value. It rejects numbers that are short to write but expensive to compare.
func (w *weight) add(value any) error {
	w.values++
	switch value := value.(type) {
	case json.Number:
		if !isWritable(string(value)) {
			return errors.New("has a number that is too large or too small to validate")
		}
		w.whole = w.whole || isWhole(string(value))
	case map[string]any:
		for _, v := range value {
			if err := w.add(v); err != nil {
				return err
			}
		}
	case []any:
		for _, v := range value {
			if err := w.add(v); err != nil {
				return err
			}
		}
	}
	return nil
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
