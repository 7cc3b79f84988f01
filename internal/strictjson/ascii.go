package strictjson

import (
	"unicode/utf16"
	"unicode/utf8"
)

// AppendASCII appends JSON with all characters beyond ASCII escaped, which HTTP headers may not preserve.
func AppendASCII(dst, text []byte) []byte {
	for _, r := range string(text) {
		switch {
		case r < utf8.RuneSelf:
			dst = append(dst, byte(r))
		case r <= 0xffff:
			dst = appendUnicodeEscape(dst, r)
		default:
			high, low := utf16.EncodeRune(r)
			dst = appendUnicodeEscape(appendUnicodeEscape(dst, high), low)
		}
	}
	return dst
}

// appendUnicodeEscape appends the JSON escape \uXXXX of a UTF-16 code unit.
func appendUnicodeEscape(dst []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[r>>12&0xf], hex[r>>8&0xf], hex[r>>4&0xf], hex[r&0xf])
}
