package request

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	letters        = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	digits         = "0123456789"
	upperHexDigits = "0123456789ABCDEF"
	unreserved     = letters + digits + "-._~" // RFC 3986 section 2.3

	// queryReserved are the characters that AllowReserved leaves unencoded: the reserved
	// characters of RFC 3986, except those that a query may not contain ("#", "[", "]")
	// and those that form decoders read as a delimiter or a space ("&", ";", "+"). "=" is
	// safe, since only the first one in a pair separates name and value.
	queryReserved = ":/?@!$'()*,="

	// tchar are the characters of a token (RFC 9110, section 5.6.2), such as header and
	// cookie names.
	tchar = letters + digits + "!#$%&'*+-.^_`|~"
)

// A set is the set of bytes that need no encoding.
type set [256]bool

func setOf(chars string) *set {
	var s set
	for i := range len(chars) {
		s[chars[i]] = true
	}
	return &s
}

// except returns a copy of s without the given characters.
func (s *set) except(chars string) *set {
	rest := *s
	for i := range len(chars) {
		rest[chars[i]] = false
	}
	return &rest
}

// printable returns the space and the visible ASCII characters.
func printable() *set {
	var s set
	for c := ' '; c < 0x7f; c++ {
		s[c] = true
	}
	return &s
}

var (
	unreservedSet   = setOf(unreserved)
	reservedSet     = setOf(unreserved + queryReserved)
	reservedItemSet = reservedSet.except(",")
	cookieNameSet   = setOf(tchar).except("%")

	headerSet     = printable()
	headerItemSet = headerSet.except(",")
	headerNameSet = headerSet.except(",=")

	// cookieSet are the cookie-octets of RFC 6265, section 4.1.1, except "%". Encoding
	// no more than necessary works with servers that decode cookies and with those
	// that do not.
	cookieSet = printable().except(" \"%,;\\")
)

// escapes returns the encodings for the values, list items and names of a parameter.
// Names do not follow RFC 6570, which leaves reserved characters unencoded: a "&" in a
// property name would start another pair.
func escapes(p Param) (values, items, names escape) {
	switch p.In {
	case Header:
		items := headerItemSet
		if p.Style != Simple {
			items = headerSet // commas do not separate the items
		}
		return escape{plain: headerSet, whole: true}, escape{plain: items, whole: true}, escape{plain: headerNameSet, whole: true}
	case Cookie:
		return escape{plain: cookieSet}, escape{plain: cookieSet}, escape{plain: cookieNameSet}
	case Query, InBody:
		if p.AllowReserved && p.ContentType == "" {
			return escape{plain: reservedSet, triples: true},
				escape{plain: reservedItemSet, triples: true},
				escape{plain: unreservedSet}
		}
	}
	full := escape{plain: unreservedSet}
	return full, full, full
}

// unhex returns the value of a hexadecimal digit, or -1 for any other byte.
func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// isToken reports whether name is a token (RFC 9110 section 5.6.2).
func isToken(name string) bool {
	return name != "" && strings.Trim(name, tchar) == ""
}

const (
	problemEmpty   = "must not be empty"
	problemDots    = `must not have "." or ".." as a path segment, in plain or percent-encoded`
	problemSlash   = "must not be percent-encoded already: give the plain text, it is encoded when it is sent"
	problemControl = "must not have control characters such as line breaks"
)

// anothersName returns the other parameter that the API might read a property of an
// exploded object as, or "". Many servers ignore case, and read name[] and name[key]
// as parts of name.
func (s *Serializer) anothersName(property jsontext.Value) string {
	if len(s.reserved) == 0 {
		return ""
	}
	text, err := jsontext.AppendUnquote(nil, property)
	if err != nil {
		return ""
	}
	whole := string(text)
	stem, _, _ := strings.Cut(whole, "[")
	for _, other := range s.reserved {
		if other != s.name && (strings.EqualFold(other, whole) || strings.EqualFold(other, stem)) {
			return other
		}
	}
	return ""
}

// checkSegment returns an error if a path parameter would leave its path segment after
// an upstream decodes it. Single values are checked elsewhere; this function checks
// the combined text.
func (s *Serializer) checkSegment(text []byte) error {
	switch {
	case isBlank(text):
		return s.refuse(problemEmpty)
	case HasDotSegment(text, true):
		return s.refuse(problemDots)
	}
	return nil
}

// isBlank reports whether an escaped text is empty, has only spaces and slashes, which
// an upstream may collapse, or is the label "." with an empty value.
func isBlank(escaped []byte) bool {
	for i := 0; i < len(escaped); {
		c, size := unescape(escaped[i:], true)
		if c != ' ' && c != '/' && c != '\\' {
			return string(escaped) == "."
		}
		i += size
	}
	return true
}

// HasDotSegment reports whether text has a "." or ".." segment. Segments end at a slash or
// backslash, and at a "?" or "#", where some servers end a path. If decode is set, text is
// percent-decoded once. Spaces in a segment, and everything after a ";", are ignored, as
// some servers do.
func HasDotSegment(text []byte, decode bool) bool {
	dots, other, parameters := 0, false, false
	for i := 0; i < len(text); {
		c, size := unescape(text[i:], decode)
		i += size
		switch {
		case c == '/' || c == '\\' || c == '?' || c == '#':
			if !other && (dots == 1 || dots == 2) {
				return true
			}
			dots, other, parameters = 0, false, false
		case parameters || c == ' ':
		case c == '.':
			dots++
		case c == ';':
			parameters = true
		default:
			other = true
		}
	}
	return !other && (dots == 1 || dots == 2)
}

// hasEncodedSlash reports whether text has a percent-encoded slash or backslash.
func hasEncodedSlash(text []byte) bool {
	for i := range text {
		if c, size := unescape(text[i:], true); size > 1 && (c == '/' || c == '\\') {
			return true
		}
	}
	return false
}

// hasDecoded reports whether text contains the byte after percent-decoding once.
func hasDecoded(text []byte, b byte) bool {
	for i := 0; i < len(text); {
		c, size := unescape(text[i:], true)
		if c == b {
			return true
		}
		i += size
	}
	return false
}

// hasControl reports whether text has a control character: C0, DEL or C1. Text is
// UTF-8. If decode is set, it is percent-decoded once.
func hasControl(text []byte, decode bool) bool {
	last := byte(0)
	for i := 0; i < len(text); {
		c, size := unescape(text[i:], decode)
		i += size
		if c < ' ' || c == 0x7f || last == 0xc2 && 0x80 <= c && c < 0xa0 {
			return true
		}
		last = c
	}
	return false
}

// unescape returns the first byte of text and its length there: 3 for a %XX sequence if
// decode is set, otherwise 1.
func unescape(text []byte, decode bool) (c byte, size int) {
	if decode && isTriple(text) {
		return byte(unhex(text[1])<<4 | unhex(text[2])), 3
	}
	return text[0], 1
}

// DecodeTriples decodes each %XX once and leaves every other "%" unchanged.
func DecodeTriples(text string) string {
	if strings.IndexByte(text, '%') < 0 {
		return text
	}
	decoded := make([]byte, 0, len(text))
	for rest := []byte(text); len(rest) > 0; {
		c, size := unescape(rest, true)
		decoded, rest = append(decoded, c), rest[size:]
	}
	return string(decoded)
}
