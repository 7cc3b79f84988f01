package style

import (
	"net/url"
	"strings"
	"unicode"

	"github.com/fairwayhq/fairway/internal/wire"
)

// ReadHeader is the inverse of Append for a header, given its lines. The lines of an
// array form one list (RFC 9110, section 5.3); any other value must have one line.
// Percent-encoding is decoded only if it is exactly what Append writes. Otherwise it is
// plain text, since servers do not decode headers. Non-ASCII text is rejected, since
// servers read it in different ways.
func (s *Serializer) ReadHeader(dst []byte, lines []string, shape Shape) ([]byte, error) {
	types := typesOf(shape)
	if len(lines) == 0 {
		return dst, nil
	}
	if len(lines) > 1 && (types&Array == 0 || s.content) {
		return dst, s.misread(Duplicate, "is given more than once, and servers differ in which one they take: give it once")
	}
	for _, line := range lines {
		for i := range len(line) {
			if c := line[i]; c < ' ' && c != '\t' || c >= 0x7f {
				return dst, s.misread(Ambiguous, "has characters outside ASCII, or control characters: percent-encode them")
			}
		}
	}
	first := strings.Trim(lines[0], " \t")
	switch {
	case s.content:
		return s.appendContent(dst, first)
	case types&nested == 0, types&single != 0 && len(lines) == 1 && !strings.Contains(first, ","):
		return s.readSingle(dst, decodeCanonical(first, s.values), types&^nested)
	}
	if first == "" && len(lines) == 1 {
		return dst, nil
	}
	if items := typesOf(itemOf(shape)); items&Array == 0 && items&Object != 0 && items&single == 0 && types&Array != 0 {
		return s.appendItems(dst, splitItems(lines, s.items), shape)
	}
	items := splitItems(lines, s.items)
	if types&Array != 0 {
		return s.appendItems(dst, items, shape)
	}
	return s.appendObject(dst, items, shape)
}

// splitItems splits the lines of a header at the commas.
func splitItems(lines []string, e escape) []string {
	var items []string
	for _, line := range lines {
		for item := range strings.SplitSeq(line, ",") {
			items = append(items, decodeCanonical(strings.Trim(item, " \t"), e))
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

// appendContent appends the value of a parameter with content.
func (s *Serializer) appendContent(dst []byte, text string) ([]byte, error) {
	if !s.json {
		return s.readSingle(dst, text, String)
	}
	if err := wire.Check([]byte(text)); err != nil {
		return dst, s.misread(Malformed, "is not JSON that can be read: "+err.Error())
	}
	return append(dst, strings.Trim(text, " \t\r\n")...), nil
}

// Fold returns one representative for all characters that some server treats as equal
// when it ignores case.
func Fold(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z':
		return r
	case 'A' <= r && r <= 'Z':
		return r + ('a' - 'A')
	case r < unicode.MaxASCII:
		return r
	}
	return unicode.ToLower(unicode.ToUpper(r))
}
