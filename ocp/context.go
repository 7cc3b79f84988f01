package ocp

import (
	"crypto/rand"
	"encoding/hex"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// MaxRecentChanges is how many recent changes a context has at most.
	MaxRecentChanges = 10

	// MaxHistory is how many history entries a context keeps: the newest ones.
	MaxHistory = 1000

	// maxMembers is how many members an object inside a context may have.
	maxMembers = 256

	// maxFaults bounds the faults that are reported of one context.
	maxFaults = 32
)

// A Context is what an agent says of its work (OCP 1.0, Context Schema). A text
// that is "" is absent or null. Times are kept to the microsecond, in UTC.
//
// A Context that came out of a Session or an Incoming is shared and must not be
// changed: Clone it first.
type Context struct {
	ContextID      string // required: [a-zA-Z0-9-]{1,64}
	AgentType      string // required: [a-zA-Z0-9_.-]{1,128}
	User           string
	Workspace      string
	CurrentFile    string
	CurrentGoal    string
	ContextSummary string
	ErrorContext   string
	RecentChanges  []string          // the oldest first, at most MaxRecentChanges
	Session        *SessionMetadata  // nil if absent
	History        []HistoryEntry    // the oldest first
	APISpecs       map[string]string // URL of an OpenAPI document by API name, [a-zA-Z0-9_-]+
	CreatedAt      time.Time         // required
	LastUpdated    time.Time         // required
}

// SessionMetadata is the field session of a context.
type SessionMetadata struct {
	StartTime        time.Time
	InteractionCount int64
	AgentType        string
	Extra            jsontext.Value // an object of further fields; nil if there are none
}

// NewContext returns the context of a new session, with a random context id that
// the schema accepts.
func NewContext(agentType string) *Context {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	now := timestamp(time.Now())
	return &Context{
		ContextID:   "ocp-" + hex.EncodeToString(id[:]),
		AgentType:   agentType,
		Session:     &SessionMetadata{StartTime: now, AgentType: agentType},
		CreatedAt:   now,
		LastUpdated: now,
	}
}

// timestamp returns the time as it survives a trip over the wire.
func timestamp(t time.Time) time.Time {
	return t.UTC().Truncate(time.Microsecond)
}

// Clone returns a copy that shares nothing which either may change.
func (c *Context) Clone() *Context {
	clone := *c
	clone.RecentChanges = slices.Clone(c.RecentChanges)
	clone.History = slices.Clone(c.History)
	clone.APISpecs = maps.Clone(c.APISpecs)
	if c.Session != nil {
		session := *c.Session
		clone.Session = &session
	}
	return &clone
}

// SetGoal sets the current goal, and the summary unless it is "", and counts an
// interaction.
func (c *Context) SetGoal(goal, summary string) {
	c.CurrentGoal = goal
	if summary != "" {
		c.ContextSummary = summary
	}
	c.interact()
}

// SetError sets what went wrong, and the current file unless it is "".
func (c *Context) SetError(message, file string) {
	c.ErrorContext = message
	if file != "" {
		c.CurrentFile = file
	}
	c.Touch(time.Now())
}

// AddChange adds a recent change. The oldest gives way where there are too many.
func (c *Context) AddChange(change string) {
	c.RecentChanges = newest(append(c.RecentChanges, change), MaxRecentChanges)
	c.Touch(time.Now())
}

// AddAPISpec names the OpenAPI document of an API.
func (c *Context) AddAPISpec(api, address string) {
	if c.APISpecs == nil {
		c.APISpecs = make(map[string]string)
	}
	c.APISpecs[api] = address
	c.Touch(time.Now())
}

// Record adds an entry to the history. The oldest gives way where there are more
// than MaxHistory.
func (c *Context) Record(entry HistoryEntry) {
	c.History = newest(append(c.History, entry), MaxHistory)
	c.interact()
}

// Touch sets LastUpdated, which never goes back.
func (c *Context) Touch(now time.Time) {
	if now = timestamp(now); now.After(c.LastUpdated) {
		c.LastUpdated = now
	}
}

func (c *Context) interact() {
	c.Touch(time.Now())
	if c.Session == nil {
		c.Session = &SessionMetadata{StartTime: c.CreatedAt, AgentType: c.AgentType}
	}
	c.Session.InteractionCount++
}

// hasFourDigits reports whether the year can be written as RFC 3339 has it, and
// read by Python, whose first year is 1. In UTC it may be another than in the time's
// own zone.
func hasFourDigits(t time.Time) bool {
	year := t.UTC().Year()
	return 1 <= year && year <= 9999
}

// newest returns the last items, at most limit of them.
func newest[T any](items []T, limit int) []T {
	if over := len(items) - limit; over > 0 {
		return slices.Delete(items, 0, over)
	}
	return items
}

// Validate returns what keeps the context from conforming to the context schema;
// nothing if it does. Strict takes the schema's word for the form of a context
// id, else it is the text's.
func (c *Context) Validate(strict bool) []Fault {
	var v validation
	v.check("context_id", checkContextID(c.ContextID, strict))
	v.check("agent_type", checkAgentType(c.AgentType))
	if len(c.RecentChanges) > MaxRecentChanges {
		v.check("recent_changes", ReasonTooMany)
	}
	if s := c.Session; s != nil {
		v.time("session/start_time", s.StartTime)
		if s.InteractionCount < 0 {
			v.check("session/interaction_count", ReasonNegative)
		}
		if s.AgentType == "" {
			v.check("session/agent_type", ReasonMissing)
		}
	}
	for i := range c.History {
		v.enter("history", i)
		c.History[i].validate(&v)
	}
	v.leave()
	for _, name := range slices.Sorted(maps.Keys(c.APISpecs)) {
		if !isAPIName(name) {
			v.check("api_specs", ReasonPattern)
		} else if !isURI(c.APISpecs[name]) {
			v.check("api_specs/"+name, ReasonURI)
		}
	}
	v.time("created_at", c.CreatedAt)
	v.time("last_updated", c.LastUpdated)
	v.texts(c)
	return v.faults
}

// validation gathers the faults of a context.
type validation struct {
	faults []Fault
	list   string // whose item is being looked at, "" for none
	item   int
}

// enter makes the names of fields those of one item of a list, until leave.
func (v *validation) enter(list string, item int) { v.list, v.item = list, item }
func (v *validation) leave()                      { v.list = "" }

func (v *validation) check(field string, reason Reason) {
	if reason == "" || len(v.faults) == maxFaults {
		return
	}
	if reason == ReasonEmpty {
		reason = ReasonMissing
	}
	v.faults = append(v.faults, Fault{Field: v.name(field), Reason: reason})
}

// name returns the name of a field, within the item that is being looked at.
func (v *validation) name(field string) string {
	if v.list == "" {
		return field
	}
	return strings.TrimSuffix(v.list+"/"+strconv.Itoa(v.item)+"/"+field, "/")
}

func (v *validation) time(field string, t time.Time) {
	switch {
	case t.IsZero():
		v.check(field, ReasonMissing)
	case !hasFourDigits(t):
		v.check(field, ReasonTimestamp)
	}
}

// texts checks what only a Context made in Go can get wrong.
func (v *validation) texts(c *Context) {
	for _, text := range []struct{ field, value string }{
		{"user", c.User},
		{"workspace", c.Workspace},
		{"current_file", c.CurrentFile},
		{"current_goal", c.CurrentGoal},
		{"context_summary", c.ContextSummary},
		{"error_context", c.ErrorContext},
	} {
		v.text(text.field, text.value)
	}
	for i, change := range c.RecentChanges {
		v.enter("recent_changes", i)
		v.text("", change)
	}
	v.leave()
}

func (v *validation) text(field, value string) {
	if !utf8.ValidString(value) {
		v.check(field, ReasonUTF8)
	}
}

func isAPIName(name string) bool {
	for i := range len(name) {
		if !isContextIDByte(name[i]) && name[i] != '_' {
			return false
		}
	}
	return name != ""
}

func isURI(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.IsAbs() && utf8.ValidString(text)
}
