package calllog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// Limits of Find.
const (
	MaxFound   = 1000                   // calls of one page
	searchTime = 250 * time.Millisecond // after which Find returns what it has
)

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
