package calllog

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// maxExported is the number of calls of a user that Export returns, the newest.
const maxExported = 100_000

// UserData finds and deletes the kept calls of one user.
type UserData struct{ Log *Log }

// Export returns the calls of a user, the newest first.
func (UserData) Export(ctx context.Context, st store.Store, user string) (any, error) {
	calls := []Call{}
	err := visitSegments(ctx, st, user, func(from *source, rows []int) error {
		lines, err := from.details(ctx, rows)
		if err != nil {
			return err
		}
		for i := len(lines) - 1; i >= 0 && len(calls) < maxExported; i-- {
			call, err := decodeCall(lines[i])
			if err != nil {
				return err
			}
			calls = append(calls, call)
		}
		return nil
	})
	return calls, err
}

// Erase deletes the calls of a user. It replaces their segments by segments with the other calls. A node that is writing
// such a segment begins another one. Calls of the last second, which are not in the store yet, are kept.
func (d UserData) Erase(ctx context.Context, st store.Store, user string) (count int, err error) {
	err = visitSegments(ctx, st, user, func(from *source, rows []int) error {
		count += len(rows)
		_, err := deleteRows(ctx, st, from, rows, time.Duration(d.Log.Options().Keep))
		return err
	})
	return count, err
}

// deleteRows deletes calls of a segment, and returns the size of what remains. The rows are in ascending order. A segment that
// has lost calls does not grow any more.
func deleteRows(ctx context.Context, st store.Store, from *source, rows []int, keep time.Duration) (size int64, err error) {
	var others []int
	for i := range from.rows {
		if _, found := slices.BinarySearch(rows, i); !found {
			others = append(others, i)
		}
	}
	lines, err := from.details(ctx, others)
	if err != nil {
		return 0, err
	}
	calls := make([]Call, len(lines))
	for i, line := range lines {
		if calls[i], err = decodeCall(line); err != nil {
			return 0, err
		}
	}
	// The entries of a log cannot be replaced: the record is deleted and made again.
	if err := st.Delete(ctx, from.key); err != nil {
		return 0, err
	}
	return writeSegment(ctx, st, from, calls, keep)
}

// writeSegment writes a segment again with some of its calls, and returns its size. It expires when it would have.
func writeSegment(ctx context.Context, st store.Store, of *source, calls []Call, keep time.Duration) (size int64, err error) {
	var c columns
	ttl := max(keep-time.Since(time.UnixMicro(of.start)), time.Minute)
	for len(calls) > 0 {
		lines, n := appendBatch(nil, calls)
		entry := encodeLines(lines)
		for i := range n {
			c.add(&calls[i])
		}
		c.batches, c.size, calls = append(c.batches, n), c.size+int64(len(entry)), calls[n:]
		value := c.encode()
		if err := st.Put(ctx, of.key, store.Change{Value: value, Entries: [][]byte{entry}, TTL: ttl, Evictable: true}); err != nil {
			return 0, err
		}
		size = c.size + int64(len(value))
	}
	return size, nil
}

// visitSegments calls visit with each segment that has calls of a user, the newest first, and with their rows.
func visitSegments(ctx context.Context, st store.Store, user string, visit func(from *source, rows []int) error) error {
	places, err := placesIn(ctx, st, time.Time{})
	if err != nil {
		return err
	}
	for _, p := range slices.Backward(places) {
		from := &source{place: p, records: st}
		if err := from.read(ctx); err != nil && !errors.Is(err, errDamaged) {
			return err
		}
		if rows := from.rowsOf(user); len(rows) > 0 {
			if err := visit(from, rows); err != nil {
				return err
			}
		}
	}
	return nil
}

// rowsOf returns the rows of a user, in ascending order. A damaged segment has none.
func (s *source) rowsOf(user string) (rows []int) {
	filter := newRowFilter(&Query{Owner: &user}, s.columns)
	if filter == nil || s.decodeRows() != nil {
		return nil
	}
	for i := range s.rows {
		if filter.fits(&s.rows[i]) {
			rows = append(rows, i)
		}
	}
	return rows
}
