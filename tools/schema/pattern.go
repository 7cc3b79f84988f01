package schema

import "strings"

// isPortable reports whether a regular expression that Go compiles is also one for JavaScript with the flag u, and for
// the re of Python, with which model APIs and clients compile patterns. It is conservative: it returns false for what
// any of them may warn about, too.
func isPortable(pattern string) bool {
	const start = -1 // where a class, or what a quantifier repeats, begins
	inClass, last := false, start
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		isSet := false // an escape of several characters
		switch {
		case c == '\\':
			i++
			if i == len(pattern) {
				return false
			}
			c = pattern[i]
			isSet = strings.IndexByte("dDwWsS", c) >= 0
			switch {
			case c == 'x':
				if i+2 >= len(pattern) || !isHex(pattern[i+1]) || !isHex(pattern[i+2]) {
					return false
				}
				i += 2
			case inClass && (c == '-' || isSet), !inClass && (isSet || c == 'b' || c == 'B'), strings.IndexByte(`^$\.*+?()[]{}|/fnrtv`, c) >= 0:
			default:
				return false
			}
			if inClass && isSet && i+2 < len(pattern) && pattern[i+1] == '-' && pattern[i+2] != ']' {
				return false // a range from \d
			}
			if !inClass && (c == 'b' || c == 'B') && i+1 < len(pattern) && isQuantifier(pattern[i+1]) {
				return false
			}
		case inClass && c == ']':
			if last == start {
				return false // Go takes it as a character
			}
			inClass = false
		case inClass:
			next := byte(0)
			if i+1 < len(pattern) {
				next = pattern[i+1]
			}
			isRange := c == '-' && last != start && next == '\\' && i+2 < len(pattern) && strings.IndexByte("dDwWsS", pattern[i+2]) >= 0
			if c == '[' || isRange || c == next && strings.IndexByte("-&~|", c) >= 0 {
				return false
			}
		case c == '[':
			inClass, last = true, start
			if i+1 < len(pattern) && pattern[i+1] == '^' {
				i++
			}
			continue
		case c == '(' && strings.HasPrefix(pattern[i:], "(?"):
			if !strings.HasPrefix(pattern[i:], "(?:") {
				return false
			}
			i += len("?:")
		case c == '^' || c == '$':
			if i+1 < len(pattern) && isQuantifier(pattern[i+1]) {
				return false
			}
		case c == '{':
			end := strings.IndexByte(pattern[i:], '}')
			low, high, _ := strings.Cut(pattern[i+1:max(i+1, i+end)], ",")
			if end < 0 || !isDigits(low) || high != "" && !isDigits(high) {
				return false // a brace that stands for itself
			}
			i += end
		case c == '}' || c == ']':
			return false
		}
		last = i
	}
	return true
}

func isQuantifier(c byte) bool { return strings.IndexByte("*+?{", c) >= 0 }

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
