package toolsearch

import (
	_ "embed"
	"slices"
	"strings"
	"unicode"

	"github.com/kljensen/snowball/english"
)

//go:embed synonyms.txt
var synonymText string

// synonyms are the words and phrases of the same meaning, by stem. The stems of a phrase are joined
// by "_".
var synonyms = readSynonyms(synonymText)

// readSynonyms reads the table: one group of words a line, comments with "#".
func readSynonyms(table string) map[string][]string {
	m := map[string][]string{}
	for line := range strings.Lines(table) {
		line, _, _ = strings.Cut(line, "#")
		group := strings.Fields(line)
		for i := range group {
			group[i] = stemPhrase(group[i])
		}
		for _, a := range group {
			for _, b := range group {
				if a != b && !slices.Contains(m[a], b) {
					m[a] = append(m[a], b)
				}
			}
		}
	}
	return m
}

// stemPhrase stems each word of a phrase.
func stemPhrase(phrase string) string {
	parts := strings.Split(phrase, "_")
	for i := range parts {
		parts[i] = stem(parts[i])
	}
	return strings.Join(parts, "_")
}

// stem returns the stem of a lower-case word.
func stem(word string) string {
	return english.Stem(word, false)
}

// split returns the words of a text or a name in lower case. It splits names where their case
// changes: "getUserURLs" is get, user and urls.
func split(text string) []string {
	var words []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, string(word))
			word = word[:0]
		}
	}
	runes := []rune(text)
	for i, r := range runes {
		switch {
		case r == '\'' || r == '’':
			continue // don't is dont
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
			continue
		case i > 0 && startsWord(runes[i-1], r, runes[i+1:]):
			end()
		case i > 0 && unicode.IsDigit(r) != unicode.IsDigit(runes[i-1]) && len(word) > 1:
			end() // a letter and its digits stay one word: v1, not page2
		}
		word = append(word, unicode.ToLower(r))
	}
	end()
	return words
}

// startsWord reports whether r, after before, starts a word of a name in mixed case.
func startsWord(before, r rune, after []rune) bool {
	if !unicode.IsUpper(r) {
		return false
	}
	if unicode.IsLower(before) {
		return true
	}
	if !unicode.IsUpper(before) || len(after) == 0 || !unicode.IsLower(after[0]) {
		return false
	}
	plural := after[0] == 's' && (len(after) == 1 || !unicode.IsLower(after[1])) // URLs
	return !plural
}

// firstSentence splits a text after its first sentence.
func firstSentence(text string) (first, rest string) {
	for i := range len(text) {
		end := text[i] == '.' && (i+1 == len(text) || text[i+1] == ' ' || text[i+1] == '\n')
		if end || i > 0 && text[i-1:i+1] == "\n\n" {
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// stopWords are English words that carry no information about the purpose of a tool.
var stopWords = wordSet(`a an the this that these those it its he she him her his hers they them their i me my mine we us our
	ours you your yours of to in on at by for from with without within into onto as is are was were be been being am do does
	did doing done has have had having will would shall should may might must can could and or nor but if then than so such
	not no there here when while who whom whose what why how very really just also too only even still please hi hello thanks
	thank want need like lets let im id ive dont wont cant isnt aint d s t re ll ve m
	about after before again because both each either every few more most much many other some same own up down out off over
	under once now via per etc eg ie using use used given based currently new`)

func wordSet(text string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		m[w] = true
	}
	return m
}
