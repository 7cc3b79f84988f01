package toolsearch

import (
	"regexp"
	"strings"
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
				words = append(words, word{w, literal})
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
	return words
}

// selfWords are the words by which users name themselves. They stand for the stem self.
var selfWords = wordSet("my me i mine myself")

const self = "my"

// intent is the action that a request asks for, and the number of resources.
type intent struct {
	action action // of its first verb; 0 if it has none
	many   bool   // it asks for a list
	one    bool   // it names one resource by an id, a number or another literal
}

// readIntent returns the intent of a request.
func readIntent(words []word) (in intent) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w.literal {
			in.one = true
			continue
		}
		switch w.text {
		case "all", "every", "list", "which", "many":
			in.many = true
		}
		if in.action != 0 {
			continue
		}
		if phrase, n := phraseAt(words[i:]); n > 1 {
			for _, s := range synonyms[phrase] {
				in.action |= verbs[s]
			}
			i += n - 1
			continue
		}
		in.action = verbs[stem(w.text)]
	}
	if in.many {
		in.one = false
	}
	return in
}

// action is a set of the actions of a tool on the resources of the API.
type action uint8

const (
	reads action = 1 << iota
	creates
	updates
	deletes
)

// verbs are the actions of verbs and question words, by stem.
var verbs = readVerbs(map[action]string{
	reads: `get list show read fetch find search retrieve view display look see check describe print which who whats how
		tell count download export inspect browse query where lookup`,
	creates: `create add make post insert new build open start send upload register invite schedule publish`,
	updates: `update edit change modify patch replace set rename adjust put configure enable disable close reopen mark assign
		attach link end cancel stop lock approve`,
	deletes: `delete remove destroy erase wipe drop purge discard kill revoke unset clear clean unpin unblock detach unlink
		cancel end leave`,
})

func readVerbs(lists map[action]string) map[string]action {
	m := map[string]action{}
	for a, list := range lists {
		for w := range strings.FieldsSeq(list) {
			m[stem(w)] |= a
		}
	}
	return m
}

// verbPosition is the number of words at the start of a tool's name of which one may be its verb:
// names such as pulls_list_files begin with the resource.
const verbPosition = 3

// actionOf returns the action of an entry, from the verb in its name and from its method. A verb
// that changes something does not count for GET.
func actionOf(e *Entry) action {
	words := split(e.Name)
	for _, w := range words[:min(len(words), verbPosition)] {
		if a := verbs[stem(w)]; a == reads || a != 0 && e.Method != "GET" {
			return a | actionOfMethod(e.Method)
		}
	}
	return actionOfMethod(e.Method)
}

func actionOfMethod(method string) action {
	switch method {
	case "GET", "HEAD", "OPTIONS":
		return reads
	case "POST":
		return creates | updates
	case "PUT", "PATCH":
		return updates
	case "DELETE":
		return deletes
	}
	return 0
}
