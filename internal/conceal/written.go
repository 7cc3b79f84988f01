package conceal

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// named are the characters that HTML has names for and JSON has short escapes for.
var (
	named = map[string]rune{"amp": '&', "lt": '<', "gt": '>', "quot": '"', "apos": '\''}
	short = map[byte]rune{'/': '/', '"': '"', '\\': '\\', 't': '\t', 'n': '\n', 'r': '\r', 'b': '\b', 'f': '\f'}
)

// maxEntity is how long an HTML character reference is that is looked at, in bytes.
const maxEntity = len("&#x0010ffff;")

// afterPlain returns where the character ends that is written at i as it is, -1 if
// it is another one.
func afterPlain(text string, i int, c rune) int {
	r, size := utf8.DecodeRuneInString(text[i:])
	if size == 0 || r != c {
		return -1
	}
	return i + size
}

// afterEscaped is afterPlain for a character that is escaped in some way.
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

// afterJSON is afterEscaped for an escape of JSON.
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

// unitAt returns the \uXXXX at i, and where it ends; -1 if there is none.
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

// afterPercent is afterEscaped for percent-encoding, of each byte.
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

// afterEntity is afterEscaped for a character reference of HTML.
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
