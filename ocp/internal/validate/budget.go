package validate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

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

var (
	errTooMuchEffort = errors.New("takes too many tries to judge by its schema: nest it less deep, or send less at once")
	errNumberRange   = errors.New("has a number that is too large or too small to be judged")
)

// A Compiled is a compiled schema whose validation takes limited effort.
type Compiled struct {
	schema *jsonschema.Schema
	mu     sync.Mutex        // held while effort is spent; unused if effort is nil
	effort *validationBudget // nil if the schema has no references and is therefore walked at most once
}

func Compile(text []byte) (*Compiled, error) {
	const here = "fairway:///tool"
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noLoader{})
	b := &Compiled{}
	if bytes.Contains(text, []byte(RefPrefix)) {
		b.effort = new(validationBudget)
		compiler.RegisterVocabulary(b.effort.vocabulary())
		compiler.AssertVocabs()
	}
	if err := compiler.AddResource(here, document); err != nil {
		return nil, err
	}
	if b.schema, err = compiler.Compile(here); err != nil {
		return nil, err
	}
	return b, nil
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
			return 0, errNumberRange
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

// An effort is the remaining effort of one validation. It takes part in the validation as
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
	return nil, fmt.Errorf("schemas are never loaded from elsewhere, nor is %s", url)
}
