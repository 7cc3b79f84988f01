// Package naming makes the names of tools and arguments. Names are deterministic: the same document
// always gives the same names. They contain ASCII letters, digits and underscores, start with a
// letter, and have at most [MaxLength] bytes.
package naming

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"
)

// MaxLength is the maximum length of a tool or argument name, in bytes. Every known client
// accepts names of this length.
const MaxLength = 64

// ForOperation returns the name of an operation according to the OCP rules (OCP 1.0, Tool
// Naming). It is the operationId, with invalid characters replaced if necessary. If there
// is no usable operationId, it is the method and path in snake case.
func ForOperation(operationID, method, path string) string {
	if name := Sanitize(operationID); name != "" {
		return Shorten(name)
	}
	var name strings.Builder
	name.WriteString(strings.ToLower(method))
	for segment := range strings.SplitSeq(path, "/") {
		if word := snake(segment); word != "" {
			name.WriteByte('_')
			name.WriteString(word)
		}
	}
	return Shorten(name.String())
}

// Sanitize replaces invalid characters by underscores and makes the name start with a
// letter. It returns "" if s has no letter or digit.
func Sanitize(s string) string {
	name := strings.Map(func(r rune) rune {
		if isNameRune(r) {
			return r
		}
		return '_'
	}, s)
	if IsName(name) {
		return name
	}
	name = strings.TrimLeft(name, "_")
	switch {
	case name == "":
		return ""
	case '0' <= name[0] && name[0] <= '9':
		return "n" + name
	}
	return name
}

// IsName reports whether s matches [a-zA-Z][a-zA-Z0-9_]*.
func IsName(s string) bool {
	for i, r := range s {
		if !isNameRune(r) || i == 0 && (r == '_' || '0' <= r && r <= '9') {
			return false
		}
	}
	return s != ""
}

func isNameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
}

// snake converts one path segment to snake case: "{tripId}" becomes trip_id and
// "users.json" becomes users_json.
func snake(segment string) string {
	var word strings.Builder
	var previous rune
	for _, r := range segment {
		switch {
		case !isNameRune(r) || r == '_':
			r = '_'
			if word.Len() == 0 || previous == '_' {
				continue
			}
		case unicode.IsUpper(r) && (unicode.IsLower(previous) || unicode.IsDigit(previous)):
			word.WriteByte('_')
		}
		word.WriteRune(unicode.ToLower(r))
		previous = r
	}
	return strings.TrimRight(word.String(), "_")
}

// Shorten cuts a name that is too long and appends a hash of the full name, so that the
// short name is the same each time the document is read.
func Shorten(name string) string {
	if len(name) <= MaxLength {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	suffix := "_" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:MaxLength-len(suffix)], "_") + suffix
}

// A Set makes names unique. The time for a name does not depend on how often the
// same name was claimed before.
type Set struct {
	Taken map[string]bool
	last  map[string]int // the last suffix tried, by name without suffix
}

func NewSet() Set {
	return Set{Taken: make(map[string]bool), last: make(map[string]int)}
}

// Claim returns name, or name with the first free suffix of _2, _3, ….
func (n Set) Claim(name string) string {
	if !n.Taken[name] {
		n.Taken[name] = true
		return name
	}
	const longestSuffix = len("_999999")
	stem := name[:min(len(name), MaxLength-longestSuffix)]
	for i := max(n.last[stem]+1, 2); ; i++ {
		suffix := "_" + strconv.Itoa(i)
		unique := name[:min(len(name), MaxLength-len(suffix))] + suffix
		if !n.Taken[unique] {
			n.Taken[unique], n.last[stem] = true, i
			return unique
		}
	}
}
