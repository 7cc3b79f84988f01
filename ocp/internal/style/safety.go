package style

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/headerkind"
)

// checkName returns an error if a parameter with this name cannot be sent.
func checkName(in In, name string) error {
	switch {
	case defaultStyle(in) == "":
		return fmt.Errorf("parameter %q: %q is no place that a parameter can go to", name, in)
	case name == "":
		return fmt.Errorf("a %s parameter has no name", in)
	case (in == Header || in == Cookie) && !isToken(name):
		return fmt.Errorf("%s parameter %q: the name has characters that no %s name may have", in, name, in)
	case in == Header && ForbiddenHeader(name):
		return fmt.Errorf("header parameter %s: this header belongs to the gateway and cannot be an argument", name)
	}
	return nil
}

// ForbiddenHeader reports whether a header must never be set from an argument. Case
// does not matter, and "_" counts as "-", since CGI and its successors treat them
// alike. The forbidden headers are:
//
//   - Connection management: Connection, Keep-Alive, Proxy-…, TE, Trailer,
//     Transfer-Encoding, Upgrade, HTTP2-Settings, Host, Expect, Via.
//   - The description of the body, which the gateway builds: Content-Length,
//     Content-Encoding, Content-Type; also Accept. OpenAPI ignores parameters named
//     Accept, Content-Type and Authorization.
//   - Credentials: Authorization, Cookie, Set-Cookie and their second versions.
//   - The identity of the client and the host, which upstreams trust because proxies
//     set them: Forwarded, X-Forwarded-…, X-Real-IP, X-Client-IP and similar headers.
//   - Headers that turn the request into another one than the gateway allowed (package
//     headerkind): the X-HTTP-Method-Override family, X-Original-URL, Upgrade.
//   - Headers that tell the upstream which files to serve: X-Sendfile-Type, X-Accel-….
func ForbiddenHeader(name string) bool {
	name = strings.ToLower(headerkind.Canonical(name))
	for _, prefix := range [...]string{"proxy-", "x-forwarded-", "x-accel-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch name {
	case "connection", "keep-alive", "te", "trailer", "transfer-encoding",
		"host", "expect", "via",
		"content-length", "content-encoding", "content-type", "accept",
		"authorization", "cookie", "cookie2", "set-cookie", "set-cookie2",
		"forwarded", "x-forwarded", "x-real-ip", "x-client-ip", "client-ip", "x-cluster-client-ip", "true-client-ip",
		"cf-connecting-ip", "fastly-client-ip", "x-host", "x-original-host",
		"x-sendfile-type":
		return true
	}
	return headerkind.Of(name) != headerkind.Ordinary
}

const (
	problemEmpty   = "must not be empty"
	problemDots    = `must not have "." or ".." as a path segment, in plain or percent-encoded`
	problemSlash   = "must not be percent-encoded already: give the plain text, it is encoded when it is sent"
	problemControl = "must not have control characters such as line breaks"
)

// problemOf returns why the parameter cannot contain the text, or "" if it can.
func (s *Serializer) problemOf(text []byte) string {
	switch s.in {
	case Header:
		if hasControl(text, false) {
			return problemControl
		}
	case Path:
		switch {
		case isHarmless(text):
			return ""
		case hasControl(text, false), hasControl(text, true):
			return problemControl
		case hasEncodedSlash(text):
			return problemSlash
		case HasDotSegment(text, false), HasDotSegment(text, true):
			return problemDots
		}
	}
	return ""
}

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
	case isHarmless(text):
		return nil
	case isBlank(text):
		return s.refuse(problemEmpty)
	case HasDotSegment(text, true):
		return s.refuse(problemDots)
	}
	return nil
}

// isHarmless reports whether text has only unreserved characters and is not only dots.
// This is true of almost every path value, and such text needs no further checks.
func isHarmless(text []byte) bool {
	dots := true
	for _, c := range text {
		if !unreservedSet[c] {
			return false
		}
		dots = dots && c == '.'
	}
	return !dots
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
