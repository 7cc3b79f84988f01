package wire

import "unicode/utf8"

const hex = "0123456789abcdef"

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD. U+2028 and
// U+2029 are escaped, because JavaScript source and some event-stream readers treat them as
// ends of lines.
func AppendString[T string | []byte](dst []byte, s T) []byte {
	return appendQuoted(dst, []byte(s))
}

// appendQuoted appends s in quotes and escapes the characters that JSON requires.
func appendQuoted(dst, s []byte) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		if i += leadingPlain(s[i:]); i == len(s) {
			break
		}
		if s[i] < utf8.RuneSelf {
			dst = appendEscape(appendPart(dst, s, start, i), s[i])
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRune(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\ufffd"...)
			start = i + 1
		case isLineEnd(r):
			dst = append(dst, s[start:i]...)
			dst = appendLineEnd(dst, r)
			start = i + size
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendPart appends s[from:to]. In JSON that becomes a string, the parts between two quotes are
// short, and copying 16 bytes at once is faster than copying the exact number.
func appendPart(dst, s []byte, from, to int) []byte {
	const most = 16
	end := len(dst)
	if to-from > most || len(s)-from < most || cap(dst)-end < most {
		return append(dst, s[from:to]...)
	}
	dst = dst[:end+most]
	*(*[most]byte)(dst[end:]) = [most]byte(s[from:])
	return dst[:end+to-from]
}

// isLineEnd reports whether r is U+2028 or U+2029.
func isLineEnd(r rune) bool {
	return r == '\u2028' || r == '\u2029'
}

// appendLineEnd appends the JSON escape of U+2028 or U+2029.
func appendLineEnd(dst []byte, r rune) []byte {
	return append(append(dst, `\u202`...), hex[r&0xf])
}

// AppendStrings appends an array of strings.
func AppendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, s)
	}
	return append(dst, ']')
}
