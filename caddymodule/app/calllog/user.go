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
		erased := make(map[int]bool, len(rows))
		for _, i := range rows {
			erased[i] = true
		}
		var others []int
		for i := range from.rows {
			if !erased[i] {
				others = append(others, i)
			}
		}
		lines, err := from.details(ctx, others)
		if err != nil {
			return err
		}
		calls := make([]Call, len(lines))
		for i, line := range lines {
			if calls[i], err = decodeCall(line); err != nil {
				return err
			}
		}
		// The entries of a log cannot be replaced: the record is deleted and made again.
		if err := st.Delete(ctx, from.key); err != nil {
			return err
		}
		count += len(rows)
		return writeSegment(ctx, st, from, calls, time.Duration(d.Log.Options().Keep))
	})
	return count, err
}

// writeSegment writes a segment again with some of its calls. It does not grow any more, and expires when it would have.
func writeSegment(ctx context.Context, st store.Store, of *source, calls []Call, keep time.Duration) error {
	var c columns
	ttl := max(keep-time.Since(time.UnixMicro(of.start)), time.Minute)
	for len(calls) > 0 {
		entry, n, err := encodeBatch(calls)
		if err != nil {
			return err
		}
		for i := range n {
			c.add(&calls[i])
		}
		c.batches, c.size, calls = append(c.batches, n), c.size+int64(len(entry)), calls[n:]
		if err := st.Put(ctx, of.key, store.Change{Value: c.encode(), Entries: [][]byte{entry}, TTL: ttl, Evictable: true}); err != nil {
			return err
		}
	}
	return nil
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
		filter := newRowFilter(&Query{Owner: &user}, from.columns)
		if filter == nil {
			continue
		}
		if err := from.decodeRows(); err != nil {
			continue // damaged: its calls cannot be read
		}
		var rows []int
		for n := range from.rows {
			if filter.fits(&from.rows[n]) {
				rows = append(rows, n)
			}
		}
		if len(rows) > 0 {
			if err := visit(from, rows); err != nil {
				return err
			}
		}
	}
	return nil
}
