package calllog

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/text"
)

// Query selects calls that have ended.
type Query struct {
	Site     string    // only calls of this site; "" for all
	Owner    *string   // only calls of this user; nil for all
	From, To time.Time // when the calls have ended; zero for no limit

	// Match has texts by the name of a field. Outcome and protocol must be equal to it. Tool, user, agent, toolset,
	// node, trace and engagement must begin with it. The user "anonymous" selects callers without authentication.
	Match map[string]string

	Text   string // must be contained in the JSON of the call, regardless of the case of ASCII letters; "" for no limit
	Cursor string // Found.Next of the page before; "" for the first page
	Limit  int    // of calls, at most MaxFound
}

// Selects reports whether the query selects a call in progress. Time range and text do not count.
func (q *Query) Selects(call *Call) bool {
	c := new(columns)
	c.add(call)
	filter := newRowFilter(q, c)
	return filter != nil && filter.fits(&c.rows[0]) && strings.HasPrefix(call.Node, q.Match["node"]) &&
		matches("trace", call.Trace, q.Match["trace"]) && matches("engagement", call.Engagement, q.Match["engagement"])
}

// Anonymous is the value of Query.Match for callers that are not authenticated.
const Anonymous = "anonymous"

// Fields are the names of the fields that Query.Match can have.
var Fields = []string{"tool", "user", "agent", "toolset", "protocol", "outcome", "node", "trace", "engagement"}

// columnFields are the fields that a column has.
var columnFields = map[string]column{
	"protocol": columnProtocol, "toolset": columnToolset, "tool": columnTool, "outcome": columnOutcome, "user": columnUser, "agent": columnAgent,
}

// ParseQuery reads the parameters of a request:
//
//   - those of Fields, for Query.Match, and text
//   - since and until, each a time (RFC 3339) or a duration before now, such as 1h or 7d
//   - cursor and limit
//
// It ignores others.
func ParseQuery(parameters url.Values, now time.Time) (q Query, err error) {
	q = Query{Match: make(map[string]string), Text: text.Cut(parameters.Get("text"), MaxReason), Cursor: parameters.Get("cursor"), Limit: 100}
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
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return at, errors.New("not a time such as 2026-01-31T12:00:00Z, and not a duration such as 1h or 7d")
	}
	return at, nil
}

// matches reports whether the value of a field fits the wanted text.
func matches(field, value, wanted string) bool {
	switch {
	case wanted == "":
		return true
	case field == "protocol" || field == "outcome":
		return value == wanted
	case field == "user" && wanted == Anonymous && value == "":
		return true
	}
	return strings.HasPrefix(value, wanted)
}

// rowFilter decides about the rows of a segment.
type rowFilter struct {
	allowed           [columnCount][]bool // by position in columns.names; nil if all are allowed
	trace, engagement uint32              // 0 for all
}

// newRowFilter returns the filter of a query, or nil if no row can fit.
func newRowFilter(q *Query, c *columns) *rowFilter {
	f := new(rowFilter)
	for field, in := range columnFields {
		if wanted := q.Match[field]; wanted != "" && !f.allow(in, c, func(name string) bool { return matches(field, name, wanted) }) {
			return nil
		}
	}
	if q.Site != "" && !f.allow(columnSite, c, func(name string) bool { return name == q.Site }) {
		return nil
	}
	if q.Owner != nil {
		owner := text.Cut(*q.Owner, maxText)
		if !f.allow(columnUser, c, func(name string) bool { return name == owner }) {
			return nil
		}
	}
	if id := q.Match["trace"]; len(id) >= fingerprintLength {
		f.trace = fingerprint(id)
	}
	if id := q.Match["engagement"]; len(id) >= fingerprintLength {
		f.engagement = fingerprint(id)
	}
	return f
}

// allow limits a column to the names that fit. It returns false if there are none.
func (f *rowFilter) allow(in column, c *columns, fits func(name string) bool) (any bool) {
	allowed := make([]bool, len(c.names))
	for i, name := range c.names {
		allowed[i] = fits(name) && (f.allowed[in] == nil || f.allowed[in][i])
		any = any || allowed[i]
	}
	f.allowed[in] = allowed
	return any
}

// fits reports whether a row may fit. Fingerprints of different ids can be equal.
func (f *rowFilter) fits(r *row) bool {
	for in, allowed := range f.allowed {
		if allowed != nil && !allowed[r.names[in]] {
			return false
		}
	}
	return (f.trace == 0 || r.trace == f.trace) && (f.engagement == 0 || r.engagement == f.engagement)
}
