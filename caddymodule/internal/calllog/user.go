package calllog

import (
	"bytes"
	"context"
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
	q := &Query{Owner: &user, Limit: maxExported}
	s := &search{query: q, filter: newFilter(q), until: time.Now().Add(store.MaxTTL)} // no limit of time
	err := s.run(ctx, st)
	return s.page().Calls, err
}

// Erase deletes the calls of a user. It replaces their blocks by blocks with the other calls. A node that is writing
// such a block begins another one. Calls of the last second, which are not in the store yet, are kept.
func (d UserData) Erase(ctx context.Context, st store.Store, user string) (count int, err error) {
	places, err := placesIn(ctx, st, time.Time{})
	for i := 0; i < len(places) && err == nil; i++ {
		var deleted int
		deleted, _, err = deleteCalls(ctx, st, places[i], user, time.Duration(d.Log.Options().Keep))
		count += deleted
	}
	return count, err
}

// deleteCalls deletes the calls of a user from a block, and returns their number and, if there are any, the header of what remains.
// The block does not grow any more then, and expires when it would have.
func deleteCalls(ctx context.Context, st store.Store, p place, user string, keep time.Duration) (deleted int, rest *header, err error) {
	b, err := readBlock(ctx, st, p)
	if err != nil {
		return 0, nil, err
	}
	q := &Query{Owner: &user}
	filter := newFilter(q)
	var memory []byte
	var others [][]byte // the newest first
	err = b.backward(ctx, &memory, nil, func(line []byte) bool {
		if filter.mayLine(line) {
			if call, ok := b.decode(line); ok && q.Selects(&call) {
				deleted++
				return true
			}
		}
		others = append(others, bytes.Clone(line))
		return true
	})
	if err != nil || deleted == 0 {
		return 0, nil, err
	}
	// The entries of a log cannot be replaced: the record is deleted and made again.
	if err := st.Delete(ctx, p.key); err != nil {
		return 0, nil, err
	}
	rest = new(header)
	ttl := max(keep-time.Since(time.UnixMicro(p.start)), time.Minute)
	var lines []byte
	for i, line := range slices.Backward(others) {
		if call, ok := b.decode(line); ok {
			rest.add(&call)
		}
		if lines = append(append(lines, line...), '\n'); len(lines) < maxBatch && i > 0 {
			continue
		}
		entry := compressor().EncodeAll(lines, nil)
		rest.Size, lines = rest.Size+int64(len(entry)), lines[:0]
		if err := st.Put(ctx, p.key, store.Change{Value: rest.encode(), Entries: [][]byte{entry}, TTL: ttl, Evictable: true}); err != nil {
			return 0, nil, err
		}
	}
	return deleted, rest, nil
}
