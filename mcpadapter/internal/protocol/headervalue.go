package protocol

import (
	"encoding/base64"
	"strings"
)

const (
	prefix = "=?base64?"
	suffix = "?="
)

// DecodeHeader decodes a value in the form =?base64?…?= and returns any other value as it is. ok is false
// if the Base64 is invalid.
func DecodeHeader(value string) (text string, ok bool) {
	inner, found := encoded(value)
	if !found {
		return value, true
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(inner)
	return string(decoded), err == nil
}

// EncodeHeader is the inverse of DecodeHeader. It encodes a string that a header field cannot carry, or that
// Decode or a proxy would change.
func EncodeHeader(text string) string {
	if _, found := encoded(text); !found && IsHeaderText(text) && strings.Trim(text, " ") == text {
		return text
	}
	return prefix + base64.StdEncoding.EncodeToString([]byte(text)) + suffix
}

// encoded returns what is between =?base64? and ?=.
func encoded(value string) (inner string, found bool) {
	inner, found = strings.CutPrefix(value, prefix)
	if !found {
		return "", false
	}
	return strings.CutSuffix(inner, suffix)
}

// IsHeaderText reports whether a header field can carry the value: ASCII without control characters.
func IsHeaderText(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' })
}
