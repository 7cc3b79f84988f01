package calllog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/store"
)

// Limits of Find.
const (
	MaxFound   = 1000                   // calls of one page
	searchTime = 250 * time.Millisecond // after which Find returns what it has
)

// Query selects calls that have ended.
type Query struct {
	Site     string    // only calls of this site; "" for all
	Owner    *string   // only calls of this user; nil for all
	From, To time.Time // when the calls have ended; zero for no limit

	// Match has texts by the name of a field. Outcome and protocol must be equal to it. Tool, user, agent, toolset,
	// node, trace and engagement must begin with it. The user "anonymous" stands for callers without authentication.
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

// Found is a page of calls.
type Found struct {
	Calls   []Call `json:"calls"`             // newest first
	Next    string `json:"next,omitempty"`    // cursor of the next page, "" if this is the last one
	Partial bool   `json:"partial,omitempty"` // the search ended early, because it took too long. Next goes on with it
}

// ErrCursor reports a cursor that Find has not returned.
var ErrCursor = errors.New("the cursor is invalid")

// Find returns the calls of all nodes that have ended and that the query selects, newest first. If the store
// fails, Find returns the calls that were not yet written, with the error.
func (l *Log) Find(ctx context.Context, q Query) (Found, error) {
	before, err := parseCursor(q.Cursor)
	if err != nil {
		return Found{}, err
	}
	q.Limit = min(max(q.Limit, 1), MaxFound)
	s := &search{query: &q, before: before, until: time.Now().Add(searchTime), text: bytes.ToLower([]byte(q.Text))}
	err = s.addSource(ctx, newPending(l.all.node, l.all.ended()))
	if err == nil {
		s.records, err = l.keeper.open(ctx)
	}
	if err == nil {
		err = s.run(ctx)
	}
	found, failed := s.page(ctx)
	return found, cmp.Or(err, failed)
}

// Get returns the call with that ID, or store.ErrNotFound.
func (l *Log) Get(ctx context.Context, id string) (Call, error) {
	node, number, ok := parseID(id)
	if !ok {
		return Call{}, store.ErrNotFound
	}
	sources := []*source{newPending(l.all.node, l.all.ended())}
	records, err := l.keeper.open(ctx)
	if err == nil {
		var places []place
		places, err = placesIn(ctx, records, time.Time{})
		for _, p := range slices.Backward(places) {
			if p.node == node {
				sources = append(sources, &source{place: p, records: records})
			}
		}
	}
	for _, from := range sources {
		if err := cmp.Or(from.read(ctx), from.decodeRows()); err != nil || len(from.rows) == 0 || from.rows[0].number > number {
			continue
		}
		i, found := slices.BinarySearchFunc(from.rows, number, func(r row, number int64) int { return cmp.Compare(r.number, number) })
		if !found || from.node != node {
			continue
		}
		lines, err := from.details(ctx, []int{i})
		if err != nil || len(lines) == 0 {
			return Call{}, cmp.Or(err, store.ErrNotFound)
		}
		return decodeCall(lines[0])
	}
	return Call{}, cmp.Or(err, store.ErrNotFound)
}

// position is a position in the list of all calls, newest first: after the calls that have ended at or after a time.
type position struct {
	ended  int64 // microseconds since 1970
	node   string
	number int64
}

// position returns the position of an ended call.
func (c *Call) position() position { return position{c.Ended.UnixMicro(), c.Node, c.Number} }

// compare orders positions by time.
func (p position) compare(other position) int {
	return cmp.Or(cmp.Compare(p.ended, other.ended), cmp.Compare(p.node, other.node), cmp.Compare(p.number, other.number))
}

// cursor returns the text for clients.
func (p position) cursor() string {
	return strconv.FormatInt(p.ended, 36) + "." + p.node + "." + strconv.FormatInt(p.number, 10)
}

// parseCursor returns the position of a cursor. That of "" is nil.
func parseCursor(cursor string) (*position, error) {
	if cursor == "" {
		return nil, nil
	}
	ended, id, ok := strings.Cut(cursor, ".")
	p := new(position)
	var err error
	p.ended, err = strconv.ParseInt(ended, 36, 64)
	dot := strings.LastIndexByte(id, '.')
	if !ok || err != nil || dot < 0 || len(cursor) > store.MaxKey {
		return nil, ErrCursor
	}
	p.node = id[:dot]
	if p.number, err = strconv.ParseInt(id[dot+1:], 10, 64); err != nil {
		return nil, ErrCursor
	}
	return p, nil
}

// source has calls of one node: a segment, or the calls that wait for the store.
type source struct {
	place
	*columns // nil until read

	records store.Store // nil if the calls are pending
	pending []Call
}

// newPending returns the source of calls that wait for the store.
func newPending(node string, calls []Call) *source {
	c := new(columns)
	for i := range calls {
		c.add(&calls[i])
	}
	return &source{place: place{node: node}, columns: c, pending: calls}
}

// read reads the columns. A segment that does not exist any more has no rows.
func (s *source) read(ctx context.Context) error {
	if s.columns != nil {
		return nil
	}
	record, err := s.records.Get(ctx, s.key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		s.columns = new(columns)
		return nil
	case err != nil:
		return err
	}
	if s.columns, err = decodeColumns(record.Value); err != nil {
		s.columns = new(columns)
	}
	return err
}

// details returns the JSON of the calls of these rows, which are in ascending order.
func (s *source) details(ctx context.Context, rows []int) (lines [][]byte, err error) {
	if s.records == nil {
		for _, i := range rows {
			line, err := encodeCall(&s.pending[i])
			if err != nil {
				return nil, err
			}
			lines = append(lines, line)
		}
		return lines, nil
	}
	var batch [][]byte
	for read := -1; len(rows) > 0; rows = rows[1:] {
		number, position := s.batchOf(rows[0])
		if number != read {
			entries, err := s.records.Read(ctx, s.key, int64(number), 1)
			if err != nil {
				return nil, err
			}
			if len(entries) == 0 {
				return lines, nil // the segment was deleted
			}
			if batch, err = decodeBatch(entries[0]); err != nil {
				return nil, err
			}
			read = number
		}
		if position >= len(batch) {
			return nil, errDamaged
		}
		lines = append(lines, batch[position])
	}
	return lines, nil
}

// candidate is a call that fits the query.
type candidate struct {
	position
	from *source
	row  int
}

// search is one call of Find.
type search struct {
	query   *Query
	before  *position
	until   time.Time
	text    []byte // in lower case
	records store.Store

	found   []candidate
	reached *position // where a search has ended early
}

// run searches the store.
func (s *search) run(ctx context.Context) error {
	places, err := placesIn(ctx, s.records, s.query.From)
	if err != nil {
		return err
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(b.until, a.until) })
	searched := false
	for _, p := range places {
		if s.before != nil && p.start > s.before.ended || !s.query.To.IsZero() && p.start > s.query.To.UnixMicro() ||
			!strings.HasPrefix(p.node, s.query.Match["node"]) {
			continue
		}
		if s.isFull(p.until) {
			return nil
		}
		if searched && time.Now().After(s.until) && (s.before == nil || p.until < s.before.ended) {
			s.reached = &position{ended: p.until}
			return nil
		}
		searched = true
		if err := s.addSource(ctx, &source{place: p, records: s.records}); err != nil && !errors.Is(err, errDamaged) {
			return err
		}
	}
	return nil
}

// isFull reports whether the page has all its calls, if all further ones have ended before the time.
func (s *search) isFull(until int64) bool {
	if len(s.found) <= s.query.Limit {
		return false
	}
	s.sort()
	return s.found[s.query.Limit].ended >= until
}

// sort orders the candidates, newest first, and keeps one more than those of the page. A call that was written
// during the search is in two sources.
func (s *search) sort() {
	slices.SortFunc(s.found, func(a, b candidate) int { return b.compare(a.position) })
	s.found = slices.CompactFunc(s.found, func(a, b candidate) bool { return a.position == b.position })
	s.found = s.found[:min(len(s.found), s.query.Limit+1)]
}

// addSource adds the calls of a source that fit.
func (s *search) addSource(ctx context.Context, from *source) error {
	if err := from.read(ctx); err != nil {
		return err
	}
	filter := newRowFilter(s.query, from.columns)
	if filter == nil || !strings.HasPrefix(from.node, s.query.Match["node"]) {
		return nil
	}
	if err := from.decodeRows(); err != nil {
		return err
	}
	var rows []int
	for i := range from.rows {
		if filter.fits(&from.rows[i]) && s.isInTime(from.at(i)) {
			rows = append(rows, i)
		}
	}
	if len(rows) > 0 && s.needsDetails() {
		lines, err := from.details(ctx, rows)
		if err != nil {
			return err
		}
		fitting := rows[:0]
		for i, line := range lines {
			if s.fits(line) {
				fitting = append(fitting, rows[i])
			}
		}
		rows = fitting
	}
	for _, i := range rows {
		s.found = append(s.found, candidate{from.at(i), from, i})
	}
	return nil
}

// at returns the position of a row.
func (s *source) at(row int) position {
	return position{s.rows[row].ended, s.node, s.rows[row].number}
}

// isInTime reports whether a call is after the cursor and in the time range.
func (s *search) isInTime(at position) bool {
	return (s.before == nil || at.compare(*s.before) < 0) &&
		(s.query.From.IsZero() || at.ended >= s.query.From.UnixMicro()) && (s.query.To.IsZero() || at.ended <= s.query.To.UnixMicro())
}

// needsDetails reports whether the columns do not suffice.
func (s *search) needsDetails() bool {
	return len(s.text) > 0 || s.query.Match["trace"] != "" || s.query.Match["engagement"] != ""
}

// fits reports whether the details of a call fit. They are its JSON.
func (s *search) fits(line []byte) bool {
	if len(s.text) > 0 && !bytes.Contains(bytes.ToLower(line), s.text) {
		return false
	}
	call, err := decodeCall(line)
	return err == nil && matches("trace", call.Trace, s.query.Match["trace"]) && matches("engagement", call.Engagement, s.query.Match["engagement"]) &&
		(len(s.text) == 0 || slices.ContainsFunc(call.texts(), func(value string) bool { return strings.Contains(strings.ToLower(value), string(s.text)) }))
}

// page returns the calls that were found.
func (s *search) page(ctx context.Context) (Found, error) {
	if s.reached != nil { // older calls may be in a segment that was not searched
		s.found = slices.DeleteFunc(s.found, func(c candidate) bool { return c.ended < s.reached.ended })
	}
	s.sort()
	found := Found{Calls: []Call{}, Partial: s.reached != nil}
	shown := s.found[:min(len(s.found), s.query.Limit)]
	switch {
	case len(shown) < len(s.found):
		found.Next, found.Partial = shown[len(shown)-1].cursor(), false
	case s.reached != nil:
		found.Next = s.reached.cursor()
	}
	rows := make(map[*source][]int)
	for _, c := range shown {
		rows[c.from] = append(rows[c.from], c.row)
	}
	for from, wanted := range rows {
		slices.Sort(wanted)
		lines, err := from.details(ctx, wanted)
		if err != nil {
			return found, err
		}
		for _, line := range lines {
			call, err := decodeCall(line)
			if err != nil {
				return found, err
			}
			found.Calls = append(found.Calls, call)
		}
	}
	slices.SortFunc(found.Calls, func(a, b Call) int { return b.position().compare(a.position()) })
	return found, nil
}

// placesIn returns the places of the segments that may have calls since a time, in the order of their keys.
func placesIn(ctx context.Context, records store.Store, from time.Time) ([]place, error) {
	after := KeyPrefix
	if !from.IsZero() {
		after += timeKey(from.Add(-2 * segmentAge)) // a segment has no calls after its age, and the next begins later
	}
	var places []place
	for {
		keys, err := records.Keys(ctx, KeyPrefix, after, store.MaxRead)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if p, ok := placeOf(key); ok {
				places = append(places, p)
			}
		}
		if len(keys) < store.MaxRead {
			break
		}
		after = keys[len(keys)-1]
	}
	next := make(map[string]int64) // by node: start of its next segment
	for i := range slices.Backward(places) {
		p := &places[i]
		if p.until = p.start + 2*segmentAge.Microseconds(); next[p.node] > 0 {
			p.until = min(p.until, next[p.node]+time.Millisecond.Microseconds())
		}
		next[p.node] = p.start
	}
	return places, nil
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
