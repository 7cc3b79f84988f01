package mediatype

import (
	"slices"
	"strings"
)

// IsValid reports whether a media type is valid in an Accept header.
func IsValid(m string) bool {
	return strings.Count(m, "/") == 1 && !strings.ContainsFunc(m, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\\"[]?={}`, r)
	})
}

// Accept returns an Accept header for the declared media types: JSON types first, then the other declared types, then
// any type with a lower quality. If there is no declared type, JSON comes first.
func Accept(mediaTypes []string) string {
	ordered := slices.Clone(mediaTypes)
	slices.SortStableFunc(ordered, func(a, b string) int { return Preference(a) - Preference(b) })
	if len(ordered) == 0 {
		return "application/json, */*;q=0.8"
	}
	if !slices.Contains(ordered, "*/*") {
		ordered = append(ordered, "*/*;q=0.8")
	}
	return strings.Join(ordered, ", ")
}

// Preference orders the media types of a response. JSON has the lowest number and comes first.
func Preference(contentType string) int {
	switch m := Base(contentType); {
	case m == "application/json":
		return 0
	case IsJSON(m) || m == "*/*" || m == "application/*":
		return 1
	case m == "application/x-www-form-urlencoded":
		return 2
	case m == "multipart/form-data":
		return 3
	case strings.HasPrefix(m, "text/"):
		return 4
	}
	return 5
}
