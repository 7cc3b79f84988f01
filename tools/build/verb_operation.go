package build

import (
	"slices"
	"strings"
	"unicode"

	"github.com/kljensen/snowball/english"
)

// calls are further verbs of operations. Words of requests are seldom meant so.
var calls = read(map[Action]string{
	Reads:   `return resolve watch preview test ping`,
	Updates: `connect request push notify execute exec invoke proxy login logout sync reset retry`,
})

// summaries are further verbs that begin a summary. In names they are more often nouns.
var summaries = read(map[Action]string{Updates: `exchange indicate`})

// determiners follow a verb, so that a word before them is not a noun.
var determiners = strings.Fields("a an the this that these those your")

// OperationActions returns the actions of an operation by its own verb: the first word of its summary or its
// description, or else the first or the last word of its name. It returns 0 if it knows none of them. Only
// this verb counts: "check if a repository is starred" and "list revoked tokens" read.
func OperationActions(name, summary, description string) Action {
	for _, sentence := range [...]string{summary, description} {
		list := words(sentence, 2)
		if len(list) == 0 {
			continue
		}
		verb := strings.TrimSuffix(list[0], "s") // "lists"
		a := ofWord(verb) | summaries[english.Stem(verb, false)]
		if a == 0 && len(list) > 1 && slices.Contains(determiners, list[1]) {
			a = ImperativeActions(verb)
		}
		if a != 0 {
			return a
		}
	}
	list := words(name, len(name))
	if len(list) == 0 {
		return 0
	}
	for _, word := range list {
		if ofWord(word)&Reads != 0 {
			return Reads
		}
	}
	if a := ofWord(list[0]); a != 0 {
		return a
	}
	return ofWord(list[len(list)-1])
}

// ofWord returns the actions of a verb in its base form.
func ofWord(word string) Action {
	if strings.HasSuffix(word, "ed") || strings.HasSuffix(word, "ing") || strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss") {
		return 0
	}
	return VerbActions(word) | calls[english.Stem(word, false)]
}

// words returns up to limit words of a text or a name in lower case. It skips markup.
func words(text string, limit int) (list []string) {
	text = strings.TrimLeftFunc(text, unicode.IsSpace)
	for strings.HasPrefix(text, "<") {
		_, text, _ = strings.Cut(text, ">")
	}
	start, before := -1, ' '
	for i, r := range text + " " {
		boundary := !unicode.IsLetter(r) || unicode.IsUpper(r) && !unicode.IsUpper(before)
		if boundary && start >= 0 {
			if list = append(list, strings.ToLower(text[start:i])); len(list) == limit {
				return list
			}
			start = -1
		}
		if start < 0 && unicode.IsLetter(r) {
			start = i
		}
		before = r
	}
	return list
}
