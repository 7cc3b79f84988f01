package text

import (
	"strings"
)

// Sentence makes a description a sentence.
func Sentence(description string) string {
	if description == "" {
		return ""
	}
	return strings.ToUpper(description[:1]) + description[1:] + "."
}

// Cut returns the beginning of a text that is too long.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return text[:limit] + "…"
}
