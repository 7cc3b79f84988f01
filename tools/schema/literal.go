package schema

import (
	"bytes"
	"math/big"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/openapi"
)

// A document gives values in enum, const, default and examples. YAML easily makes them values of another scalar type
// than the schema's, as in {type: string, default: 1.10}. literal and literalOf convert all of them by one rule.

// literal returns the JSON of a value. If the types allow only one type, null aside, a scalar that has another one is
// converted to it: to a string as the document writes it.
func literal(n *openapi.Node, types []string) jsontext.Value {
	switch n.Kind() {
	case 0, '{', '[':
		return n.AppendJSON(nil)
	case 'n':
		return n.Raw()
	}
	if len(types) == 0 || n.Kind() == '"' && types[0] == "string" {
		return n.Raw()
	}
	only := types[0]
	switch {
	case len(types) == 2 && only == "null":
		only = types[1]
	case len(types) > 2 || len(types) == 2 && types[1] != "null":
		only = ""
	}
	switch kind, text := n.Kind(), n.Text(); {
	case only == "string" && (kind == '0' || kind == 't' || kind == 'f'):
		return strictjson.AppendString(nil, n.Source())
	case only == "integer" && isNumberText(text) && !strings.Contains(text, "."), only == "number" && isNumberText(text),
		only == "boolean" && (text == "true" || text == "false"):
		return jsontext.Value(text)
	}
	return n.Raw()
}

// literalOf returns the JSON of a value for the schema at place: literal for the value, the items of a list and the
// properties of an object.
func literalOf(n *openapi.Node, place openapi.Place) jsontext.Value {
	switch n.Kind() {
	case '[':
		items := first(place, func(p openapi.Place) (openapi.Place, bool) { return p.At("items"), p.Get("items") != nil })
		list := jsontext.Value("[")
		for _, item := range n.Items() {
			list = append(strictjson.Comma(list), literalOf(item, items)...)
		}
		return append(list, ']')
	case '{':
		var object strictjson.ObjectBuilder
		for _, m := range n.Members() {
			property := first(place, func(p openapi.Place) (openapi.Place, bool) {
				own := p.At("properties").At(m.Name)
				return own, own.Node != nil
			})
			object.Add(m.Name, literalOf(m.Value, property))
		}
		return object.Close()
	}
	if place.Node == nil {
		return n.AppendJSON(nil)
	}
	return literal(n, Types(place))
}

// enumValues returns the values of an enum, each once, without those that the types exclude. It is empty if no value
// would be left.
func enumValues(n *openapi.Node, types []string, nullable bool) (values []jsontext.Value) {
	const few = 16 // values that are compared one by one
	var seen map[string]bool
	if len(n.Items()) > few {
		seen = make(map[string]bool, len(n.Items()))
	}
	for _, item := range n.Items() {
		value := literal(item, types)
		if !AllowsValue(types, value) && (!nullable || value.Kind() != 'n') {
			continue
		}
		if seen == nil {
			if slices.ContainsFunc(values, func(v jsontext.Value) bool { return isEqual(v, value) }) {
				continue
			}
		} else if key := equalityKey(value); seen[key] {
			continue
		} else {
			seen[key] = true
		}
		values = append(values, value)
	}
	return values
}

// AllowsValue reports whether a value has one of the types. No types allow any value.
func AllowsValue(types []string, value jsontext.Value) bool {
	if len(types) == 0 {
		return true
	}
	name := strictjson.KindName(value.Kind()) // "a string", or "null"
	name = name[strings.IndexByte(name, ' ')+1:]
	return slices.Contains(types, name) || name == "number" && slices.Contains(types, "integer")
}

// isEqual reports whether JSON Schema takes two values as equal.
func isEqual(a, b jsontext.Value) bool {
	return bytes.Equal(a, b) || a.Kind() == b.Kind() && (a.Kind() != '"' || slices.Contains(a, '\\') || slices.Contains(b, '\\')) && equalityKey(a) == equalityKey(b)
}

// equalityKey returns a text that is the same for values that JSON Schema takes as equal: 1 and 1.0, for example.
func equalityKey(value jsontext.Value) string {
	switch kind := value.Kind(); {
	case kind == '"' && slices.Contains(value, '\\'):
		return string(strictjson.AppendString(nil, strictjson.Text(value)))
	case kind == '0' && strings.ContainsAny(string(value), ".eE-") && isBounded(string(value)):
		if number, ok := new(big.Rat).SetString(string(value)); ok {
			return number.RatString()
		}
	case kind == '{' || kind == '[':
		canonical := value.Clone()
		if canonical.Canonicalize() == nil {
			return string(canonical)
		}
	}
	return string(value)
}

// defaultOf returns the value of the default n for the schema at place. Outside means that the enum of the schema does
// not have it: then it has no effect.
func defaultOf(n *openapi.Node, place openapi.Place) (value jsontext.Value, outside bool) {
	value = literalOf(n, place)
	enum := first(place, func(p openapi.Place) (*openapi.Node, bool) { return p.Get("enum"), len(p.Get("enum").Items()) > 0 })
	if enum == nil {
		return value, false
	}
	types := Types(place)
	isSame := func(item *openapi.Node) bool { return isEqual(literal(item, types), value) }
	return value, !slices.ContainsFunc(enum.Items(), isSame) && (value.Kind() != 'n' || !slices.Contains(types, "null"))
}
