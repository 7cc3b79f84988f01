package ocp

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

// fieldNames are the fields of the context schema.
var fieldNames = [...]string{
	"context_id", "agent_type", "user", "workspace", "current_file", "current_goal", "context_summary",
	"error_context", "recent_changes", "session", "history", "api_specs", "created_at", "last_updated",
}

// fieldKinds are the JSON types of these fields by the text of the protocol; 0 where it does not say. Those that are
// also headers are texts.
var fieldKinds = [len(fieldNames)]jsontext.Kind{'"', '"', '"', '"', 0, '"', 0, 0, '[', '{', '[', '{', '"', '"'}

// fields are the fields of a session's JSON object, still encoded.
type fields struct {
	all     jsontext.Value // the whole object
	known   [len(fieldNames)]jsontext.Value
	unknown bool // some fields are not in the schema
}

// split validates the JSON of a session and finds its fields.
func (f *fields) split(content []byte) *Fault {
	if fault := checkExtent(content); fault != nil {
		return fault
	}
	var twice *Fault
	err := strictjson.Split(content, func(name, value jsontext.Value) {
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

// fieldIndex returns the position of a quoted name in fieldNames, or -1.
func fieldIndex(quoted jsontext.Value) int {
	return indexOf(fieldNames[:], quoted)
}

// indexOf returns the position of a quoted name in names, or -1. It does not allocate.
func indexOf(names []string, quoted jsontext.Value) int {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		source, _ := unquote(quoted)
		name = []byte(source)
	}
	return slices.IndexFunc(names, func(known string) bool { return string(name) == known })
}

// violation returns the first value that breaks a rule in the text of the protocol (OCP 1.0, Context Schema), whatever
// the schema says. Members may be absent, as in the text's own example, or null.
func (f *fields) violation() *Fault {
	for i, value := range f.known {
		name, reason := fieldNames[i], Reason("")
		switch kind := value.Kind(); {
		case kind == 0 || kind == 'n' || fieldKinds[i] == 0:
			continue
		case kind != fieldKinds[i]:
			reason = ReasonType
		case name == "recent_changes" && countElements(value) > maxRecentChanges:
			reason = ReasonTooMany
		case name == "created_at" || name == "last_updated":
			source, _ := unquote(value)
			if _, _, ok := parseTime(source); !ok {
				reason = ReasonTimestamp
			}
		case name == "api_specs":
			for walk := strictjson.Into(value); walk.Next(); {
				if walk.Value.Kind() != '"' {
					reason = ReasonType
				}
			}
		}
		if reason != "" {
			return &Fault{Field: name, Reason: reason}
		}
	}
	return nil
}

// contradiction returns a fault if a field has another value than the header, unless one of them is absent.
func (f *fields) contradiction(field, header string) *Fault {
	if value, _ := unquote(f.get(field)); value != "" && header != "" && value != header {
		return &Fault{Field: field, Reason: ReasonDisagrees}
	}
	return nil
}

// get returns one field, or nil if it is absent.
func (f *fields) get(name string) jsontext.Value {
	for i := range fieldNames {
		if name == fieldNames[i] {
			return f.known[i]
		}
	}
	if f.unknown {
		for walk := strictjson.Into(f.all); walk.Next(); {
			if source, _ := unquote(walk.Name); source == name {
				return walk.Value
			}
		}
	}
	return nil
}

// decodeContext decodes all fields. If a value has the wrong type, it is omitted and
// reported as a fault. Validate reports values that are missing or invalid.
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

// brief decodes only the fields that are texts, times or short lists.
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

// decoder decodes the fields of a context and collects the faults.
type decoder struct {
	validation
	previous HistoryEntry // the last decoded entry
	lost     *Fault       // the first fault that caused a value to be omitted
}

// lose reports a fault that causes a value to be omitted.
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
	source, ok := unquote(value)
	if !ok {
		d.lose(field, ReasonType)
	}
	return source
}

// timeLayouts are the accepted time formats: RFC 3339 first, then formats that known clients write, and further ones of
// ISO 8601. Without an offset, the time is UTC.
var timeLayouts = [...]string{
	time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05",
	"2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07", "2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02", "2006-002",
	"20060102T150405Z0700", "20060102T150405Z07", "20060102T150405", "20060102T1504Z0700", "20060102T1504", "20060102",
}

// parseTime parses a time of ISO 8601. exact reports whether it has the form of RFC 3339.
func parseTime(source string) (t time.Time, exact, ok bool) {
	if len(source) > maxTime {
		return t, false, false
	}
	source = strings.ToUpper(source)
	for i, layout := range timeLayouts {
		if t, err := time.Parse(layout, source); err == nil {
			return t, i == 0, true
		}
	}
	return t, false, false
}

// maxTime is the maximum length of a timestamp, in bytes.
const maxTime = 64

func (d *decoder) time(field string, value jsontext.Value) time.Time {
	if value == nil {
		return time.Time{}
	}
	source, ok := unquote(value)
	if !ok {
		d.lose(field, ReasonType)
		return time.Time{}
	}
	t, exact, ok := parseTime(source)
	switch {
	case ok && t.IsZero(): // AppendJSON writes it for an unset time
		d.check(field, ReasonTimestamp)
		return time.Time{}
	case !ok || !hasFourDigits(t):
		d.lose(field, ReasonTimestamp)
		return time.Time{}
	case !exact:
		d.check(field, ReasonTimestamp)
	}
	return timestamp(t)
}

// count returns an integer in any JSON number notation.
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

// isKind reports whether a value is present and has the given kind. Null counts as absent
// and is not in the schema, but some clients write it.
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
	if countElements(value) > maxRecentChanges {
		d.lose(field, ReasonTooMany)
		return nil
	}
	for walk := strictjson.Into(value); walk.Next(); {
		source, ok := unquote(walk.Value)
		if !ok {
			d.lose(field, ReasonType)
			continue
		}
		changes = append(changes, source)
	}
	return changes
}

// countElements returns the number of items or members of a validated value.
func countElements(value jsontext.Value) (count int) {
	for walk := strictjson.Into(value); walk.Next(); {
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

// eachMember calls read for each member of an object. Known is the name as memberName
// returns it. Read returns a bit for each name that it handles, and seen is the union of
// these bits. Ok is false if there are too many members or if a handled name is repeated.
func (d *decoder) eachMember(field string, object jsontext.Value, read func(known string, name, value jsontext.Value) (bit int)) (seen int, ok bool) {
	if hasManyMembers(object) {
		d.lose(field, ReasonTooMany)
		return 0, false
	}
	for walk := strictjson.Into(object); walk.Next(); {
		bit := read(memberName(walk.Name), walk.Name, walk.Value)
		if seen&bit != 0 {
			d.lose(field, ReasonJSON)
			return seen, false
		}
		seen |= bit
	}
	return seen, true
}

// hasManyMembers reports whether an object has more than maxMembers members.
func hasManyMembers(object jsontext.Value) bool {
	const shortest = len(`"":0,`)
	return len(object) > shortest*maxMembers && countElements(object) > maxMembers
}

// memberName returns the name if the schema defines it inside session, history or
// metadata, and "" otherwise. It does not allocate.
func memberName(quoted jsontext.Value) string {
	if i := indexOf(knownMembers[:], quoted); i >= 0 {
		return knownMembers[i]
	}
	return ""
}

// knownMembers are the names that the schema defines inside session, history and metadata.
var knownMembers = [...]string{
	"timestamp", "action", "api_endpoint", "result", "metadata", "operation", "tool_name", "start_time", "interaction_count", "agent_type",
}

// extraMembers is a JSON object, not closed yet, of the members without a field of their
// own. It is nil if there are none.
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

// object returns the closed object, or nil if it has no members. If a name is repeated at
// any depth, it returns nil and ok is false.
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
	for walk := strictjson.Into(value); walk.Next(); {
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

// once reports a fault of a field unless the field already has one.
func (d *decoder) once(field string, reason Reason) {
	for _, fault := range d.faults {
		if fault.Field == field && fault.Reason == reason {
			return
		}
	}
	d.check(field, reason)
}

// unknownFields reports the fields that the schema does not define. A client can choose
// any name, so a fault contains the name only if it is short.
func (d *decoder) unknownFields(all jsontext.Value) {
	const longest = 64
	for walk := strictjson.Into(all); walk.Next() && len(d.faults) < maxFaults; {
		if fieldIndex(walk.Name) < 0 {
			name, _ := unquote(walk.Name)
			d.check(text.Cut(name, longest), ReasonUnknown)
		}
	}
}
