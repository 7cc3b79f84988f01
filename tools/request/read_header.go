package request

import (
	"net/url"
	"strings"
)

// ReadHeader is the inverse of Append for a header, given its lines. The lines of an
// array form one list (RFC 9110, section 5.3); any other value must have one line.
// Percent-encoding is decoded only if it is exactly what Append writes. Otherwise it is
// plain text, since servers do not decode headers. Non-ASCII text is rejected, since
// servers read it in different ways.
func (s *Serializer) ReadHeader(dst []byte, lines []string, shape Shape) ([]byte, error) {
	r := s.reading(shape)
	if len(lines) == 0 {
		return dst, nil
	}
	if len(lines) > 1 && (r.types&Array == 0 || r.param.content || r.param.layout.delimiter != ",") {
		return dst, r.param.misread(Duplicate, "is given more than once, and servers differ in which one they take: give it once")
	}
	for _, line := range lines {
		for i := range len(line) {
			if c := line[i]; c < ' ' && c != '\t' || c >= 0x7f {
				return dst, r.param.misread(Ambiguous, "has characters outside ASCII, or control characters: percent-encode them")
			}
		}
	}
	first := strings.Trim(lines[0], " \t")
	switch {
	case r.param.content:
		return r.param.appendContent(dst, first)
	case r.types&nested == 0, r.types&single != 0 && len(lines) == 1 && !strings.Contains(first, r.param.layout.delimiter):
		return r.appendSingle(dst, decodeCanonical(first, r.param.values))
	}
	if first == "" && len(lines) == 1 {
		return dst, nil
	}
	if r.types&Array != 0 {
		return r.appendItems(dst, r.splitHeader(lines))
	}
	return r.appendObject(dst, r.splitHeader(lines))
}

// splitHeader splits the lines at the commas, or at the delimiter of the style.
func (r *reading) splitHeader(lines []string) []string {
	var items []string
	for _, line := range lines {
		for item := range strings.SplitSeq(line, r.param.layout.delimiter) {
			items = append(items, decodeCanonical(strings.Trim(item, " \t"), r.param.items))
		}
	}
	return items
}

// decodeCanonical decodes raw if encoding the result with e gives raw again. Otherwise
// it returns raw unchanged.
func decodeCanonical(raw string, e escape) string {
	if strings.IndexByte(raw, '%') < 0 {
		return raw
	}
	text, err := url.PathUnescape(raw)
	if err != nil || !strings.EqualFold(string(e.append(nil, []byte(text))), raw) {
		return raw
	}
	return text
}
