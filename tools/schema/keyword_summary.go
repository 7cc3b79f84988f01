package schema

import (
	"bytes"
	"slices"

	"github.com/fairwayhq/fairway/tools/openapi"
)

// A keywordSummary is what must be known about a schema before its first keyword is written.
type keywordSummary struct {
	ref         *openapi.Node
	description *openapi.Node
	types       []string // valid type names, in document order
	file        bool     // type file of Swagger 2.0, or format binary or byte
	nullable    bool
	combined    bool // has keywords that may reject null, whatever type allows
	allOf       bool // has an allOf with at least one schema
	anyOf       bool
	encoded     bool // has a contentEncoding
	examples    bool
	siblings    int // number of keywords beside $ref, except the description

	exclusiveMinimum bool // exclusiveMinimum is true: minimum is exclusive
	exclusiveMaximum bool
	contains         bool

	required  *openapi.Node // the names
	patterns  *openapi.Node // patternProperties
	items     bool          // items has been written
	plainNull bool          // a type is null without quotes

	lost bool       // a type was left out, so the output accepts more
	lead *component // a $ref to move into allOf
}

// The JSON types in the order of output.
var jsonTypes = [...]string{"object", "array", "string", "integer", "number", "boolean", "null"}

// survey inspects all keywords of p once.
func survey(p openapi.Place) keywordSummary {
	k := keywordSummary{siblings: 0}
	intOrString := false
	for _, m := range p.Members() {
		switch m.Name {
		case "$ref":
			if isRef(m.Value) {
				k.ref = m.Value
			}
			continue
		case "description":
			if m.Value.Kind() == '"' {
				k.description = m.Value
			}
			continue
		case "summary", "discriminator", "xml", "externalDocs", "$id", "$schema", "$anchor", "$dynamicAnchor", "$comment", "$defs", "definitions":
			continue
		case "nullable":
			k.nullable = m.Value.True()
			continue
		case "type":
			k.readTypes(m.Value)
		case "format":
			switch string(plainText(m.Value)) {
			case "binary", "byte":
				k.file = true
			case formatIntOrString:
				intOrString = true
			}
		case "contentEncoding":
			k.encoded = m.Value.Kind() == '"'
		case "allOf":
			k.allOf = len(m.Value.Items()) > 0
			k.combined = k.combined || k.allOf
		case "anyOf":
			k.anyOf = len(m.Value.Items()) > 0
			k.combined = k.combined || k.anyOf
		case "oneOf":
			k.combined = k.combined || len(m.Value.Items()) > 0
		case "not", "const", "if":
			k.combined = true
		case "required":
			k.required = m.Value
		case "patternProperties":
			k.patterns = m.Value
		case "examples":
			k.examples = len(m.Value.Items()) > 0
		case "contains":
			k.contains = isSchema(m.Value)
		case "exclusiveMinimum":
			k.exclusiveMinimum = m.Value.True()
		case "exclusiveMaximum":
			k.exclusiveMaximum = m.Value.True()
		default:
			if len(m.Name) > 1 && m.Name[0] == 'x' && m.Name[1] == '-' {
				k.nullable = k.nullable || m.Name == "x-nullable" && m.Value.True()
				intOrString = intOrString || m.Name == "x-kubernetes-"+formatIntOrString && m.Value.True()
				continue
			}
		}
		k.siblings++
	}
	if k.ref == nil && intOrString {
		k.types = []string{"integer", "string"}
	}
	return k
}

// readTypes reads the keyword type and keeps valid names without duplicates.
func (k *keywordSummary) readTypes(n *openapi.Node) {
	switch n.Kind() {
	case '"':
		k.addType(plainText(n))
	case '[':
		for _, item := range n.Items() {
			k.addType(typeName(item))
			k.plainNull = k.plainNull || item.Kind() == 'n'
		}
		if len(k.types) < len(n.Items()) {
			k.lost = true
		}
	default:
		k.lost = true
	}
}

func (k *keywordSummary) addType(name []byte) {
	if string(name) == "file" {
		k.file, name = true, []byte("string")
	}
	i := slices.Index(jsonTypes[:], string(name))
	switch {
	case i < 0:
		k.lost = k.lost || string(name) != "any"
	case k.types == nil:
		k.types = jsonTypes[i : i+1 : i+1] // the usual case does not allocate
	case !slices.Contains(k.types, jsonTypes[i]):
		k.types = append(k.types, jsonTypes[i])
	}
}

// typeName returns the name of a type in a list. YAML reads null without quotes as null.
func typeName(n *openapi.Node) []byte {
	if n.Kind() == 'n' {
		return n.Raw()
	}
	return plainText(n)
}

// isNullAlternative reports whether an alternative is {"type":null}, which YAML authors write for {"type":"null"}. In
// another place it more often means that the type is left out.
func isNullAlternative(n *openapi.Node) bool {
	return n.Get("type") != nil && string(typeName(n.Get("type"))) == "null" && len(n.Members()) == 1
}

// plainText returns the text of a string, without an allocation if possible.
func plainText(n *openapi.Node) []byte {
	raw := n.Raw()
	switch {
	case n.Kind() != '"':
		return nil
	case bytes.IndexByte(raw, '\\') < 0:
		return raw[1 : len(raw)-1]
	}
	return []byte(n.Text())
}

func isSchema(n *openapi.Node) bool {
	switch n.Kind() {
	case '{', 't', 'f':
		return true
	}
	return false
}
