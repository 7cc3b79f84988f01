package request

import (
	"bytes"
	"regexp"
	"strings"
)

// compileSegments returns the expression for escaped values that match a pattern. Literal parts may be escaped as a value or
// as the path of a document.
func compileSegments(pattern string) *regexp.Regexp {
	if pattern == "" || pattern == AnySegments {
		return nil
	}
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		switch part {
		case "*":
			parts[i] = `[^/]+`
		case AnySegments:
			parts[i] = `[^/]+(?:/[^/]+)*`
		default:
			value := escape{plain: unreservedSet}.append(nil, []byte(part))
			parts[i] = "(?:" + regexp.QuoteMeta(string(value)) + "|" + regexp.QuoteMeta(EscapePath(part)) + ")"
		}
	}
	return regexp.MustCompile("^" + strings.Join(parts, "/") + "$")
}

func (s *Serializer) problemSegments() string {
	return "must match the pattern " + s.segments + ", where * is one path segment and ** is one or more"
}

// divide replaces the escaped slashes between two segments by slashes, in place. Those that would make an empty segment
// stay escaped: servers remove empty segments.
func divide(escaped []byte) []byte {
	const slash = "%2F"
	out := escaped[:0]
	for i := 0; i < len(escaped); i++ {
		rest := escaped[i:]
		if !bytes.HasPrefix(rest, []byte(slash)) {
			out = append(out, escaped[i])
			continue
		}
		i += len(slash) - 1
		if next := rest[len(slash):]; len(out) == 0 || bytes.HasSuffix(out, []byte(slash)) || len(next) == 0 || bytes.HasPrefix(next, []byte(slash)) {
			out = append(out, slash...)
		} else {
			out = append(out, '/')
		}
	}
	return out
}
