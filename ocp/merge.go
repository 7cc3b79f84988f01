package ocp

import (
	"net/http"
	"slices"
)

// MergeHeaders merges what an answer's headers say into the context and reports
// whether they said anything: the answer must have OCP-Context-ID and a usable
// OCP-Session, both for this context. Sent is the context as it was when the
// request was made, nil if it has not changed since.
func (c *Context) MergeHeaders(header http.Header, sent *Context, options ReadOptions) bool {
	h := ReadHeaders(header, options)
	if h.Session == nil || h.ContextID != c.ContextID {
		return false
	}
	answer, _ := h.Session.Context()
	if answer == nil || answer.ContextID != "" && answer.ContextID != c.ContextID {
		return false
	}
	c.Merge(answer, sent)
	return true
}

// Merge merges an answer's context into this one. Who it is and what it is for
// stays: the answer may change the goal, the summary and the error, and add
// changes and history entries.
//
// A text of the answer that is only what was sent, or is absent, says nothing
// new, and must not undo what has changed in the meantime. Sent is the context
// that the request carried, nil if it is this one. Of an entry that both have,
// an echo, nothing is added.
func (c *Context) Merge(answer, sent *Context) {
	if sent == nil {
		sent = c
	}
	for _, text := range []struct {
		mine          *string
		theirs, asked string
	}{
		{&c.CurrentGoal, answer.CurrentGoal, sent.CurrentGoal},
		{&c.ContextSummary, answer.ContextSummary, sent.ContextSummary},
		{&c.ErrorContext, answer.ErrorContext, sent.ErrorContext},
	} {
		if text.theirs != "" && text.theirs != text.asked {
			*text.mine = text.theirs
		}
	}
	for _, change := range answer.RecentChanges {
		if !slices.Contains(c.RecentChanges, change) && !slices.Contains(sent.RecentChanges, change) {
			c.RecentChanges = newest(append(c.RecentChanges, change), MaxRecentChanges)
		}
	}
	c.History = newest(append(c.History, newEntries(c.History, answer.History)...), MaxHistory)
	c.Touch(answer.LastUpdated)
}

// entryKey is what tells history entries apart. Metadata is left out: whoever
// passed an entry on may have written it differently.
type entryKey struct {
	microseconds             int64
	action, endpoint, result string
}

func (e *HistoryEntry) key() entryKey {
	return entryKey{e.Timestamp.UnixMicro(), e.Action, e.APIEndpoint, e.Result}
}

// newEntries returns those of theirs that mine does not have yet. Two entries
// that are the same count as two.
func newEntries(mine, theirs []HistoryEntry) (added []HistoryEntry) {
	if len(theirs) == 0 {
		return nil
	}
	held := make(map[entryKey]int, len(mine))
	for i := range mine {
		held[mine[i].key()]++
	}
	for i := range theirs {
		key := theirs[i].key()
		if held[key] > 0 {
			held[key]--
			continue
		}
		added = append(added, theirs[i])
	}
	return added
}
