package ocp

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

// What it may take to judge one value. A schema whose alternatives refer back to
// it is walked anew for each of them at every level of the value, and nothing
// can cancel the validator: a value of a hundred bytes would keep it busy, and
// filling memory, for ever.
const (
	stepsAtLeast  = 1 << 17 // schemas tried
	stepsPerValue = 1 << 6  // more of them for each value inside the value
	stepsAtMost   = 1 << 20

	maxNumberText = 400 // bytes of a number
	maxExponent   = 400 // beyond what a double holds; the validator writes numbers out
)

var (
	errTooMuchEffort = errors.New("takes too many tries to judge by its schema: nest it less deep, or send less at once")
	errNumberRange   = errors.New("has a number that is too large or too small to be judged")
)

// A boundedSchema is a compiled schema that takes bounded effort to judge a value.
type boundedSchema struct {
	schema *jsonschema.Schema
	mu     sync.Mutex // held while effort is spent; not used if effort is nil
	effort *effort    // nil if the schema has no references, and so is walked once at most
}

func compileSchema(text []byte) (*boundedSchema, error) {
	const here = "fairway:///tool"
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noLoader{})
	b := &boundedSchema{}
	if bytes.Contains(text, []byte(refPrefix)) {
		b.effort = new(effort)
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

// Validate returns nil if the decoded value fits the schema. The error is a
// *jsonschema.ValidationError, or says why the value cannot be judged.
func (b *boundedSchema) Validate(value any) (err error) {
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

// weigh counts the values inside a decoded value, and refuses numbers that take
// more to compare than they take to write.
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

// An effort is what is left for one validation. It takes part in it as a keyword
// that every schema has.
type effort struct {
	left int
}

// vocabulary returns the keyword.
func (e *effort) vocabulary() *jsonschema.Vocabulary {
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

// A step is the effort of trying one schema.
type step struct {
	effort *effort
	cost   int
}

// Validate ends the validation if nothing is left. The validator has no other way
// to be ended than a panic, for which boundedSchema waits.
func (s step) Validate(*jsonschema.ValidatorContext, any) {
	if s.effort.left -= s.cost; s.effort.left < 0 {
		panic(errTooMuchEffort)
	}
}

// noLoader refuses every schema that is not part of the one being compiled.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("schemas are never loaded from elsewhere, nor is %s", url)
}
