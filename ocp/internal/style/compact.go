package style

import (
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// appendCompact appends valid JSON without the space between tokens. Numbers, strings
// and the order of members stay unchanged. If ascii is set, non-ASCII characters become
// \u escapes, so that the text can be used in a header.
func appendCompact(dst []byte, value jsontext.Value, ascii bool) []byte {
	quoted := false
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch {
		case ascii && c >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(value[i:])
			dst = appendUnicodeEscape(dst, r)
			i += size - 1
			continue
		case !quoted && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			continue
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\' && i+1 < len(value):
			dst = append(dst, c)
			i++
			c = value[i]
		}
		dst = append(dst, c)
	}
	return dst
}

func appendUnicodeEscape(dst []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		return appendUnicodeEscape(appendUnicodeEscape(dst, high), low)
	}
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[r>>12&0xf], hex[r>>8&0xf], hex[r>>4&0xf], hex[r&0xf])
}
