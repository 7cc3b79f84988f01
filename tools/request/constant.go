package request

import (
	"fmt"
	"strings"
)

// EscapePath escapes characters that are not valid in a path and keeps existing
// escapes.
func EscapePath(path string) string {
	return escapeExcept(path, "-._~!$&'()*+,;=:@/%")
}

// ConstantQuery returns a query that is part of a path in the document, as it is sent, and its pairs. A "%"
// that is not an escape and a ";" are text.
func ConstantQuery(query string) (escaped string, pairs []Pair) {
	const allowed = "-._~!$'()*+,:@/?%=&"
	escaped = escapeExcept(query, allowed)
	pairs, err := ParsePairs(nil, Query, escaped)
	if err != nil {
		escaped = escapeExcept(strings.ReplaceAll(query, "%", "%25"), allowed)
		pairs, _ = ParsePairs(nil, Query, escaped)
	}
	return escaped, pairs
}

// escapeExcept percent-encodes everything except ASCII letters, digits and the allowed
// characters.
func escapeExcept(text, allowed string) string {
	var escaped strings.Builder
	for i := range len(text) {
		c := text[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(allowed, c) >= 0 {
			escaped.WriteByte(c)
		} else {
			fmt.Fprintf(&escaped, "%%%02X", c)
		}
	}
	return escaped.String()
}
