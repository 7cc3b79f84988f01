package ocp

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// fieldNames are the fields of the context schema.
var fieldNames = [...]string{
	"context_id", "agent_type", "user", "workspace", "current_file", "current_goal", "context_summary",
	"error_context", "recent_changes", "session", "history", "api_specs", "created_at", "last_updated",
}

// fields are the fields of a session's JSON, each a part of it, still encoded.
type fields struct {
	all     jsontext.Value // the whole object
	known   [len(fieldNames)]jsontext.Value
	unknown bool // there are fields that the schema does not have
}

// split checks the JSON of a session and finds its fields.
func (f *fields) split(content []byte) *Fault {
	if fault := checkExtent(content); fault != nil {
		return fault
	}
	var twice *Fault
	err := wire.Split(content, func(name, value jsontext.Value) {
		i := fieldIndex(name)
		switch {
		case i < 0:
			f.unknown = true
		case f.known[i] != nil:
			twice = &Fault{Reason: ReasonJSON, Detail: "(it has " + fieldNames[i] + " twice)"}
		default:
			f.known[i] = value
		}
	})
	if err != nil {
		return jsonFault(err)
	}
	f.all = bytes.TrimSpace(content)
	return twice
}

// fieldIndex returns the position of a quoted name in fieldNames, -1 if it is
// not there.
func fieldIndex(quoted jsontext.Value) int {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		text, _ := unquote(quoted)
		name = []byte(text)
	}
	for i := range fieldNames {
		if string(name) == fieldNames[i] {
			return i
		}
	}
	return -1
}

// get returns one field, nil if it is absent.
func (f *fields) get(name string) jsontext.Value {
	for i := range fieldNames {
		if name == fieldNames[i] {
			return f.known[i]
		}
	}
	if f.unknown {
		for walk := wire.Into(f.all); walk.Next(); {
			if text, _ := unquote(walk.Name); text == name {
				return walk.Value
			}
		}
	}
	return nil
}

// decodeContext decodes all fields. What is of the wrong type is left out and
// becomes a fault; what its value then lacks is for Validate to say.
func decodeContext(f *fields) (*Context, []Fault) {
	var d decoder
	c := d.context(f)
	return c, d.faults
}

func (d *decoder) context(f *fields) *Context {
	c := d.brief(f)
	c.Session = d.session(f.get("session"))
	c.History = d.history(f.get("history"))
	c.APISpecs = d.apiSpecs(f.get("api_specs"))
	if f.unknown {
		d.unknownFields(f.all)
	}
	return c
}

// brief decodes the fields that are texts, times or a few of them.
func (d *decoder) brief(f *fields) *Context {
	return &Context{
		ContextID:      d.text("context_id", f.get("context_id"), false),
		AgentType:      d.text("agent_type", f.get("agent_type"), false),
		User:           d.text("user", f.get("user"), true),
		Workspace:      d.text("workspace", f.get("workspace"), true),
		CurrentFile:    d.text("current_file", f.get("current_file"), true),
		CurrentGoal:    d.text("current_goal", f.get("current_goal"), true),
		ContextSummary: d.text("context_summary", f.get("context_summary"), true),
		ErrorContext:   d.text("error_context", f.get("error_context"), true),
		RecentChanges:  d.changes(f.get("recent_changes")),
		CreatedAt:      d.time("created_at", f.get("created_at")),
		LastUpdated:    d.time("last_updated", f.get("last_updated")),
	}
}

// decoder decodes the fields of a context and gathers what is wrong with them.
type decoder struct {
	validation
	previous HistoryEntry // the one that was decoded before
	lost     *Fault       // the first fault because of which a value is not in the context
}

// lose reports a fault because of which a value is left out.
func (d *decoder) lose(field string, reason Reason) {
	d.check(field, reason)
	if d.lost == nil {
		d.lost = &Fault{Field: d.name(field), Reason: reason}
	}
}

func (d *decoder) text(field string, value jsontext.Value, nullable bool) string {
	switch {
	case value == nil, nullable && value.Kind() == 'n':
		return ""
	}
	text, ok := unquote(value)
	if !ok {
		d.lose(field, ReasonType)
	}
	return text
}

// timeLayouts are RFC 3339 first, then what clients have been seen to write: no
// offset, which is taken for UTC, and a space for the T.
var timeLayouts = [...]string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05"}

// maxTime is how long a timestamp may be, in bytes.
const maxTime = 64

func (d *decoder) time(field string, value jsontext.Value) time.Time {
	if value == nil {
		return time.Time{}
	}
	text, ok := unquote(value)
	if !ok {
		d.lose(field, ReasonType)
		return time.Time{}
	}
	if len(text) > maxTime {
		d.lose(field, ReasonTimestamp)
		return time.Time{}
	}
	text = strings.ToUpper(text)
	for i, layout := range timeLayouts {
		if t, err := time.Parse(layout, text); err == nil && !t.IsZero() && hasFourDigits(t) {
			if i > 0 {
				d.check(field, ReasonTimestamp)
			}
			return timestamp(t)
		}
	}
	if text == zeroTime {
		d.check(field, ReasonTimestamp)
	} else {
		d.lose(field, ReasonTimestamp)
	}
	return time.Time{}
}

// zeroTime is what AppendJSON writes for a time that is not set.
const zeroTime = "0001-01-01T00:00:00Z"

// count returns an integer, however it is written.
func (d *decoder) count(field string, value jsontext.Value) int64 {
	if value == nil {
		d.check(field, ReasonMissing)
		return 0
	}
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return n
	}
	const exact = 1 << 53
	f, err := strconv.ParseFloat(string(value), 64)
	if value.Kind() != '0' || err != nil || f != float64(int64(f)) || f < -exact || f > exact {
		d.lose(field, ReasonType)
		return 0
	}
	return int64(f)
}

// isKind reports whether a value is there and of that kind. Null is not what the
// schema has, but what some clients write for what they do not have.
func (d *decoder) isKind(field string, value jsontext.Value, kind jsontext.Kind) bool {
	if value == nil {
		return false
	}
	if value.Kind() == 'n' {
		d.check(field, ReasonType)
		return false
	}
	if value.Kind() != kind {
		d.lose(field, ReasonType)
		return false
	}
	return true
}

func (d *decoder) changes(value jsontext.Value) (changes []string) {
	const field = "recent_changes"
	if !d.isKind(field, value, '[') {
		return nil
	}
	skip := max(countElements(value)-MaxRecentChanges, 0)
	if skip > 0 {
		d.lose(field, ReasonTooMany)
	}
	walk := wire.Into(value)
	for i := 0; walk.Next(); i++ {
		if i < skip {
			continue
		}
		text, ok := unquote(walk.Value)
		if !ok {
			d.lose(field, ReasonType)
			continue
		}
		changes = append(changes, text)
	}
	return changes
}

// countElements returns how many items or members a checked value has.
func countElements(value jsontext.Value) (count int) {
	for walk := wire.Into(value); walk.Next(); {
		count++
	}
	return count
}

func (d *decoder) session(value jsontext.Value) *SessionMetadata {
	if !d.isKind("session", value, '{') {
		return nil
	}
	m := &SessionMetadata{}
	var extra extraMembers
	const start, count, agent = 1, 2, 4
	seen, ok := d.eachMember("session", value, func(known string, name, value jsontext.Value) (bit int) {
		switch known {
		case "start_time":
			m.StartTime = d.time("session/start_time", value)
			return start
		case "interaction_count":
			m.InteractionCount = d.count("session/interaction_count", value)
			return count
		case "agent_type":
			m.AgentType = d.text("session/agent_type", value, false)
			return agent
		}
		extra.add(name, value)
		return 0
	})
	if !ok || seen == 0 && extra == nil {
		return nil
	}
	if seen&count == 0 {
		d.check("session/interaction_count", ReasonMissing)
	}
	m.Extra, ok = extra.object()
	if !ok {
		d.lose("session", ReasonJSON)
	}
	return m
}

// eachMember calls read with each member of an object, and with what memberName
// makes of its name. Read returns a bit for each name that it knows; seen is all
// of them. It is not ok if there are too many members, or one that read knows came
// twice.
func (d *decoder) eachMember(field string, object jsontext.Value, read func(known string, name, value jsontext.Value) (bit int)) (seen int, ok bool) {
	if hasManyMembers(object) {
		d.lose(field, ReasonTooMany)
		return 0, false
	}
	for walk := wire.Into(object); walk.Next(); {
		bit := read(memberName(walk.Name), walk.Name, walk.Value)
		if seen&bit != 0 {
			d.lose(field, ReasonJSON)
			return seen, false
		}
		seen |= bit
	}
	return seen, true
}

// hasManyMembers reports whether an object has more than maxMembers.
func hasManyMembers(object jsontext.Value) bool {
	const shortest = len(`"":0,`)
	return len(object) > shortest*maxMembers && countElements(object) > maxMembers
}

// memberName returns the name if it is one that the schema has inside session,
// history and metadata, and allocates nothing; "" for any other.
func memberName(quoted jsontext.Value) string {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		text, _ := unquote(quoted)
		name = []byte(text)
	}
	switch string(name) { // which allocates nothing
	case "timestamp":
		return "timestamp"
	case "action":
		return "action"
	case "api_endpoint":
		return "api_endpoint"
	case "result":
		return "result"
	case "metadata":
		return "metadata"
	case "operation":
		return "operation"
	case "tool_name":
		return "tool_name"
	case "start_time":
		return "start_time"
	case "interaction_count":
		return "interaction_count"
	case "agent_type":
		return "agent_type"
	}
	return ""
}

// extraMembers is an object of members that have no field of their own, still
// open; nil if there are none.
type extraMembers []byte

func (x *extraMembers) add(name, value jsontext.Value) {
	object := *x
	if object == nil {
		object = append(object, '{')
	} else {
		object = append(object, ',')
	}
	object = append(object, name...)
	object = append(object, ':')
	*x = append(object, value...)
}

// object returns the object, nil if there are no members. It is not ok, and nil,
// if a name comes twice in it, at any depth.
func (x extraMembers) object() (object jsontext.Value, ok bool) {
	if x == nil {
		return nil, true
	}
	object = jsontext.Value(append(x, '}'))
	if !object.IsValid() {
		return nil, false
	}
	return object, true
}

func (d *decoder) apiSpecs(value jsontext.Value) map[string]string {
	const field = "api_specs"
	if !d.isKind(field, value, '{') {
		return nil
	}
	if hasManyMembers(value) {
		d.lose(field, ReasonTooMany)
		return nil
	}
	var specs map[string]string
	for walk := wire.Into(value); walk.Next(); {
		name, _ := unquote(walk.Name)
		address, ok := unquote(walk.Value)
		switch {
		case !isAPIName(name):
			d.once(field, ReasonPattern)
			d.lost = cmp.Or(d.lost, &Fault{Field: field, Reason: ReasonPattern})
			continue
		case !ok:
			d.lose(field+"/"+name, ReasonType)
			continue
		case !isURI(address):
			d.lose(field+"/"+name, ReasonURI)
			continue
		case specs == nil:
			specs = make(map[string]string)
		}
		specs[name] = address
	}
	return specs
}

// once reports a fault of a field unless it is known already.
func (d *decoder) once(field string, reason Reason) {
	for _, fault := range d.faults {
		if fault.Field == field && fault.Reason == reason {
			return
		}
	}
	d.check(field, reason)
}

// unknownFields reports the fields that the schema does not have. Their names
// are the client's own words, so a fault has only a short one in it.
func (d *decoder) unknownFields(all jsontext.Value) {
	const longest = 64
	for walk := wire.Into(all); walk.Next() && len(d.faults) < maxFaults; {
		if fieldIndex(walk.Name) < 0 {
			name, _ := unquote(walk.Name)
			d.check(clip(name, longest), ReasonUnknown)
		}
	}
}
