package ocp

import (
	"net/http"
	"slices"
	"time"
	"unicode/utf8"
)

// maxShedText is the length, in characters, to which texts are cut if a session is too
// long.
const maxShedText = 256

// FitSession returns the context as the value of an OCP-Session header of at most limit
// bytes. If the value is too long, FitSession removes details in steps until it fits. Shed
// is the number of the last step taken, or 0 if there was none. The steps remove:
//
//  1. the history's metadata, except operation and tool_name
//  2. the older half of the history, repeatedly until one entry is left
//  3. the older half of the recent changes, repeatedly until one is left
//  4. the API specifications, and session metadata that the schema does not define
//  5. the end of texts, after 256 characters
//  6. the current file, the error, the last change and the session metadata
//  7. the result and endpoint of the last history entry
//  8. everything except the four required fields
//
// If the values of the context are valid in headers, it fits after the last step.
func (c *Context) FitSession(limit int) (encoded string, shed int) {
	encoded = c.encode()
	if len(encoded) <= limit {
		return encoded, 0
	}
	less := c.Clone()
	for i, step := range shedding {
		for step(less) {
			shed = i + 1
			if encoded = less.encode(); len(encoded) <= limit {
				return encoded, shed
			}
		}
	}
	return encoded, shed
}

// shedding lists the steps of FitSession. Each step makes the context smaller and reports
// whether it did. It is repeated until it returns false.
var shedding = [...]func(*Context) bool{
	shedMetadata, shedHistory, shedChanges, shedSpecs, shedLongTexts, shedLesser, shedEntry, shedRest,
}

func shedMetadata(c *Context) (did bool) {
	for i := range c.History {
		did = did || c.History[i].Metadata != nil
		c.History[i].Metadata = nil
	}
	return did
}

func shedHistory(c *Context) bool {
	if len(c.History) <= 1 {
		return false
	}
	c.History = c.History[(len(c.History)+1)/2:]
	return true
}

func shedChanges(c *Context) bool {
	if len(c.RecentChanges) <= 1 {
		return false
	}
	c.RecentChanges = c.RecentChanges[(len(c.RecentChanges)+1)/2:]
	return true
}

func shedSpecs(c *Context) bool {
	did := c.APISpecs != nil || c.Session != nil && c.Session.Extra != nil
	c.APISpecs = nil
	if c.Session != nil {
		c.Session.Extra = nil
	}
	return did
}

func shedLongTexts(c *Context) (did bool) {
	cut := func(texts ...*string) {
		for _, text := range texts {
			if short := firstCharacters(*text, maxShedText); short != *text {
				*text, did = short, true
			}
		}
	}
	cut(&c.User, &c.Workspace, &c.CurrentFile, &c.CurrentGoal, &c.ContextSummary, &c.ErrorContext)
	for i := range c.RecentChanges {
		cut(&c.RecentChanges[i])
	}
	for i := range c.History {
		e := &c.History[i]
		cut(&e.Action, &e.APIEndpoint, &e.Result, &e.Operation, &e.ToolName)
	}
	return did
}

func firstCharacters(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	for i := range text {
		if limit == 0 {
			return text[:i]
		}
		limit--
	}
	return text
}

func shedLesser(c *Context) bool {
	did := c.CurrentFile != "" || c.ErrorContext != "" || c.RecentChanges != nil || c.Session != nil
	c.CurrentFile, c.ErrorContext, c.RecentChanges, c.Session = "", "", nil, nil
	return did
}

func shedEntry(c *Context) (did bool) {
	for i := range c.History {
		e := &c.History[i]
		did = did || e.Result != "" || e.APIEndpoint != ""
		e.Result, e.APIEndpoint = "", ""
	}
	return did
}

func shedRest(c *Context) bool {
	required := Context{ContextID: c.ContextID, AgentType: c.AgentType, CreatedAt: c.CreatedAt, LastUpdated: c.LastUpdated}
	did := c.User != "" || c.Workspace != "" || c.CurrentGoal != "" || c.ContextSummary != "" || c.History != nil
	*c = required
	return did
}

// An Update is what the response to one request reports to the agent. A text that is ""
// leaves the agent's value unchanged.
type Update struct {
	At             time.Time      // the time of the response
	Entries        []HistoryEntry // new entries only, because clients append what they receive
	CurrentGoal    string
	ContextSummary string
	ErrorContext   string
	RecentChanges  []string // new ones only
}

// Only removes the fields that an operation has not declared to update (x-ocp-context,
// updates_context). The history entries stay, because every response may report its call.
func (u *Update) Only(declared []string) {
	keep := func(text *string, field string) {
		if !slices.Contains(declared, field) {
			*text = ""
		}
	}
	keep(&u.CurrentGoal, "current_goal")
	keep(&u.ContextSummary, "context_summary")
	keep(&u.ErrorContext, "error_context")
	if !slices.Contains(declared, "recent_changes") {
		u.RecentChanges = nil
	}
}

// Reply returns the context for the response to this message: the identity of the context,
// and otherwise only what is new. It does not repeat values of the request, because known
// clients replace their goal and summary by those of the response and append its history
// to theirs. A repeated goal could overwrite a newer one. If the message is not valid,
// Reply returns nil.
//
// CreatedAt is taken from the session if the session is uncompressed or already decoded.
// Otherwise it is the time of the response, because a session is not decompressed for it.
func (in *Incoming) Reply(u Update) *Context {
	if !in.Valid() {
		return nil
	}
	created, updated := in.times()
	reply := &Context{
		ContextID:      in.ContextID,
		AgentType:      in.AgentType,
		CurrentGoal:    u.CurrentGoal,
		ContextSummary: u.ContextSummary,
		ErrorContext:   u.ErrorContext,
		RecentChanges:  u.RecentChanges[max(0, len(u.RecentChanges)-maxRecentChanges):],
		History:        u.Entries[max(0, len(u.Entries)-MaxHistory):],
		CreatedAt:      created,
		LastUpdated:    updated,
	}
	if reply.CreatedAt.IsZero() {
		reply.CreatedAt = timestamp(u.At)
	}
	reply.Touch(u.At)
	return reply
}

// times returns when the context was created and updated, or zero times if they are not
// known. It does not decompress a session.
func (in *Incoming) times() (created, updated time.Time) {
	if in.Session == nil || !in.Session.isCheap() {
		return created, updated
	}
	if in.Session.options.Strict {
		c := in.Context()
		return c.CreatedAt, c.LastUpdated
	}
	var d decoder
	return d.time("created_at", in.Session.Field("created_at")), d.time("last_updated", in.Session.Field("last_updated"))
}

func first(text, otherwise string) string {
	if text != "" {
		return text
	}
	return otherwise
}

// SetReplyHeaders writes a reply into the header of a response: OCP-Context-ID,
// OCP-Version and OCP-Session. The session always fits. Shed is as returned by FitSession.
func (c *Context) SetReplyHeaders(header http.Header) (shed int) {
	session, shed := c.FitSession(MaxSession)
	values := []string{c.ContextID, Version, session}
	header[HeaderContextID] = values[0:1:1]
	header[HeaderVersion] = values[1:2:2]
	header[HeaderSession] = values[2:3:3]
	return shed
}
