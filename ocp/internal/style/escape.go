package style

import "strings"

const (
	letters    = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	digits     = "0123456789"
	upperHex   = "0123456789ABCDEF"
	unreserved = letters + digits + "-._~" // RFC 3986 section 2.3

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

// An escape percent-encodes the text of a value.
type escape struct {
	plain *set

	// triples keeps existing %XX sequences, like reserved expansion (RFC 6570, section
	// 3.2.3).
	triples bool

	// whole encodes "%" only if something else in the text needs encoding. An ASCII
	// header value then stays unchanged, and any other value can be decoded.
	whole bool
}

// escapes returns the encodings for the values, list items and names of a parameter.
// Names do not follow RFC 6570, which leaves reserved characters unencoded: a "&" in a
// property name would start another pair.
func escapes(p Param) (values, items, names escape) {
	switch p.In {
	case Header:
		return escape{plain: headerSet, whole: true},
			escape{plain: headerItemSet, whole: true},
			escape{plain: headerNameSet, whole: true}
	case Cookie:
		return escape{plain: cookieSet}, escape{plain: cookieSet}, escape{plain: cookieNameSet}
	case Query, Body:
		if p.AllowReserved && p.ContentType == "" {
			return escape{plain: reservedSet, triples: true},
				escape{plain: reservedItemSet, triples: true},
				escape{plain: unreservedSet}
		}
	}
	full := escape{plain: unreservedSet}
	return full, full, full
}

// append appends text, escaped.
func (e escape) append(dst, text []byte) []byte {
	start := 0
	plain := e.plain
	if e.whole && !plain.all(text) {
		encoded := *plain
		encoded['%'] = false
		plain = &encoded
	}
	for i := range text {
		c := text[i]
		if plain[c] || e.triples && isTriple(text[i:]) {
			continue
		}
		dst = append(dst, text[start:i]...)
		dst = append(dst, '%', upperHex[c>>4], upperHex[c&0xf])
		start = i + 1
	}
	return append(dst, text[start:]...)
}

// all reports whether every byte of text is in the set.
func (s *set) all(text []byte) bool {
	for _, c := range text {
		if !s[c] {
			return false
		}
	}
	return true
}

func isTriple(text []byte) bool {
	return len(text) >= 3 && text[0] == '%' && unhex(text[1]) >= 0 && unhex(text[2]) >= 0
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
