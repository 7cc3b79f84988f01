package testkit

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// ContainsAll reports whether the text contains each of the words, which are separated by
// spaces, in any order. Case matters. A word that begins or ends with a letter or a digit
// must be a whole word there: "id" is not in "idd", and "/trips" is in "/trips/7".
func ContainsAll(text, words string) bool {
	for word := range strings.FieldsSeq(words) {
		if !contains(text, word) {
			return false
		}
	}
	return true
}

func contains(text, word string) bool {
	first, _ := utf8.DecodeRuneInString(word)
	last, _ := utf8.DecodeLastRuneInString(word)
	for start := 0; ; {
		i := strings.Index(text[start:], word)
		if i < 0 {
			return false
		}
		i += start
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[i+len(word):])
		starts := !joins(first) || !joins(before)
		ends := !joins(last) || !joins(after)
		if starts && ends {
			return true
		}
		start = i + 1
	}
}

// joins reports whether the character continues a word.
func joins(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
}
