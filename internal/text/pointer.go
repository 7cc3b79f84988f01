package text

import "strings"

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
