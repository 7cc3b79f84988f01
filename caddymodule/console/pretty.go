package console

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// indentedSize limits what indentation makes of JSON: this many times its size, plus indentedExtra bytes.
// Without a limit, deeply nested JSON of an API or an agent becomes gigabytes.
const (
	indentedSize  = 16
	indentedExtra = 1 << 10
)

// pretty returns JSON with indentation. It returns other texts as they are, and JSON that would become too
// large.
func pretty(value any) string {
	var text []byte
	switch v := value.(type) {
	case jsontext.Value:
		text = v
	case []byte:
		text = v
	case string:
		text = []byte(v)
	}
	indented := jsontext.Value(bytes.Clone(text))
	if indentedBytes(text) > indentedSize*len(text)+indentedExtra || indented.Indent(jsontext.WithIndent("  ")) != nil {
		return string(text)
	}
	return string(indented)
}

// indentedBytes returns the size of JSON with indentation, or more. If the text is no JSON, the number
// means nothing.
func indentedBytes(text []byte) int {
	size, depth, inString := len(text), 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString:
			if c == '\\' {
				i++
			}
			inString = c != '"'
		case c == '"':
			inString = true
		case c == '[' || c == '{':
			depth++
			size += 1 + 2*depth
		case c == ']' || c == '}':
			depth--
			size += 1 + 2*depth
		case c == ',':
			size += 1 + 2*depth
		case c == ':':
			size++
		}
	}
	return size
}
