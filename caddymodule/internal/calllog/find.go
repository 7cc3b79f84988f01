package calllog

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/tools/callid"
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

// errCursor reports a cursor that Find has not returned.
var errCursor = errors.New("the cursor is invalid")

// Find returns the calls of all nodes that have ended and that the query selects, newest first. If the store
// fails, Find returns the calls that were not yet written, with the error.
func (l *Log) Find(ctx context.Context, q Query) (Found, error) {
	before, err := parseCursor(q.Cursor)
	if err != nil {
		return Found{}, err
	}
	q.Limit = min(max(q.Limit, 1), MaxFound)
	s := &search{query: &q, before: before, until: time.Now().Add(searchTime), filter: newFilter(&q)}
	err = l.search(ctx, s)
	return s.page(), err
}

// search searches the calls that wait for the store, and those in the store. The id of a call has the time when it began: the hour
// after it is searched first.
func (l *Log) search(ctx context.Context, s *search) error {
	if began, ok := callid.Time(s.query.Match["id"]); ok && s.query.From.Before(began) && s.query.To.IsZero() {
		s.query.From, s.query.To = began, began.Add(time.Hour)
		if err := l.searchBlocks(ctx, s); err != nil || len(s.found) > 0 {
			return err
		}
		s.query.To = time.Time{}
	}
	return l.searchBlocks(ctx, s)
}

func (l *Log) searchBlocks(ctx context.Context, s *search) error {
	if err := s.addBlock(ctx, l.waiting()); err != nil {
		return err
	}
	records, err := l.keeper.open(ctx)
	if err != nil {
		return err
	}
	return s.run(ctx, records)
}

// waiting returns the calls of this node that wait for the store.
func (l *Log) waiting() *block {
	calls := l.all.ended()
	b := &block{place: place{node: l.all.node}, header: header{Last: math.MaxInt64}}
	var err error
	b.waiting, _, err = appendLines(nil, calls, math.MaxInt)
	b.report(err)
	return b
}

// Get returns the call with that ID, or store.ErrNotFound.
func (l *Log) Get(ctx context.Context, id string) (Call, error) {
	q := Query{Match: map[string]string{"id": id}}
	if id == "" {
		return Call{}, store.ErrNotFound
	}
	s := &search{query: &q, until: time.Now().Add(store.MaxTTL), filter: newFilter(&q)}
	if err := l.search(ctx, s); len(s.found) == 0 {
		return Call{}, cmp.Or(err, store.ErrNotFound)
	}
	return s.found[0], nil
}

// position is a position in the list of all calls, newest first: after the calls that have ended at or after a time.
type position struct {
	ended  int64 // microseconds since 1970
	node   string
	number int64
}

// positionOf returns the position of an ended call.
func positionOf(c *Call) position { return position{c.Ended.UnixMicro(), c.Node, c.Number} }

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
	parts := strings.Split(cursor, ".")
	p, last := new(position), len(parts)-1
	var err, failed error
	if last < 2 || len(cursor) > store.MaxKey {
		return nil, errCursor
	}
	p.ended, err = strconv.ParseInt(parts[0], 36, 64)
	p.number, failed = strconv.ParseInt(parts[last], 10, 64)
	if p.node = strings.Join(parts[1:last], "."); err != nil || failed != nil {
		return nil, errCursor
	}
	return p, nil
}

// search is one call of Find.
type search struct {
	query  *Query
	before *position
	until  time.Time
	filter *filter
	memory []byte // for batches

	found   []Call
	reached *position // where a search has ended early
}

// run searches the store.
func (s *search) run(ctx context.Context, records store.Store) error {
	places, err := placesIn(ctx, records, s.query.From)
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
		b, err := readBlock(ctx, records, p)
		if err == nil {
			err = s.addBlock(ctx, b)
		}
		if err != nil {
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
	return len(s.found) > s.query.Limit && s.found[s.query.Limit].Ended.UnixMicro() >= until
}

// sort orders the calls, newest first, and keeps one more than those of the page. A call that was written
// during the search is found twice.
func (s *search) sort() {
	slices.SortFunc(s.found, func(a, b Call) int { return positionOf(&b).compare(positionOf(&a)) })
	s.found = slices.CompactFunc(s.found, func(a, b Call) bool { return positionOf(&a) == positionOf(&b) })
	s.found = s.found[:min(len(s.found), s.query.Limit+1)]
}

// addBlock adds the newest calls of a block that fit, as many as a page can have.
func (s *search) addBlock(ctx context.Context, b *block) error {
	if s.filter.number > 0 && (s.filter.number < b.First || s.filter.number > b.Last) {
		return nil
	}
	added := 0
	return b.backward(ctx, &s.memory, s.filter.may, func(line []byte) bool {
		if !s.filter.mayLine(line) {
			return true
		}
		call, ok := b.decode(line)
		if ok && s.isInTime(positionOf(&call)) && s.query.Selects(&call) && s.hasText(&call, line) {
			s.found = append(s.found, call)
			added++
		}
		return added <= s.query.Limit
	})
}

// hasText reduces the call of a line to what the reader may see, and reports whether that has the text.
func (s *search) hasText(call *Call, line []byte) bool {
	if s.query.View != nil {
		if s.query.View(call); s.query.Text != "" {
			line, _, _ = appendLines(nil, []Call{*call}, math.MaxInt)
		}
	}
	return s.filter.hasText(line)
}

// isInTime reports whether a call is after the cursor and in the time range.
func (s *search) isInTime(at position) bool {
	return (s.before == nil || at.compare(*s.before) < 0) &&
		(s.query.From.IsZero() || at.ended >= s.query.From.UnixMicro()) && (s.query.To.IsZero() || at.ended <= s.query.To.UnixMicro())
}

// page returns the calls that were found.
func (s *search) page() Found {
	if s.reached != nil { // older calls may be in a block that was not searched
		s.found = slices.DeleteFunc(s.found, func(c Call) bool { return c.Ended.UnixMicro() < s.reached.ended })
	}
	s.sort()
	found := Found{Calls: append([]Call{}, s.found[:min(len(s.found), s.query.Limit)]...), Partial: s.reached != nil}
	switch {
	case len(found.Calls) < len(s.found):
		found.Next, found.Partial = positionOf(&found.Calls[len(found.Calls)-1]).cursor(), false
	case s.reached != nil:
		found.Next = s.reached.cursor()
	}
	return found
}
