package text

import (
	"strings"
	"unicode"
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

// BytesPerToken is the average size of a token of a model in English JSON.
const BytesPerToken = 4

// Cut shortens a text to at most limit bytes and ends it with an ellipsis. It does not cut a
// character in two. If the limit has no room for the ellipsis, Cut returns "".
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit - len("…")
	if end < 0 {
		return ""
	}
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// HasControl reports whether a text has a control character.
func HasControl(text string) bool {
	return strings.ContainsFunc(text, unicode.IsControl)
}
