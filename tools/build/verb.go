package build

import (
	"strings"

	"github.com/kljensen/snowball/english"
)

// Action is a set of actions on resources.
type Action uint8

// The actions.
const (
	Reads Action = 1 << iota
	Creates
	Updates
	Deletes
)

// Writes are all actions that change something.
const Writes = Creates | Updates | Deletes

// VerbActions returns the actions of a verb or question word, in lower case and in any form: "creates" and
// "creating" are "create". It returns 0 for a word that is not in the list, or is more often a noun.
func VerbActions(word string) Action { return verbs[english.Stem(word, false)] }

// ImperativeActions returns the actions of a word where a sentence has its verb: the first word of a request
// or of a summary. It knows further verbs, which are nouns elsewhere, such as "release". These count in
// their base form only, so "releases" is a noun.
func ImperativeActions(word string) Action {
	if a := VerbActions(word); a != 0 || strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss") || strings.HasSuffix(word, "ed") {
		return a
	}
	return imperatives[english.Stem(word, false)]
}

// verbs and imperatives are the actions of words, by stem. A word may have several.
var (
	verbs = read(map[Action]string{
		Reads: `get list show read fetch find search retrieve view display look see check describe print which who whats how
			tell count download export inspect browse query where lookup compare whoami`,
		Creates: `create add make insert new build open start send upload register invite schedule publish generate trigger
			dispatch save store submit refund post attach put`,
		Updates: `update edit change modify patch replace set rename adjust put configure enable disable close reopen mark
			assign attach link end cancel stop lock approve unlock merge transfer restart rerun pause suspend resume archive
			unarchive restore accept reject decline deny mute confirm finalize rotate promote swap`,
		Deletes: `delete remove destroy erase wipe drop purge discard kill revoke unset clear clean unpin unblock detach unlink
			cancel end leave unstar unfollow unsubscribe unban uninstall unassign prune kick`,
	})
	imperatives = read(map[Action]string{
		Reads:   `watch track preview`,
		Creates: `fork launch run import issue pay charge allow request ask deploy buy order evict draft book`,
		Updates: `move scale pin star follow subscribe join block ban give turn switch finish complete resolve void cordon drain
			raise lower increase decrease react reply label tag share release capture forbid limit protect`,
		Deletes: `trash expire void`,
	})
)

func read(lists map[Action]string) map[string]Action {
	m := map[string]Action{}
	for action, list := range lists {
		for word := range strings.FieldsSeq(list) {
			m[english.Stem(word, false)] |= action
		}
	}
	return m
}
