// Package nearest finds what somebody meant who made a typing error.
package nearest

import (
	"strings"
	"unicode"
)

// maxAsked is the longest name that is taken for a typing error, in bytes.
const maxAsked = 253

// Name returns the name among candidates that is closest to what was asked for,
// "" if none is close. Spellings that differ in case and separators only are
// the closest.
func Name(asked string, candidates func(yield func(string) bool)) string {
	if len(asked) > maxAsked {
		return ""
	}
	asked = fold(asked)
	best, distance := "", len(asked)/3+2
	for candidate := range candidates {
		if d := editDistance(asked, fold(candidate), distance); d < distance {
			best, distance = candidate, d
		}
	}
	return best
}

// fold makes spellings equal that differ in case and separators only.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || r == '/' || r == ' ' {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// editDistance returns the Levenshtein distance of a and b, or limit if it is
// at least that.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return min(row[len(b)], limit)
}
