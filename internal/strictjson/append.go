package strictjson

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

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
			var n int
			if dst, n = appendWords(append(dst, s[start:i]...), s[i:]); n == 0 {
				dst, n = appendEscape(dst, s[i]), 1
			}
			i += n
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

// appendWords appends s up to a byte that is not ASCII, the last 7 bytes, or the end of the room in
// dst, and returns how many bytes of s it has appended.
//
// In JSON that becomes a string, about every fourth byte is a quote. Words of 8 bytes are therefore
// copied whole, and for each quote and backslash in one, the rest is copied again, one byte further.
// So the position in s does not depend on the quotes, and the processor works on several words at once.
func appendWords(dst, s []byte) (b []byte, n int) {
	const (
		word = 8
		most = 3 * word // the bytes of a word, an escape for each, and the last copy goes beyond both
		ones = 0x0101010101010101
	)
	for len(s)-n >= word && cap(dst)-len(dst) >= most {
		w, size := binary.LittleEndian.Uint64(s[n:]), word
		escaped := equalBytes(w, ones*'"') | equalBytes(w, ones*'\\')
		special := notPrintable(w)
		if special != 0 {
			size = bits.TrailingZeros64(special) / 8
			escaped &= 1<<(8*size) - 1
		}
		end := len(dst)
		out := dst[end : end+most]
		binary.LittleEndian.PutUint64(out, w)
		end += size
		for ; escaped != 0; escaped &= escaped - 1 {
			at := bits.TrailingZeros64(escaped) &^ 7
			out[at/8] = '\\'
			out = out[1:]
			binary.LittleEndian.PutUint64(out[at/8:], w>>at)
			end++
		}
		dst = dst[:end]
		n += size
		if special != 0 {
			if s[n] >= utf8.RuneSelf {
				break
			}
			dst = appendEscape(dst, s[n])
			n++
		}
	}
	return dst, n
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
	for _, s := range list {
		dst = AppendString(Comma(dst), s)
	}
	return append(dst, ']')
}

// Comma appends the comma before a further element or member. It appends none at the start of dst
// and after an opening bracket.
func Comma(dst []byte) []byte {
	if len(dst) == 0 || dst[len(dst)-1] == '[' || dst[len(dst)-1] == '{' {
		return dst
	}
	return append(dst, ',')
}
