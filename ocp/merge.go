package ocp

import (
	"net/http"
	"slices"
)

// MergeHeaders merges the OCP headers of a response into the context and reports whether
// it did. The response must have OCP-Context-ID and a usable OCP-Session, both for this
// context. Sent is the context when the request was made, or nil if it has not changed
// since.
func (c *Context) MergeHeaders(header http.Header, sent *Context, options ReadOptions) bool {
	h := ReadHeaders(header, options)
	if h.Session == nil || h.ContextID != c.ContextID {
		return false
	}
	answer, _ := h.Session.Context()
	if answer == nil {
		return false
	}
	c.Merge(answer, sent)
	return true
}

// Merge merges the context of a response into this one. Only the goal, the summary and the
// error can change, and recent changes and history entries can be added. The identity and
// the purpose of the context stay.
//
// Sent is the context that the request carried, or nil if it is this one. A text that is
// absent in the response or equals the one in sent is not new; it does not overwrite a
// later change. A history entry that both contexts have is not added again.
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
			c.RecentChanges = newest(append(c.RecentChanges, change), maxRecentChanges)
		}
	}
	c.History = newest(append(c.History, newEntries(c.History, answer.History)...), MaxHistory)
	c.Touch(answer.LastUpdated)
}

// entryKey identifies a history entry. It does not include metadata, because a server that
// forwards an entry may write its metadata differently.
type entryKey struct {
	microseconds             int64
	action, endpoint, result string
}

func (e *HistoryEntry) key() entryKey {
	return entryKey{e.Timestamp.UnixMicro(), e.Action, e.APIEndpoint, e.Result}
}

// newEntries returns the entries of theirs that are not in mine. Entries that occur
// several times are counted: two equal entries in theirs need two in mine.
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
