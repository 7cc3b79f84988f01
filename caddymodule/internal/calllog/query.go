package calllog

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/internal/keptcall"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

// Query selects calls that have ended.
type Query struct {
	Site     string    // only calls of this site; "" for all
	Owner    *string   // only calls of this user; nil for all
	From, To time.Time // when the calls have ended; zero for no limit

	// Match has texts by the name of a field. Id, outcome and protocol must be equal to it. Tool, user, agent, toolset,
	// node, trace and engagement must begin with it. The user "anonymous" selects callers without authentication.
	Match map[string]string

	// View removes what the reader may not see from a call, so that Text does not find it. Nil removes nothing.
	View func(*Call)

	Would  bool   // only calls that a rule in log only would have stopped or changed
	Text   string // must be contained in the JSON of the call, regardless of the case of ASCII letters; "" for no limit
	Cursor string // Found.Next of the page before; "" for the first page
	Limit  int    // of calls, at most MaxFound
}

// Selects reports whether the query selects a call. Time range and text do not count.
func (q *Query) Selects(call *Call) bool {
	for name, wanted := range q.Match {
		if f, known := fields[name]; known && !f.matches(FieldOf(call, name), wanted) {
			return false
		}
	}
	return (!q.Would || call.Would.Effect != "") && (q.Site == "" || call.Site == q.Site) && (q.Owner == nil || call.User == text.Cut(*q.Owner, keptcall.MaxText))
}

// Anonymous is the value of Query.Match for callers that are not authenticated.
const Anonymous = "anonymous"

// Fields are the names of the fields that Query.Match can have.
var Fields = slices.Sorted(maps.Keys(fields))

// fields are the fields of Call with the tag find, by their name in JSON.
var fields = func() map[string]field {
	all := make(map[string]field)
	for f := range reflect.TypeFor[Call]().Fields() {
		if find := f.Tag.Get("find"); find != "" {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			all[name] = field{name, f.Index[0], find == "equal"}
		}
	}
	return all
}()

// FieldOf returns the value of one of Fields.
func FieldOf(c *Call, name string) string {
	return reflect.ValueOf(c).Elem().Field(fields[name].index).String()
}

// field is a field of Call that Query.Match can have.
type field struct {
	name  string
	index int
	equal bool // otherwise a value must begin with what is wanted
}

// matches reports whether a value fits the wanted text.
func (f field) matches(value, wanted string) bool {
	switch {
	case f.equal:
		return wanted == "" || value == wanted
	case f.name == "user" && wanted == Anonymous && value == "":
		return true
	}
	return strings.HasPrefix(value, wanted)
}

// ParseQuery reads the parameters of a request:
//
//   - those of Fields, for Query.Match, and text
//   - would=refuse, for Query.Would
//   - since and until, each a time (RFC 3339, or without a zone for UTC) or a duration before now, such as 1h or 7d
//   - cursor and limit
//
// It ignores others.
func ParseQuery(parameters url.Values, now time.Time) (q Query, err error) {
	q = Query{Match: make(map[string]string), Text: text.Cut(parameters.Get("text"), keptcall.MaxReason), Cursor: parameters.Get("cursor"), Limit: 100}
	for _, field := range Fields {
		if value := parameters.Get(field); value != "" {
			q.Match[field] = value
		}
	}
	if q.From, err = parseTime(parameters.Get("since"), now); err != nil {
		return q, fmt.Errorf("since: %w", err)
	}
	if q.To, err = parseTime(parameters.Get("until"), now); err != nil {
		return q, fmt.Errorf("until: %w", err)
	}
	would := parameters.Get("would")
	if q.Would = would != ""; q.Would && would != "refuse" {
		return q, errors.New("would must be refuse")
	}
	if limit := parameters.Get("limit"); limit != "" {
		if q.Limit, err = strconv.Atoi(limit); err != nil || q.Limit < 1 || q.Limit > MaxFound {
			return q, fmt.Errorf("limit must be a whole number from 1 to %d", MaxFound)
		}
	}
	_, err = parseCursor(q.Cursor)
	return q, err
}

// parseTime reads a time, or a duration before now. That of "" is the zero time.
func parseTime(value string, now time.Time) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	if before, err := caddy.ParseDuration(value); err == nil && before >= 0 {
		return now.Add(-before), nil
	}
	at, ok := ExactTime(value)
	if !ok {
		return at, errors.New("not a time such as 2026-01-31T12:00:00Z, and not a duration such as 1h or 7d")
	}
	return at, nil
}

// ExactTime reads a time that is no duration: of RFC 3339, or as fields of forms send it, without a zone, in UTC.
func ExactTime(value string) (at time.Time, ok bool) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if at, err := time.Parse(layout, value); err == nil {
			return at, true
		}
	}
	return at, false
}

// filter decides about calls by the bytes of their JSON, so that only calls that may fit are decoded.
type filter struct {
	parts   [][]byte // the JSON of each call that fits has these
	text    []byte   // and this, in lower case
	number  int64    // of the only call that fits; 0 for all
	unknown bool     // callers who are not authenticated fit
	lower   []byte   // memory
}

func newFilter(q *Query) *filter {
	f := &filter{text: appendLower(nil, []byte(q.Text)), unknown: q.Match["user"] == Anonymous || q.Owner != nil && *q.Owner == ""}
	member := func(name, value string, whole bool) {
		quoted, _ := jsontext.AppendQuote(nil, value)
		if !whole {
			quoted = quoted[:len(quoted)-1]
		}
		f.parts = append(f.parts, slices.Concat([]byte(`"`+name+`":`), quoted))
	}
	if q.Site != "" {
		member("site", q.Site, true)
	}
	if q.Owner != nil && !f.unknown {
		member("user", text.Cut(*q.Owner, keptcall.MaxText), true)
	}
	if q.Would {
		f.parts = append(f.parts, []byte(`,"would":{`))
	}
	for name, wanted := range q.Match {
		if node, number, ok := parseID(wanted); ok && name == "id" {
			f.number = number
			member("node", node, true)
			f.parts = append(f.parts, fmt.Appendf(nil, `{"number":%d,`, number))
			continue
		}
		if of, known := fields[name]; known && wanted != "" && (name != "user" || !f.unknown) {
			member(name, wanted, of.equal)
		}
	}
	return f
}

// may reports whether one of the calls with these lines may fit.
func (f *filter) may(lines []byte) bool {
	for _, part := range f.parts {
		if !bytes.Contains(lines, part) {
			return false
		}
	}
	if len(f.text) == 0 {
		return true
	}
	f.lower = appendLower(f.lower[:0], lines)
	return bytes.Contains(f.lower, f.text)
}

// hasText reports whether a text of a call has the text of the query. Names and numbers are no texts.
func (f *filter) hasText(line []byte) bool {
	if len(f.text) == 0 {
		return true
	}
	f.lower = appendLower(f.lower[:0], line)
	for walk := strictjson.Into(f.lower); walk.Next(); {
		switch string(walk.Key()) {
		case "node", "site", "began", "ended", "protocol": // a search for them would find all calls
			continue
		case "id": // has digits that are in it by chance
			if string(walk.Value) != `"`+string(f.text)+`"` {
				continue
			}
		}
		if walk.Value.Kind() != '0' && bytes.Contains(walk.Value, f.text) {
			return true
		}
	}
	return false
}

// mayLine reports whether the call of a line may fit.
func (f *filter) mayLine(line []byte) bool {
	if f.unknown && !bytes.Contains(line, []byte(`"user":"`+Anonymous)) {
		// No text before the member protocol has a quotation mark that is not escaped, so this is the member user.
		if at := bytes.Index(line, []byte(`,"user":"`)); at >= 0 && at < bytes.Index(line, []byte(`,"protocol":`)) {
			return false
		}
	}
	return f.may(line)
}
