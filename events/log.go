package events

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

// Defaults of Options, and fixed limits.
const (
	DefaultRetention = 7 * 24 * time.Hour
	DefaultMaxSize   = 64 << 20           // bytes
	Dedupe           = 3 * 24 * time.Hour // how long an ID is known

	period     = time.Hour        // of a segment
	skew       = time.Minute      // by which the clocks of nodes may differ
	segments   = 8                // in MaxSize, at least
	maxCount   = 10_000           // events of a segment
	maxNumber  = 1 << 40          // of a segment in a cursor; the time of its end fits into an int64
	appendTime = 10 * time.Second // of Append, which the end of its context does not cancel
)

// Options configures a Log.
type Options struct {
	Open      func(context.Context) (store.Store, error) // returns the store; required
	Source    string                                     // names the log in the store, on all nodes; required
	Retention time.Duration                              // how long an event is kept; default: DefaultRetention
	MaxSize   int64                                      // bytes above which the oldest events are deleted; default: DefaultMaxSize
	Now       func() time.Time                           // default: time.Now
}

// A Log keeps the events of one source in a store. All nodes that share the store share the log. It is safe for concurrent use.
//
// A segment has the events of about an hour. It is a record whose value counts its events and whose log has them, and its number is that
// of the hour. Before the first event of a segment, the one before it is closed, so events never get behind readers that have gone on. A
// segment that is full is closed early, and the next one begins before its hour.
type Log struct {
	options Options
	locks   *store.KeyLocks // of IDs
	current atomic.Int64    // the segment that this process has begun last
}

// NewLog returns a Log. It opens the store at the first use.
func NewLog(options Options) *Log {
	options.Retention = cmp.Or(options.Retention, DefaultRetention)
	options.MaxSize = cmp.Or(options.MaxSize, DefaultMaxSize)
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Log{options: options, locks: store.NewKeyLocks()}
}

// segment is the value of the record of a segment.
type segment struct {
	Count  int64 `json:"count,omitzero"`
	Size   int64 `json:"size,omitzero"`   // bytes of the entries
	Closed bool  `json:"closed,omitzero"` // it gets no more events
	Gone   bool  `json:"gone,omitzero"`   // the events are deleted, because the log was too large

	// The events of the segment before this one are deleted, or are about to be. Its own record says so only when they are.
	GoneBefore bool `json:"gone_before,omitzero"`
}

func (l *Log) key(number int64) string { return l.prefix() + strconv.FormatInt(number, 10) }

func (l *Log) prefix() string { return "events/" + l.options.Source + "/" }

// numberAt returns the number of the segment of an age.
func (l *Log) numberAt(age time.Duration) int64 {
	return l.options.Now().Add(-age).Unix() / int64(period/time.Second)
}

// end returns when a segment gets no more events, also if it is not closed.
func end(number int64) time.Time { return time.Unix((number+1)*int64(period/time.Second), 0).Add(skew) }

// record returns a change of a record of the log. It takes the share of the source.
func (l *Log) record(lifetime time.Duration, value []byte, entries ...[]byte) store.Change {
	return store.Change{Value: value, Entries: entries, TTL: lifetime + period + skew, Owner: store.Owner("events " + l.options.Source)}
}

// Append stores the event, unless one with its name and ID is known. When it returns, the event is durable. If it fails, or if two nodes get
// the event at the same moment, it may be there twice, with the same ID.
func (l *Log) Append(ctx context.Context, e *Event) (added bool, err error) {
	entry, err := e.encode()
	if err != nil {
		return false, err
	}
	ctx, cancel := store.Detach(ctx, appendTime)
	defer cancel()
	st, err := l.options.Open(ctx)
	if err != nil {
		return false, err
	}
	held, err := l.locks.Acquire(ctx, e.ID)
	if err != nil {
		return false, err
	}
	defer held.Release()
	key, known, err := l.find(ctx, st, e)
	if known || err != nil {
		return false, err
	}
	at := position{number: max(l.numberAt(0), l.current.Load())}
	for again := true; again; {
		again = false
		if err = l.begin(ctx, st, at.number); err == nil {
			err = l.update(ctx, st, at.number, func(s *segment) ([][]byte, error) {
				if l.isOver(at.number, *s) || s.Count >= maxCount || s.Count > 0 && s.Size+int64(len(entry)) > l.options.MaxSize/segments {
					return nil, errClosed
				}
				at.index = s.Count
				s.Count, s.Size = s.Count+1, s.Size+int64(len(entry))
				return [][]byte{entry}, nil
			})
		}
		if err == nil && at.index == 0 {
			if next, _, nextErr := l.get(ctx, st, at.number+1); nextErr != nil || next.GoneBefore {
				err = cmp.Or(nextErr, errClosed) // another node has deleted the segment meanwhile
			}
		}
		switch {
		case errors.Is(err, errClosed):
			at.number++
			again = true
		case errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrShare):
			again = l.dropOldest(ctx, st, at.number)
		}
	}
	if err == nil {
		record := l.record(Dedupe, []byte(string(at.cursor())+"\n"+e.Name))
		record.Evictable = true // then the event may be there twice
		err = st.Put(ctx, key, record)
	}
	return err == nil, err
}

// find reports whether an event is known, and returns the key of the record that says so. Events of two types may have one ID. The second has
// another key, because older versions have stored only the ID.
func (l *Log) find(ctx context.Context, st store.Store, e *Event) (key string, known bool, err error) {
	for _, id := range []string{e.ID, e.Name + "\n" + e.ID} {
		hash := sha256.Sum256([]byte(id))
		key = l.prefix() + "id/" + hex.EncodeToString(hash[:16])
		r, err := st.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return key, false, nil
		}
		if _, name, hasName := strings.Cut(string(r.Value), "\n"); err != nil || !hasName || name == e.Name {
			return key, true, err
		}
	}
	return key, true, nil
}

// dropOldest deletes the events of the oldest segment before a number, to make room in the store. It reports whether there were some.
func (l *Log) dropOldest(ctx context.Context, st store.Store, before int64) bool {
	for number := l.numberAt(l.options.Retention + period); number < before; number++ {
		if s, _, err := l.segment(ctx, st, number); err == nil && s.Count > 0 && !s.Gone {
			return l.drop(ctx, st, number) == nil
		}
	}
	return false
}

// drop deletes the events of a segment. The segment after it reports the gap if the process ends before the last step.
func (l *Log) drop(ctx context.Context, st store.Store, number int64) error {
	err := l.update(ctx, st, number+1, func(s *segment) ([][]byte, error) {
		s.GoneBefore = true
		return nil, nil
	})
	if err == nil {
		err = st.Delete(ctx, l.key(number))
	}
	if err != nil {
		return err
	}
	return l.update(ctx, st, number, func(s *segment) ([][]byte, error) {
		s.Closed, s.Gone = true, true
		return nil, nil
	})
}

// errClosed means that a segment gets no more events.
var errClosed = errors.New("the segment is closed")

// begin closes the segment before a new one, and deletes the oldest segments if the log is too large.
func (l *Log) begin(ctx context.Context, st store.Store, number int64) error {
	if l.current.Load() >= number {
		return nil
	}
	if err := l.update(ctx, st, number-1, func(s *segment) ([][]byte, error) {
		if s.Closed {
			return nil, errClosed
		}
		s.Closed = true
		return nil, nil
	}); err != nil && !errors.Is(err, errClosed) {
		return err
	}
	size := l.options.MaxSize / segments // of the new one
	for old := number - 1; old >= l.numberAt(l.options.Retention+period); old-- {
		s, _, err := l.segment(ctx, st, old)
		if size += s.Size; err == nil && size > l.options.MaxSize && !s.Gone && s.Count > 0 {
			err = l.drop(ctx, st, old)
		}
		if err != nil {
			return err
		}
	}
	l.current.Store(number)
	return nil
}

// update changes a segment, which may be new, and appends entries to it.
func (l *Log) update(ctx context.Context, st store.Store, number int64, change func(*segment) ([][]byte, error)) error {
	return st.Update(ctx, l.key(number), func(old store.Record) (store.Change, error) {
		var s segment
		if old.Value != nil {
			if err := stored.Decode("events", l.key(number), old.Value, &s); err != nil {
				return store.Change{}, err
			}
		}
		entries, err := change(&s)
		if err != nil {
			return store.Change{}, err
		}
		value, err := json.Marshal(s)
		return l.record(l.options.Retention, value, entries...), err
	})
}

// segment returns a segment and its encoded value; nil if there is none.
func (l *Log) segment(ctx context.Context, st store.Store, number int64) (s segment, value []byte, err error) {
	s, value, err = l.get(ctx, st, number)
	if err == nil && value == nil {
		var next segment
		next, _, err = l.get(ctx, st, number+1)
		s.Closed, s.Gone = next.GoneBefore, next.GoneBefore
	}
	return s, value, err
}

func (l *Log) get(ctx context.Context, st store.Store, number int64) (s segment, value []byte, err error) {
	r, err := st.Get(ctx, l.key(number))
	if errors.Is(err, store.ErrNotFound) {
		return s, nil, nil
	}
	if err == nil {
		err = stored.Decode("events", l.key(number), r.Value, &s)
	}
	return s, r.Value, err
}

// A Cursor is a position between two events. It is valid on all nodes and after restarts. The zero value is before the oldest event.
type Cursor string

// ErrCursor reports a text that is no Cursor.
var ErrCursor = errors.New("not a cursor of a log of events")

// position is a decoded Cursor.
type position struct {
	number int64 // of the segment
	index  int64 // number of its events that are before the position
}

func (p position) cursor() Cursor { return Cursor(fmt.Sprintf("%d.%d", p.number, p.index)) }

func (c Cursor) position() (p position, err error) {
	number, index, _ := strings.Cut(string(c), ".")
	p.number, err = strconv.ParseInt(number, 10, 64)
	if err == nil {
		p.index, err = strconv.ParseInt(index, 10, 64)
	}
	if err != nil || p.number < 0 || p.number > maxNumber || p.index < 0 {
		return p, ErrCursor
	}
	return p, nil
}

// End returns the cursor after the newest event.
func (l *Log) End(ctx context.Context) (Cursor, error) {
	st, err := l.options.Open(ctx)
	if err != nil {
		return "", err
	}
	for number := l.numberAt(skew); ; number++ {
		if s, _, err := l.segment(ctx, st, number); err != nil || !l.isOver(number, s) {
			return position{number, s.Count}.cursor(), err
		}
	}
}

// Recent returns a cursor that is at most n events before the end.
func (l *Log) Recent(ctx context.Context, n int64) (Cursor, error) {
	st, err := l.options.Open(ctx)
	at := position{number: l.numberAt(-skew)}
	for oldest := l.numberAt(l.options.Retention); err == nil && n > 0 && at.number >= oldest; at.number-- {
		var s segment
		s, _, err = l.segment(ctx, st, at.number)
		at.index, n = max(s.Count-n, 0), n-s.Count
	}
	return position{at.number + 1, at.index}.cursor(), err
}

// isOver reports whether a segment gets no more events.
func (l *Log) isOver(number int64, s segment) bool {
	return s.Closed || !l.options.Now().Before(end(number))
}

// Read returns at most limit events after the cursor, and the cursor to go on with. Truncated reports that events after the cursor
// are gone, which were before the first one that is returned. At the end of the log, Read returns no events.
func (l *Log) Read(ctx context.Context, after Cursor, limit int) (found []Event, next Cursor, truncated bool, err error) {
	at, oldest := position{}, l.numberAt(l.options.Retention)
	if after != "" {
		at, err = after.position()
		truncated = at.number < oldest
	}
	var st store.Store
	if err == nil {
		st, err = l.options.Open(ctx)
	}
	if at.number < oldest {
		at = position{number: oldest}
	}
	for err == nil && len(found) < limit {
		var s segment
		if s, _, err = l.segment(ctx, st, at.number); err != nil {
			break
		}
		if s.Gone || at.index > s.Count { // a cursor of a store that was replaced
			at.index, truncated = s.Count, truncated || after != ""
		}
		var entries [][]byte
		if at.index < s.Count {
			entries, err = st.Read(ctx, l.key(at.number), at.index, limit-len(found))
		}
		for i := 0; err == nil && i < len(entries); i++ {
			var e Event
			e, err = decode(l.key(at.number), entries[i])
			at.index++
			e.Next = at.cursor()
			found = append(found, e)
		}
		if at.index < s.Count || !l.isOver(at.number, s) {
			break
		}
		at = position{number: at.number + 1}
	}
	if err != nil {
		return nil, after, false, err
	}
	return found, at.cursor(), truncated, nil
}

// Wait blocks until Read returns something for the cursor: an event, or that events are gone.
func (l *Log) Wait(ctx context.Context, after Cursor) error {
	for {
		found, next, truncated, err := l.Read(ctx, after, 1)
		if err != nil || truncated || len(found) > 0 {
			return err
		}
		st, err := l.options.Open(ctx)
		if err != nil {
			return err
		}
		after = next
		at, _ := after.position()
		s, seen, err := l.segment(ctx, st, at.number)
		if err == nil && s.Count <= at.index && !l.isOver(at.number, s) {
			_, _, err = lease.Wait(ctx, st, l.key(at.number), seen, end(at.number))
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
}
