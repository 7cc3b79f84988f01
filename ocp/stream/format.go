package stream

import "strings"

// Format is how a stream is cut into events.
type Format int

// The formats. The zero Format is no stream.
const (
	EventStream Format = iota + 1 // text/event-stream
	Lines                         // application/x-ndjson, application/ndjson, application/jsonl
)

// FormatOf returns the format of an answer with that Content-Type, 0 if it is not
// one that streams.
func FormatOf(contentType string) Format {
	mediaType, _, _ := strings.Cut(contentType, ";")
	mediaType = strings.TrimSpace(mediaType)
	switch {
	case strings.EqualFold(mediaType, "text/event-stream"):
		return EventStream
	case strings.EqualFold(mediaType, "application/x-ndjson"),
		strings.EqualFold(mediaType, "application/ndjson"),
		strings.EqualFold(mediaType, "application/jsonl"):
		return Lines
	}
	return 0
}
