package ocp

import (
	"net/http"
	"slices"
	"time"
	"unicode/utf8"
)

// maxShedText is how long a text stays that is cut to make a session fit, in
// characters.
const maxShedText = 256

// FitSession returns the context as the value of an OCP-Session header of at
// most limit bytes. Where it is too long, detail is shed step by step until it
// fits, and shed is the last step that was taken, 0 if none was:
//
//  1. the history's metadata, but for operation and tool_name
//  2. the older half of the history, again and again until one entry is left
//  3. the older half of the recent changes, until one is left
//  4. the API specifications, and what the session metadata has beyond the schema
//  5. texts beyond 256 characters: they are cut there
//  6. the current file, the error, the last change and the session metadata
//  7. the last history entry's result and endpoint
//  8. everything but the four required fields
//
// Whatever headers can carry fits after the last step.
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

// shedding are the steps of FitSession. Each makes the context smaller and
// reports whether it did; it is repeated until it does not.
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

// An Update is what the answer to one request tells the agent. A text that is ""
// leaves what the agent has as it is.
type Update struct {
	At             time.Time      // of the answer
	Entries        []HistoryEntry // new ones only: clients append what they are sent
	CurrentGoal    string
	ContextSummary string
	ErrorContext   string
	RecentChanges  []string // new ones only
}

// Only drops what an operation has not declared to update (x-ocp-context,
// updates_context). The entries stay: every answer may report its own call.
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

// Reply returns the context that an answer to this message carries: whom it is
// for, and of the rest only what is new. The agent knows what it sent, and a goal
// that comes back to it may by then be one that it has left behind: known clients
// take over whatever goal and summary an answer has, and append its history to
// theirs. Reply returns nil if the message is not valid.
//
// CreatedAt is the session's if the session is uncompressed or was decoded before, else
// the time of the answer: a session is not decompressed for it.
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
		RecentChanges:  u.RecentChanges[max(0, len(u.RecentChanges)-MaxRecentChanges):],
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

// times returns when the context was created and updated, the zero times if that is not
// known. A session is not decompressed only for its times.
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

// SetReplyHeaders writes a reply into the header of an answer: OCP-Context-ID,
// OCP-Version and OCP-Session, which always fits. Shed is as FitSession has it.
func (c *Context) SetReplyHeaders(header http.Header) (shed int) {
	session, shed := c.FitSession(MaxSession)
	values := []string{c.ContextID, Version, session}
	header[HeaderContextID] = values[0:1:1]
	header[HeaderVersion] = values[1:2:2]
	header[HeaderSession] = values[2:3:3]
	return shed
}
