package text

import (
	"strings"
	"unicode"
)

// maxAsked is the maximum length in bytes of a name that is treated as a misspelling.
const maxAsked = 253

// Nearest returns the candidate that is closest to asked, or "" if none is close.
// Candidates that differ from asked only in case and separators are closest.
func Nearest(asked string, candidates func(yield func(string) bool)) string {
	return nearest(asked, len(fold(asked))/3+2, candidates)
}

// Misspelled is Nearest for names that are probably meant: those that differ in at most two letters, and short ones in one.
func Misspelled(asked string, candidates func(yield func(string) bool)) string {
	return nearest(asked, min((len(fold(asked))+1)/3, 2)+1, candidates)
}

// nearest returns the candidate whose distance to asked is the least, and less than distance.
func nearest(asked string, distance int, candidates func(yield func(string) bool)) string {
	if len(asked) > maxAsked {
		return ""
	}
	asked = fold(asked)
	best := ""
	for candidate := range candidates {
		if d := editDistance(asked, fold(candidate), distance); d < distance {
			best, distance = candidate, d
		}
	}
	return best
}

// DidYouMean returns a suggestion to append to an error, or "" if near is empty.
func DidYouMean(near string) string {
	if near == "" {
		return ""
	}
	return "; did you mean " + near + "?"
}

// NowNamed returns the current name of something that was renamed, to append to an error.
func NowNamed(name string) string { return "; it is now named " + name }

// fold returns the same string for names that differ only in case and separators.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || r == '/' || r == ' ' {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// editDistance returns the Levenshtein distance between a and b, or limit if the distance
// is at least limit.
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
