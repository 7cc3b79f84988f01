package text

import (
	"strings"
	"unicode/utf8"
)

// Sentence makes a description a sentence.
func Sentence(description string) string {
	if description == "" {
		return ""
	}
	return strings.ToUpper(description[:1]) + description[1:] + "."
}

// MaxQuoted is how many bytes of a value from outside an error message repeats.
const MaxQuoted = 100

// Cut returns the beginning of a text that is longer than limit bytes, up to a character boundary.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}
