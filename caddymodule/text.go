package caddymodule

import (
	"strings"
)

// sentence makes a description one.
func sentence(description string) string {
	if description == "" {
		return ""
	}
	return strings.ToUpper(description[:1]) + description[1:] + "."
}

// cutText returns the beginning of a text that is too long.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return text[:limit] + "…"
}
