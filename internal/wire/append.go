package wire

import (
	"encoding/binary"
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
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, s[i])
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

// leadingPlain returns the number of leading bytes of s that need no escape in a JSON string.
// In JSON inside a string the next escape is usually near, so the first bytes are checked one
// by one. In prose it is usually far, so further bytes are checked eight at a time.
func leadingPlain(s []byte) int {
	const near = 16
	n := 0
	for n < len(s) && plain[s[n]] {
		if n++; n == near {
			n += plainWords(s[n:])
		}
	}
	return n
}

// plainWords returns the number of leading bytes of s that are in eight-byte words without
// special bytes. Each term of special sets the highest bit of a byte that needs an escape. A
// borrow can also set the bits of other bytes, which is harmless, since the word is then
// checked byte by byte.
func plainWords(s []byte) int {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(s)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64(s[n:])
		quote, backslash, del := w^(ones*'"'), w^(ones*'\\'), w^(ones*0x7f)
		special := w | (w-ones*' ')&^w |
			(quote-ones)&^quote | (backslash-ones)&^backslash | (del-ones)&^del
		if special&highest != 0 {
			break
		}
	}
	return n
}

// plain has true for the bytes that need no escape inside a JSON string.
var plain = func() (table [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

// appendEscape appends the JSON escape of one byte.
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
