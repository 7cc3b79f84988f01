package ocp

import "strings"

// mediaType returns the media type of a Content-Type value, in lower case and without
// parameters.
func mediaType(contentType string) string {
	if semicolon := strings.IndexByte(contentType, ';'); semicolon >= 0 {
		contentType = contentType[:semicolon]
	}
	return strings.ToLower(strings.TrimSpace(contentType))
}
