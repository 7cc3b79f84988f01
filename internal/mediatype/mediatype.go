// Package mediatype classifies media types.
//
// Base removes the parameters of a Content-Type. The other functions take its result. Whatever
// the gateway reads, sends or records is JSON, text or binary by the rules of this package, so
// that all protocols treat a response alike.
package mediatype

import "strings"

// Base returns a media type in lower case, without its parameters.
func Base(contentType string) string {
	if semicolon := strings.IndexByte(contentType, ';'); semicolon >= 0 {
		contentType = contentType[:semicolon]
	}
	return strings.ToLower(strings.TrimSpace(contentType))
}

// IsJSON reports whether content of the media type is a single JSON value. Streams of JSON values
// are text.
func IsJSON(base string) bool {
	return strings.HasSuffix(base, "/json") || strings.HasSuffix(base, "+json")
}

// IsText reports whether content of the media type is text other than JSON. This includes SVG.
func IsText(base string) bool {
	if strings.HasPrefix(base, "text/") {
		return base != "text/json"
	}
	if strings.HasSuffix(base, "+xml") || strings.HasSuffix(base, "+yaml") {
		return true
	}
	subtype, ok := strings.CutPrefix(base, "application/")
	if !ok {
		return false
	}
	switch subtype {
	case "xml", "yaml", "x-yaml", "toml", "javascript", "x-javascript", "graphql", "sql", "jwt",
		"sparql-query", "sparql-update", "x-www-form-urlencoded", "x-ndjson", "ndjson", "jsonl",
		"json-seq", "problem":
		return true
	}
	return false
}
