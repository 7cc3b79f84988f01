package wire

import "unicode/utf8"

const hex = "0123456789abcdef"

// plain tells which ASCII bytes stand for themselves inside a JSON string.
var plain = func() (table [utf8.RuneSelf]bool) {
	for c := range table {
		table[c] = c >= ' ' && c != '"' && c != '\\' && c != 0x7f
	}
	return table
}()

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD, and the line separators U+2028 and U+2029, which end a line in
// JavaScript source and in some event-stream readers, are escaped.
func AppendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if plain[c] {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
			continue
		}
		r, size := decodeRune(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\ufffd"...)
			start = i + 1
		case r == '\u2028' || r == '\u2029':
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hex[r&0xf])
			start = i + size
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
}

// decodeRune decodes the first rune of s without converting all of it.
func decodeRune[T string | []byte](s T) (rune, int) {
	var head [utf8.UTFMax]byte
	return utf8.DecodeRune(head[:copy(head[:], s)])
}
