package schema

import (
	"slices"

	"github.com/fairwayhq/fairway/tools/openapi"
)

// typeSet is a set of JSON types, in the order of jsonTypes.
type typeSet uint8

const (
	objectType typeSet = 1 << iota
	arrayType
	stringType
	integerType
	numberType
	booleanType
	nullType
	anyType = 1<<iota - 1
)

// maxTypeLook is the maximum number of schemas to inspect for the types of one.
const maxTypeLook = 128

// Types returns the JSON types that a schema allows, in the order object, array, string,
// integer, number, boolean, null. It returns nil if they are unknown. If the keyword type
// is missing, the types are inferred from the other keywords. The caller must not change
// the list.
func Types(place openapi.Place) []string {
	look := typeInference{left: maxTypeLook}
	set := look.types(place, 0)
	return typeLists[set]
}

// typeLists has the type names for each set of types, and nil for sets without information.
var typeLists = func() (lists [anyType + 1][]string) {
	for set := typeSet(1); set < anyType; set++ {
		for i, name := range jsonTypes {
			if set&(1<<i) != 0 {
				lists[set] = append(lists[set], name)
			}
		}
		lists[set] = slices.Clip(lists[set])
	}
	return lists
}()

// typeInference infers types. It inspects a limited number of schemas.
type typeInference struct {
	left int
}

// types returns the types that p allows, or anyType if they are unknown.
func (l *typeInference) types(p openapi.Place, steps int) typeSet {
	if l.left--; l.left < 0 || steps > maxSteps || p.Kind() != '{' {
		return anyType
	}
	if p.Ref() != "" {
		to, _, err := p.Follow()
		if err != nil {
			return anyType
		}
		set := l.types(to, steps+1)
		if isNullable(p) && set != anyType {
			set |= nullType
		}
		return set & l.stated(p, steps)
	}
	return l.stated(p, steps)
}

// stated returns the types that the keywords of p other than $ref allow.
func (l *typeInference) stated(p openapi.Place, steps int) typeSet {
	set := statedTypes(p.Get("type"))
	switch {
	case isIntOrString(p):
		set = stringType | integerType
	case set == anyType:
		set = l.implied(p)
	}
	for _, keyword := range [...]string{"anyOf", "oneOf"} {
		arms := p.At(keyword)
		var union typeSet
		for _, arm := range arms.Items() {
			if isNullAlternative(arm) {
				union |= nullType
				continue
			}
			union |= l.types(arms.Item(arm), steps+1)
		}
		if union != 0 {
			set = meet(set, union)
		}
	}
	parts := p.At("allOf")
	for _, part := range parts.Items() {
		set = meet(set, l.types(parts.Item(part), steps+1))
	}
	if isNullable(p) && set != anyType {
		set |= nullType
	}
	return set
}

// meet returns the types in both sets. An integer counts as a number. An empty result is
// of no use, so schemas that contradict each other are treated as unknown.
func meet(a, b typeSet) typeSet {
	both := a & b
	if a&numberType != 0 && b&integerType != 0 || b&numberType != 0 && a&integerType != 0 {
		both |= integerType
	}
	if both&numberType != 0 && a != anyType && b != anyType {
		both &^= integerType
	}
	if both == 0 {
		return anyType
	}
	return both
}

func statedTypes(n *openapi.Node) typeSet {
	var set typeSet
	if n.Kind() == '"' {
		set = typeOf(plainText(n))
	}
	for _, item := range n.Items() {
		set |= typeOf(typeName(item))
	}
	if set == 0 {
		return anyType
	}
	return set
}

func typeOf(name []byte) typeSet {
	if string(name) == "file" {
		return stringType
	}
	for i, known := range jsonTypes {
		if known == string(name) {
			return 1 << i
		}
	}
	return 0
}

// implied returns the types that the keywords of p apply to.
func (l *typeInference) implied(p openapi.Place) typeSet {
	var values, about typeSet
	for _, m := range p.Members() {
		switch m.Name {
		case "const":
			values |= typeOfValue(m.Value)
		case "enum":
			for _, item := range m.Value.Items() {
				values |= typeOfValue(item)
			}
		case "properties", "additionalProperties", "required", "patternProperties", "propertyNames", "minProperties", "maxProperties":
			if k := m.Value.Kind(); k != 't' && k != 'f' || m.Name == "additionalProperties" {
				about |= objectType
			}
		case "items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains":
			about |= arrayType
		case "pattern", "minLength", "maxLength", "contentEncoding":
			about |= stringType
		case "minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum":
			about |= numberType
		}
	}
	switch {
	case values != 0:
		if values&numberType != 0 {
			values &^= integerType
		}
		return values
	case about != 0:
		return about
	}
	return anyType
}

func typeOfValue(n *openapi.Node) typeSet {
	switch n.Kind() {
	case '{':
		return objectType
	case '[':
		return arrayType
	case '"':
		return stringType
	case '0':
		if isDigits(string(n.Raw())) || len(n.Raw()) > 1 && isDigits(string(n.Raw()[1:])) && n.Raw()[0] == '-' {
			return integerType
		}
		return numberType
	case 't', 'f':
		return booleanType
	case 'n':
		return nullType
	}
	return 0
}

func isNullable(p openapi.Place) bool {
	return p.Get("nullable").True() || p.Get("x-nullable").True()
}

// formatIntOrString is the format of values that Kubernetes accepts as an integer or a string, whatever type says.
const formatIntOrString = "int-or-string"

func isIntOrString(p openapi.Place) bool {
	return p.Get("x-kubernetes-"+formatIntOrString).True() || string(plainText(p.Get("format"))) == formatIntOrString
}
