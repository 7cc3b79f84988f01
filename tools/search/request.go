package search

import (
	"regexp"
	"strings"

	"github.com/fairwayhq/fairway/tools/build"
)

// Limits of a request; the rest is ignored.
const (
	maxRequest = 1000 // bytes
	maxWords   = 64
	maxPhrase  = 3 // words
)

// word is a word of a request, in lower case.
type word struct {
	text    string
	literal bool // part of a quoted text, a URL, a name with signs, or a number: it hardly names a tool

	aside bool // in a clause that gives a reason, a time or a condition

	near []string // the stems that it may mean, if it is misspelt
}

// literals are the parts of a request that are values rather than words.
var literals = regexp.MustCompile(`"[^"]*"|“[^”]*”|https?://\S+|\S*[#@$]\S+|\S*[a-zA-Z]\S*[_/]\S*|\S*[0-9]\S*`)

// splitRequest returns the words of a request.
func splitRequest(request string) []word {
	request = request[:min(len(request), maxRequest)]
	var words []word
	add := func(text string, literal bool) {
		for _, w := range split(text) {
			if len(words) < maxWords {
				words = append(words, word{text: w, literal: literal})
			}
		}
	}
	end := 0
	for _, at := range literals.FindAllStringIndex(request, -1) {
		add(request[end:at[0]], false)
		add(request[at[0]:at[1]], true)
		end = at[1]
	}
	add(request[end:], false)
	for i := minClause; i < len(words); i++ {
		words[i].aside = words[i-1].aside || conjunctions[words[i].text]
	}
	return words
}

// conjunctions start a clause that gives a reason, a time or a condition, if it is not the first of the
// request.
var conjunctions = wordSet("so because before after while until unless if when whenever since although")

// minClause is the number of words of a request's first clause, at least.
const minClause = 3

// selfWords are the words by which users name themselves. They stand for the stem self.
var selfWords = wordSet("my me i mine myself")

const self = "my"

// determiners are words before a noun. A word before them at the start of a request is its verb.
var determiners = wordSet("a an the this that these those my our his her their your all every each")

// questionWords start questions that have no other verb of an action: "is the job finished?"
var questionWords = wordSet("is are was were has have had does did am")

// intent is the action that a request asks for, and the number of resources.
type intent struct {
	action build.Action // of its first verb; 0 if it has none
	many   bool         // it asks for a list
	one    bool         // it names one resource by an id, a number or another literal
}

// readIntent returns the intent of a request.
func readIntent(words []word) (in intent) {
	first := true // there was no content word yet, so that the next one is a verb if it can be
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w.literal {
			in.one, first = true, false
			continue
		}
		switch {
		case w.text == "all" || w.text == "every" || w.text == "list" || w.text == "which" || w.text == "many":
			in.many = true
		case i == 0 && questionWords[w.text]:
			in.action = build.Reads
		case isPlural(w.text):
			in.many = true
		}
		if in.action != 0 {
			continue
		}
		if phrase, n := phraseAt(words[i:]); n > 1 {
			for _, s := range synonyms[phrase] {
				in.action |= build.VerbActions(s)
			}
			if in.action == 0 {
				in.action = build.VerbActions(w.text)
			}
			i += n - 1
			first = false
			continue
		}
		text := w.text
		if len(w.near) > 0 {
			text = w.near[0]
		}
		if in.action = build.VerbActions(text); in.action != 0 || !first || stopWords[text] {
			continue
		}
		first = false
		if in.action = build.ImperativeActions(text); in.action == 0 && i+1 < len(words) && determiners[words[i+1].text] {
			in.action = build.Creates | build.Updates
		}
	}
	if in.many {
		in.one = false
	}
	return in
}

// isPlural reports whether a word is probably a noun in the plural.
func isPlural(w string) bool {
	return len(w) > 3 && strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") && !stopWords[w] &&
		build.VerbActions(w) == 0
}

// verbPosition is the number of words at the start of a tool's name of which one may be its verb:
// names such as pulls_list_files begin with the resource.
const verbPosition = 3

// actionOf returns the action of an entry, from the verb in its name and from its method. A verb that
// changes something does not count for GET. A name that repeats the method (postCustomers) has no verb.
func actionOf(e *Entry) build.Action {
	words := split(e.Name)
	for _, w := range words[:min(len(words), verbPosition)] {
		if strings.EqualFold(w, e.Method) {
			break
		}
		switch a := build.VerbActions(w); {
		case a == build.Reads, a != 0 && e.Method == "POST":
			return a
		case a != 0 && e.Method != "GET":
			return a | actionOfMethod(e)
		}
	}
	return actionOfMethod(e)
}

// actionOfMethod returns the action of the entry's method. A POST to a collection creates, and one to a
// single resource, whose path ends with a parameter, updates it. Below a resource it does what the last part
// of the path says, if that is a verb: POST /quotes/{id}/accept.
func actionOfMethod(e *Entry) build.Action {
	switch e.Method {
	case "GET", "HEAD", "OPTIONS":
		return build.Reads
	case "POST":
		switch a := build.VerbActions(e.resource()); {
		case e.isItem():
			return build.Updates
		case a != 0:
			return a
		case strings.Contains(e.Path, "}"):
			return build.Creates | build.Updates
		}
		return build.Creates
	case "PUT", "PATCH":
		return build.Updates
	case "DELETE":
		return build.Deletes
	}
	return 0
}
