package plainrequest

import (
	"path"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/fairwayhq/fairway/tools/request"
)

// appendReading appends a path, folded and without dot segments, unless the list contains
// it.
func appendReading(readings []string, reading string) []string {
	reading = fold(reading)
	if strings.Contains(reading, "/.") {
		reading = path.Clean(reading)
	}
	if slices.Contains(readings, reading) {
		return readings
	}
	return append(readings, reading)
}

// fold returns the same text for all texts that servers may treat as equal. Backslashes
// become slashes. Case, Unicode forms of a character, and spaces and dots at the end of a
// segment are ignored.
func fold(text string) string {
	if !isASCIIText(text) {
		text = norm.NFKC.String(text)
	}
	text = strings.Map(func(r rune) rune {
		if r == '\\' {
			return '/'
		}
		return request.Fold(r)
	}, text)
	if !strings.ContainsAny(text, ". ") {
		return text
	}
	segments := strings.Split(text, "/")
	for i, segment := range segments {
		segment = strings.Trim(segment, " ")
		if trimmed := strings.TrimRight(segment, ". "); trimmed != "" {
			segment = trimmed
		}
		segments[i] = segment
	}
	return strings.Join(segments, "/")
}

func isASCIIText(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}

// keptSlash represents a slash inside a segment, where no template has one.
const keptSlash = '\x01'

// decodeSegments fully decodes the segments of an escaped path. Slashes that come from
// decoding are represented differently from those that separate segments.
func decodeSegments(place string) string {
	segments := strings.Split(place, "/")
	for i, segment := range segments {
		for range maxDecoded {
			segment = request.DecodeTriples(segment)
		}
		segments[i] = strings.ReplaceAll(segment, "/", string(keptSlash))
	}
	return strings.Join(segments, "/")
}

// keepSlashes replaces backslashes by keptSlash, so that they do not separate segments.
func keepSlashes(r rune) rune {
	if r == '\\' {
		return keptSlash
	}
	return r
}

// cutSegments cuts each segment at its first semicolon.
func cutSegments(place string) string {
	if strings.IndexByte(place, ';') < 0 {
		return place
	}
	segments := strings.Split(place, "/")
	for i := range segments {
		segments[i], _, _ = strings.Cut(segments[i], ";")
	}
	return strings.Join(segments, "/")
}
