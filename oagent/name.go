package oagent

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// MaxName is the maximum length of the name of a tool or an agent, in bytes (OpenAgentSpec v1,
// Names & References).
const MaxName = 253

// CheckName returns an error if the name is not an RFC 1123 DNS subdomain. Names of tools and
// agents must have this form (OpenAgentSpec v1, Names & References): at most 253 lowercase
// letters, digits, "-" and ".", with a letter or a digit at both ends.
func CheckName(name string) error {
	if name == "" {
		return errors.New("the name is empty")
	}
	if len(name) > MaxName {
		return fmt.Errorf("the name has %d characters; the limit is %d", len(name), MaxName)
	}
	for _, r := range name {
		if !isNameRune(r) && r != '-' && r != '.' {
			return fmt.Errorf("the name %.64q contains %q; only a-z, 0-9, '-' and '.' are allowed%s", name, r, suggestName(name))
		}
	}
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return fmt.Errorf("the name %.64q has an empty part; put at least one letter or digit before and after each '.'", name)
		case !isNameRune(rune(label[0])) || !isNameRune(rune(label[len(label)-1])):
			return fmt.Errorf("the name %.64q must start and end with a letter or digit, and so must each part between dots", name)
		}
	}
	return nil
}

func isNameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || '0' <= r && r <= '9'
}

// suggestName returns a valid form of the name, or "" if there is no obvious one.
func suggestName(name string) string {
	var parts []string
	for part := range strings.SplitSeq(name, ".") {
		parts = append(parts, KebabName(part))
	}
	if right := strings.Join(parts, "."); CheckName(right) == nil {
		return "; write " + right
	}
	return ""
}

// KebabName converts the name of an OCP tool to its OpenAgentSpec name. getTrip and get_trip
// both become get-trip, so two tools can get the same name. It returns "" if the name has no
// ASCII letter or digit.
func KebabName(tool string) string {
	var kebab strings.Builder
	runes := []rune(tool)
	for i, r := range runes {
		lower := unicode.ToLower(r)
		if !isNameRune(lower) {
			if !endsInDash(&kebab) {
				kebab.WriteByte('-')
			}
			continue
		}
		if startsWord(runes, i) && !endsInDash(&kebab) {
			kebab.WriteByte('-')
		}
		kebab.WriteRune(lower)
	}
	return strings.TrimRight(kebab.String(), "-")
}

// endsInDash reports whether the text is empty or ends with a dash, so that no other dash may
// follow.
func endsInDash(kebab *strings.Builder) bool {
	text := kebab.String()
	return text == "" || text[len(text)-1] == '-'
}

// startsWord reports whether an uppercase letter begins a word: the T in getTrip and in
// HTTPTrip.
func startsWord(name []rune, i int) bool {
	if i == 0 || !unicode.IsUpper(name[i]) {
		return false
	}
	previous := name[i-1]
	return unicode.IsLower(previous) || unicode.IsDigit(previous) ||
		unicode.IsUpper(previous) && i+1 < len(name) && unicode.IsLower(name[i+1])
}
