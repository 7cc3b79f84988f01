package search

import (
	"maps"
	"slices"
	"strings"
)

const (
	minPart      = 3 // letters of a part of a compound
	minCorrected = 4 // letters of a word that is corrected
	minTwoEdits  = 8 // letters of a word that is corrected by two edits
)

// speller finds the words that a misspelt word may mean.
type speller struct {
	byLength map[int][]string
}

func newSpeller(words []string) speller {
	s := speller{map[int][]string{}}
	for _, w := range words {
		if len(w) >= minCorrected-1 && !hasDigit(w) {
			s.byLength[len(w)] = append(s.byLength[len(w)], w)
		}
	}
	return s
}

// nearest returns the known words with the fewest edits to w: at most one, or two if w is
// long. It returns nil if there is none.
func (s speller) nearest(w string) []string {
	if len(w) < minCorrected-1 || hasDigit(w) {
		return nil
	}
	limit := 1
	if len(w) >= minTwoEdits {
		limit = 2
	}
	var found []string
	for n := len(w) - limit; n <= len(w)+limit; n++ {
		for _, k := range s.byLength[n] {
			if k[0] != w[0] {
				continue
			}
			switch d := distance(w, k, limit); {
			case d > limit:
			case d < limit:
				limit, found = d, append(found[:0], k)
			default:
				found = append(found, k)
			}
		}
	}
	return found
}

// synonymSpelling finds words of the table of synonyms.
var synonymSpelling = func() speller {
	words := slices.Sorted(maps.Keys(synonyms))
	return newSpeller(slices.DeleteFunc(words, func(w string) bool { return strings.Contains(w, "_") }))
}()

// distance returns the number of insertions, deletions, replacements and swaps of
// neighbours that turn a into b, or limit+1 if there are more than limit.
func distance(a, b string, limit int) int {
	prev2 := make([]int, len(b)+1)
	prev := make([]int, len(b)+1)
	cur := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
			least = min(least, cur[j])
		}
		if least > limit {
			return limit + 1
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}

func hasDigit(w string) bool {
	return strings.ContainsAny(w, "0123456789")
}
