package yamltree

import (
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// AppendJSON appends the JSON for a node that Parse has returned without Options.Aliases. The keys of a mapping must be
// different strings.
func AppendJSON(dst []byte, n *yaml.Node) ([]byte, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return append(dst, ScalarJSON(n)...), nil
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for _, item := range n.Content {
			dst = strictjson.Comma(dst)
			var err error
			if dst, err = AppendJSON(dst, item); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case yaml.MappingNode:
		return appendMapping(dst, n)
	}
	return nil, At(n, fmt.Errorf("%s is not supported here", Describe(n)))
}

func appendMapping(dst []byte, n *yaml.Node) ([]byte, error) {
	dst = append(dst, '{')
	seen := make(Keys)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if err := seen.Add(key); err != nil {
			return nil, At(key, err)
		}
		dst = append(strictjson.AppendString(strictjson.Comma(dst), key.Value), ':')
		var err error
		if dst, err = AppendJSON(dst, n.Content[i+1]); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// ScalarJSON returns the JSON for a scalar. Dates and values with other tags stay strings, numbers are written in JSON
// syntax, and numbers that JSON cannot represent become null.
func ScalarJSON(n *yaml.Node) jsontext.Value {
	switch n.ShortTag() {
	case "!!null":
		return jsontext.Value("null")
	case "!!bool":
		var value bool
		if n.Decode(&value) != nil {
			break
		}
		return strconv.AppendBool(nil, value)
	case "!!int", "!!float":
		if isJSONNumber(n.Value) {
			return jsontext.Value(n.Value)
		}
		var value any
		if n.Decode(&value) != nil {
			break
		}
		return numberJSON(value, n.Value)
	}
	return strictjson.AppendString(nil, n.Value)
}

func isJSONNumber(s string) bool {
	v := jsontext.Value(s)
	return v.Kind() == '0' && v.IsValid() && s[len(s)-1] != ' '
}

func numberJSON(value any, source string) jsontext.Value {
	switch v := value.(type) {
	case int:
		return strconv.AppendInt(nil, int64(v), 10)
	case int64:
		return strconv.AppendInt(nil, v, 10)
	case uint64:
		return strconv.AppendUint(nil, v, 10)
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return jsontext.Value("null")
		}
		return strconv.AppendFloat(nil, v, 'g', -1, 64)
	}
	return strictjson.AppendString(nil, source)
}
