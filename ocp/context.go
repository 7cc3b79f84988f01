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
	// maxRecentChanges is the largest number of recent changes in a context.
	maxRecentChanges = 10

	// MaxHistory is the largest number of history entries in a context. The newest are
	// kept.
	MaxHistory = 1000

	// maxMembers is the largest number of members of an object inside a context.
	maxMembers = 256

	// maxFaults is the largest number of faults reported for one context.
	maxFaults = 32
)

// A Context describes an agent's work (OCP 1.0, Context Schema). A text field that is ""
// is absent or null. Times are in UTC with microsecond precision.
//
// A Context that comes from a Session or an Incoming is shared and must not be changed.
// Clone it first.
type Context struct {
	ContextID      string // required: [a-zA-Z0-9-]{1,64}
	AgentType      string // required: [a-zA-Z0-9_.-]{1,128}
	User           string
	Workspace      string
	CurrentFile    string
	CurrentGoal    string
	ContextSummary string
	ErrorContext   string
	RecentChanges  []string          // oldest first, at most 10
	Session        *SessionMetadata  // nil if absent
	History        []HistoryEntry    // oldest first
	APISpecs       map[string]string // URL of an OpenAPI document by API name, [a-zA-Z0-9_-]+
	CreatedAt      time.Time         // required
	LastUpdated    time.Time         // required
}

// SessionMetadata is the field session of a context.
type SessionMetadata struct {
	StartTime        time.Time
	InteractionCount int64
	AgentType        string
	Extra            jsontext.Value // an object of additional fields; nil if there are none
}

// NewContext returns the context of a new session. Its random context id is valid for the
// context schema.
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

// timestamp returns the time as it is after it has been encoded and decoded.
func timestamp(t time.Time) time.Time {
	return t.UTC().Truncate(time.Microsecond)
}

// Clone returns a deep copy. Changing one does not affect the other.
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

// SetGoal sets the current goal and counts an interaction. If summary is not "", it also
// sets the summary.
func (c *Context) SetGoal(goal, summary string) {
	c.CurrentGoal = goal
	if summary != "" {
		c.ContextSummary = summary
	}
	c.interact()
}

// SetError sets the error context. If file is not "", it also sets the current file.
func (c *Context) SetError(message, file string) {
	c.ErrorContext = message
	if file != "" {
		c.CurrentFile = file
	}
	c.Touch(time.Now())
}

// AddChange adds a recent change. If there are more than 10, it drops the
// oldest.
func (c *Context) AddChange(change string) {
	c.RecentChanges = newest(append(c.RecentChanges, change), maxRecentChanges)
	c.Touch(time.Now())
}

// AddAPISpec sets the address of the OpenAPI document of an API.
func (c *Context) AddAPISpec(api, address string) {
	if c.APISpecs == nil {
		c.APISpecs = make(map[string]string)
	}
	c.APISpecs[api] = address
	c.Touch(time.Now())
}

// Record adds an entry to the history. If there are more than MaxHistory, it drops the
// oldest.
func (c *Context) Record(entry HistoryEntry) {
	c.History = newest(append(c.History, entry), MaxHistory)
	c.interact()
}

// Touch sets LastUpdated to now. LastUpdated never moves back.
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

// hasFourDigits reports whether the year, in UTC, can be written in RFC 3339 and read by
// Python, whose first year is 1. The year in UTC may differ from that in the time's zone.
func hasFourDigits(t time.Time) bool {
	year := t.UTC().Year()
	return 1 <= year && year <= 9999
}

// newest returns the last limit items, or all if there are fewer.
func newest[T any](items []T, limit int) []T {
	if over := len(items) - limit; over > 0 {
		return slices.Delete(items, 0, over)
	}
	return items
}

// Validate returns the faults that keep the context from conforming to the context schema,
// or none. If strict is true, a context id must match the pattern of the schema. Otherwise
// it must match the rule in the text of the protocol.
func (c *Context) Validate(strict bool) []Fault {
	var v validation
	v.check("context_id", checkContextID(c.ContextID, strict))
	v.check("agent_type", checkAgentType(c.AgentType))
	if len(c.RecentChanges) > maxRecentChanges {
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

// validation collects the faults of a context.
type validation struct {
	faults []Fault
	list   string // the list whose item is being validated; "" if none
	item   int
}

// enter prefixes the names of fields with one item of a list, until leave is called.
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

// name returns the full name of a field, including the list item that is being validated.
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

// texts checks what cannot be wrong in a decoded context, only in one built in Go.
func (v *validation) texts(c *Context) {
	v.text("user", c.User)
	v.text("workspace", c.Workspace)
	v.text("current_file", c.CurrentFile)
	v.text("current_goal", c.CurrentGoal)
	v.text("context_summary", c.ContextSummary)
	v.text("error_context", c.ErrorContext)
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

// ValidAPISpec reports whether api_specs can have the name and the address (OCP 1.0,
// Context Object).
func ValidAPISpec(api, address string) bool {
	return isAPIName(api) && isURI(address)
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
