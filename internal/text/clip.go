package text

import "strings"

// Clip shortens s to at most limit bytes, ending it with an ellipsis. It does not cut a
// character in two.
func Clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-len("…")], "") + "…"
}

// Pointer returns the JSON Pointer (RFC 6901) of the tokens.
func Pointer(tokens ...string) string {
	var p strings.Builder
	for _, token := range tokens {
		p.WriteByte('/')
		p.WriteString(pointerEscaper.Replace(token))
	}
	return p.String()
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")
