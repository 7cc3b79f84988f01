package search

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

// readSynonyms reads the table: one group of words a line, comments with "#". In a line with ">", the words
// before it mean those after it, but not the other way round.
func readSynonyms(table string) map[string][]string {
	m := map[string][]string{}
	for line := range strings.Lines(table) {
		line, _, _ = strings.Cut(line, "#")
		left, right, directed := strings.Cut(line, ">")
		from, to := stemPhrases(left), stemPhrases(right)
		if !directed {
			to = from
		}
		for _, a := range from {
			for _, b := range to {
				if a != b && !slices.Contains(m[a], b) {
					m[a] = append(m[a], b)
				}
			}
		}
	}
	return m
}

// stemPhrases stems each word of the phrases of a line.
func stemPhrases(line string) []string {
	phrases := strings.Fields(line)
	for i, phrase := range phrases {
		parts := strings.Split(phrase, "_")
		for j := range parts {
			parts[j] = stem(parts[j])
		}
		phrases[i] = strings.Join(parts, "_")
	}
	return phrases
}

// stem returns the stem of a lower-case word. Both spellings of words such as "organise" have the same one.
func stem(word string) string {
	if regular, ok := irregular[word]; ok {
		word = regular
	}
	return english.Stem(strings.ReplaceAll(word, "ise", "ize"), false)
}

// irregular are the base forms of common irregular verbs and plurals.
var irregular = readIrregular(`said:say sent:send paid:pay made:make got:get gave:give given:give took:take taken:take wrote:write
	written:write bought:buy sold:sell ran:run left:leave found:find held:hold built:build chosen:choose seen:see saw:see
	shown:show hidden:hide kept:keep lost:lose spent:spend told:tell went:go gone:go knew:know known:know began:begin
	begun:begin broke:break broken:break brought:bring drawn:draw drew:draw froze:freeze frozen:freeze overwritten:overwrite
	withdrew:withdraw withdrawn:withdraw undid:undo undone:undo men:man women:woman children:child persons:person
	indices:index criteria:criterion`)

func readIrregular(table string) map[string]string {
	m := map[string]string{}
	for pair := range strings.FieldsSeq(table) {
		form, base, _ := strings.Cut(pair, ":")
		m[form] = base
	}
	return m
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
	about after before again because both each either few more most much many other some same own up down out off over
	under once now via per etc eg ie using use used given based currently new`)

func wordSet(text string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		m[w] = true
	}
	return m
}
