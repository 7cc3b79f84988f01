package oauth

import (
	"strings"
)

// Challenge is the value of a WWW-Authenticate header with the scheme Bearer (RFC 6750, section
// 3; RFC 9728, section 5.1). Empty fields are omitted.
type Challenge struct {
	Realm            string
	Error            Code
	Description      string
	Scope            []string // that a token needs
	ResourceMetadata string   // URL
}

// ChallengeOf returns the challenge for a rejected request. If the request had no token, the
// challenge contains no error (RFC 6750, section 3.1).
func ChallengeOf(refusal *Error, scope []string, resourceMetadata string) Challenge {
	c := Challenge{Scope: scope, ResourceMetadata: resourceMetadata}
	if refusal != nil && refusal.Code != Missing {
		c.Error, c.Description = refusal.Code, refusal.Description
	}
	return c
}

// String returns the header's value. Characters that a parameter must not contain are replaced,
// so that the value is always one well-formed challenge.
func (c Challenge) String() string {
	var b strings.Builder
	b.WriteString("Bearer")
	separator := " "
	parameter := func(name, value string) {
		if value == "" {
			return
		}
		b.WriteString(separator)
		separator = ", "
		b.WriteString(name)
		b.WriteString(`="`)
		b.WriteString(value)
		b.WriteByte('"')
	}
	parameter("realm", strings.Map(quotable, c.Realm))
	parameter("error", strings.Map(quotable, string(c.Error)))
	parameter("error_description", strings.Map(quotable, c.Description))
	parameter("scope", strings.Map(quotable, strings.Join(c.Scope, " ")))
	parameter("resource_metadata", strings.Map(quotable, c.ResourceMetadata))
	return b.String()
}

// quotable replaces characters that error_description must not contain, and those that need an
// escape in a quoted string, because many clients do not support escapes.
func quotable(r rune) rune {
	switch {
	case r == '"' || r == '\\':
		return '\''
	case r == '\t' || r == '\r' || r == '\n':
		return ' '
	case r < ' ' || r > '~':
		return '?'
	}
	return r
}
