package result

import "strings"

// Format is the syntax that separates the events of a stream.
type Format int

// The formats. The zero Format means that the response is not a stream.
const (
	eventStream Format = iota + 1 // text/event-stream
	jsonLines                     // application/x-ndjson, application/ndjson, application/jsonl
)

// FormatOf returns the format of a response with this Content-Type, or 0 if the
// media type is not a streaming one.
func FormatOf(contentType string) Format {
	mediaType, _, _ := strings.Cut(contentType, ";")
	mediaType = strings.TrimSpace(mediaType)
	switch {
	case strings.EqualFold(mediaType, "text/event-stream"):
		return eventStream
	case strings.EqualFold(mediaType, "application/x-ndjson"),
		strings.EqualFold(mediaType, "application/ndjson"),
		strings.EqualFold(mediaType, "application/jsonl"):
		return jsonLines
	}
	return 0
}
