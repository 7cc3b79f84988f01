package wire

// AppendUnicodeEscape appends the JSON escape \uXXXX of a UTF-16 code unit.
func AppendUnicodeEscape(dst []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[r>>12&0xf], hex[r>>8&0xf], hex[r>>4&0xf], hex[r&0xf])
}
