package build

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"
)

// MaxName is the maximum length of a tool or argument name, in bytes. Every known client
// accepts names of this length.
const MaxName = 64

// NameForOperation returns the name of an operation according to the OCP rules (OCP 1.0, Tool
// Naming). It is the operationId, with invalid characters replaced if necessary. If there
// is no usable operationId, it is the method and path in snake case.
func NameForOperation(operationID, method, path string) string {
	if name := SanitizeName(operationID); name != "" {
		return ShortenName(name)
	}
	var name strings.Builder
	name.WriteString(strings.ToLower(method))
	for segment := range strings.SplitSeq(path, "/") {
		if word := snake(segment); word != "" {
			name.WriteByte('_')
			name.WriteString(word)
		}
	}
	return ShortenName(name.String())
}

// SanitizeName replaces invalid characters by underscores and makes the name start with a
// letter. It returns "" if s has no letter or digit.
func SanitizeName(s string) string {
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

// ShortenName cuts a name that is too long and appends a hash of the full name, so that the
// short name is the same each time the document is read.
func ShortenName(name string) string {
	if len(name) <= MaxName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	suffix := "_" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:MaxName-len(suffix)], "_") + suffix
}

// A NameSet makes names unique. The time for a name does not depend on how often the
// same name was claimed before.
type NameSet struct {
	Taken map[string]bool
	last  map[string]int // the last suffix tried, by name without suffix
}

func NewNameSet() NameSet {
	return NameSet{Taken: make(map[string]bool), last: make(map[string]int)}
}

// Claim returns name, or name with the first free suffix of _2, _3, ….
func (n NameSet) Claim(name string) string {
	if !n.Taken[name] {
		n.Taken[name] = true
		return name
	}
	const longestSuffix = len("_999999")
	stem := name[:min(len(name), MaxName-longestSuffix)]
	for i := max(n.last[stem]+1, 2); ; i++ {
		suffix := "_" + strconv.Itoa(i)
		unique := name[:min(len(name), MaxName-len(suffix))] + suffix
		if !n.Taken[unique] {
			n.Taken[unique], n.last[stem] = true, i
			return unique
		}
	}
}
