package engagement

import "strings"

// MaxReason is the maximum number of bytes of a reason in the record.
const MaxReason = 2000

// Shorten cuts a text to at most limit bytes, between two characters.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
