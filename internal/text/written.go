package text

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Characters with a name in HTML, and characters with a short escape in JSON.
var (
	named = map[string]rune{"amp": '&', "lt": '<', "gt": '>', "quot": '"', "apos": '\''}
	short = map[byte]rune{'/': '/', '"': '"', '\\': '\\', 't': '\t', 'n': '\n', 'r': '\r', 'b': '\b', 'f': '\f'}
)

// maxEntity is the maximum length of an HTML character reference, in bytes.
const maxEntity = len("&#x0010ffff;")

// afterPlain returns the end of the character c if it is at i without an escape, else -1.
func afterPlain(text string, i int, c rune) int {
	r, size := utf8.DecodeRuneInString(text[i:])
	if size == 0 || r != c {
		return -1
	}
	return i + size
}

// afterEscaped returns the end of the character c if it is at i in any escaped form, else -1.
func afterEscaped(text string, i int, c rune) int {
	if i >= len(text) {
		return -1
	}
	switch text[i] {
	case '\\':
		return afterJSON(text, i, c)
	case '%':
		return afterPercent(text, i, c)
	case '&':
		return afterEntity(text, i, c)
	case '+':
		if c == ' ' {
			return i + 1
		}
	}
	return -1
}

// afterJSON is afterEscaped for JSON escapes.
func afterJSON(text string, i int, c rune) int {
	if i+1 < len(text) && text[i+1] != 'u' {
		if short[text[i+1]] == c {
			return i + 2
		}
		return -1
	}
	unit, end := unitAt(text, i)
	if end < 0 || unit == c {
		return end
	}
	const high, low, plane = 0xd800, 0xdc00, 0x10000 // of a pair of surrogates
	if second, last := unitAt(text, end); last > 0 && c >= plane && (unit-high)<<10+(second-low)+plane == c {
		return last
	}
	return -1
}

// unitAt returns the UTF-16 code unit of the \uXXXX at i, and its end. The end is -1 if there
// is none.
func unitAt(text string, i int) (unit rune, end int) {
	const size = len(`\u0000`)
	if i < 0 || !strings.HasPrefix(text[i:], `\u`) || len(text) < i+size {
		return 0, -1
	}
	n, err := strconv.ParseUint(text[i+2:i+size], 16, 16)
	if err != nil {
		return 0, -1
	}
	return rune(n), i + size
}

// afterPercent is afterEscaped for percent-encoding, in which each byte of the character is
// escaped.
func afterPercent(text string, i int, c rune) int {
	const size = len("%00")
	for _, want := range utf8.AppendRune(nil, c) {
		if len(text) < i+size || text[i] != '%' {
			return -1
		}
		if n, err := strconv.ParseUint(text[i+1:i+size], 16, 8); err != nil || byte(n) != want {
			return -1
		}
		i += size
	}
	return i
}

// afterEntity is afterEscaped for HTML character references.
func afterEntity(text string, i int, c rune) int {
	end := strings.IndexByte(text[i:min(len(text), i+maxEntity)], ';')
	if end < 0 {
		return -1
	}
	name, end := text[i+1:i+end], i+end+1
	if number, ok := strings.CutPrefix(name, "#"); ok {
		base := 10
		if hex := strings.TrimLeft(number, "xX"); hex != number {
			number, base = hex, 16
		}
		if n, err := strconv.ParseInt(number, base, 32); err != nil || rune(n) != c {
			return -1
		}
		return end
	}
	if named[name] != c || c == 0 {
		return -1
	}
	return end
}
