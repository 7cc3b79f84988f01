package schema

import (
	"bytes"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fairwayhq/fairway/internal/text"
)

// maxRepairs is how often a schema is compiled to find what cannot be. Each time the compiler reports all values that are
// not valid in a schema, but only if the values around them are.
const maxRepairs = 8

// Keywords whose values contain schemas.
var (
	mapsOfSchemas  = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
	listsOfSchemas = []string{"allOf", "anyOf", "oneOf", "prefixItems", "items"}
	schemaKeywords = []string{
		"items", "additionalItems", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "propertyNames",
		"contains", "not", "if", "then", "else",
	}
)

// Unusable returns JSON Pointers to the parts of a schema that cannot be compiled, such as a pattern that Go does not have
// or a reference to another document. Validator leaves them out of the check.
func Unusable(source jsontext.Value) []string {
	if _, err := CompileBounded(source); err == nil {
		return nil
	}
	_, unusable, _ := compileRest(source)
	return unusable
}

// compileRest compiles a schema without the parts that cannot be compiled. What is left accepts at least what the whole
// schema accepts.
func compileRest(source []byte) (*Compiled, []string, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(checked(source)))
	if err != nil {
		return nil, nil, err
	}
	r := repair{root: document}
	for range maxRepairs {
		document, _ = r.schema("", document)
		if r.strict = len(r.unusable) > 0; r.strict {
			document, _ = r.schema("", document)
		}
		compiled, err := compileDocument(document, true, false)
		if err == nil {
			compiled.integers = sync.OnceValues(func() (*Compiled, error) { return compileDocument(document, true, true) })
			return compiled, r.unusable, nil
		}
		if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
			if cause, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
				r.collect(cause)
			}
		}
	}
	anything, err := compileDocument(true, true, false)
	anything.integers = func() (*Compiled, error) { return anything, nil }
	return anything, append(r.unusable, ""), err
}

// A repair removes from a decoded schema what cannot be compiled.
type repair struct {
	root     any
	invalid  []string // pointers to values that the compiler reports
	strict   bool     // something was removed, maybe behind a reference
	unusable []string
}

func (r *repair) collect(err *jsonschema.ValidationError) {
	if len(err.Causes) == 0 {
		r.invalid = append(r.invalid, text.Pointer(err.InstanceLocation...))
	}
	for _, cause := range err.Causes {
		r.collect(cause)
	}
}

// schema repairs one schema. Wider reports whether it may accept more than before.
func (r *repair) schema(at string, value any) (repaired any, wider bool) {
	m, isObject := value.(map[string]any)
	if _, isBool := value.(bool); !isObject && !isBool {
		return true, r.remove(at)
	}
	removed := false
	for _, k := range slices.Sorted(maps.Keys(m)) {
		of, inside := at+text.Pointer(k), false
		parts, _ := m[k].(map[string]any)
		list, _ := m[k].([]any)
		switch {
		case parts != nil && slices.Contains(mapsOfSchemas, k):
			for name, part := range parts {
				var w bool
				if k == "patternProperties" && !isPattern(name) {
					delete(parts, name)
					removed = r.remove(of + text.Pointer(name))
				} else if parts[name], w = r.schema(of+text.Pointer(name), part); w {
					inside = true
				}
			}
		case list != nil && slices.Contains(listsOfSchemas, k):
			for i, part := range list {
				var w bool
				if list[i], w = r.schema(of+"/"+strconv.Itoa(i), part); w {
					inside = true
				}
			}
		case list == nil && slices.Contains(schemaKeywords, k):
			m[k], inside = r.schema(of, m[k])
		case r.isUnusable(of, k, m[k]):
			delete(m, k)
			removed = r.remove(of)
		case k == "$ref" || k == "$dynamicRef":
			inside = r.strict
		}
		if wider = wider || inside || removed; inside {
			r.widen(m, k)
		}
	}
	if wider { // these apply to what the other keywords do not
		delete(m, "unevaluatedProperties")
		delete(m, "unevaluatedItems")
	}
	if removed {
		delete(m, "additionalProperties")
		delete(m, "additionalItems")
	}
	return value, wider
}

// widen changes a keyword that accepts less if a schema inside it accepts more.
func (r *repair) widen(m map[string]any, k string) {
	switch k {
	case "not", "if", "contains":
		delete(m, k)
	case "oneOf":
		if m["anyOf"] == nil {
			m["anyOf"] = m[k]
		}
		delete(m, k)
	}
}

func (r *repair) remove(at string) bool {
	if !slices.Contains(r.unusable, at) {
		r.unusable = append(r.unusable, at)
	}
	return true
}

// isUnusable reports whether a keyword without schemas in its value cannot be compiled.
func (r *repair) isUnusable(at, k string, value any) bool {
	source, isText := value.(string)
	switch {
	case isText && k == "pattern":
		return !isPattern(source)
	case isText && k == "$schema":
		return !strings.Contains(source, "://json-schema.org/")
	case isText && (k == "$ref" || k == "$dynamicRef"):
		pointer, isLocal := strings.CutPrefix(source, "#")
		return !isLocal || (pointer == "" || pointer[0] == '/') && !r.resolves(pointer)
	}
	return slices.ContainsFunc(r.invalid, func(p string) bool { return p == at || strings.HasPrefix(p, at+"/") })
}

// resolves reports whether a JSON Pointer leads to a value of the schema.
func (r *repair) resolves(pointer string) bool {
	value := r.root
	for token := range jsontext.Pointer(pointer).Tokens() {
		switch parent := value.(type) {
		case map[string]any:
			value = parent[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(parent) {
				return false
			}
			value = parent[i]
		default:
			return false
		}
	}
	return value != nil
}

func isPattern(source string) bool {
	_, err := regexp.Compile(source)
	return err == nil
}
