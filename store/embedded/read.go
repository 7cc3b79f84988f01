package embedded

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/fairwayhq/fairway/store"
)

// Read implements store.Store.
func (s *Store) Read(ctx context.Context, key string, from int64, limit int) ([][]byte, error) {
	limit, err := store.CheckRange(from, limit)
	if err != nil {
		return nil, err
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := logReader{limit: limit}
		replaced, err := s.readLog(ctx, &r, key, from)
		if err != nil {
			return nil, err
		}
		if !replaced {
			return r.entries, nil
		}
	}
}

// readLog reads the log from the given entry on: first from the file, then from the
// memtables. replaced reports that the record was deleted or replaced in the meantime.
func (s *Store) readLog(ctx context.Context, r *logReader, key string, from int64) (replaced bool, err error) {
	latest, tail, found, awaited, err := s.buffer.log(key)
	if err != nil {
		return false, err
	}
	if awaited != nil && awaited.wait(ctx) != nil { // as Store.durable
		return true, ctx.Err()
	}
	if !found {
		return false, s.file.view(func(tx *bbolt.Tx) error {
			stored, err := readRecord(tx, key)
			if stored = stored.live(); err == nil && stored != nil {
				r.readFile(tx, stored.id, from, stored.length)
			}
			return err
		})
	}
	if latest == nil {
		return false, nil
	}
	first := latest.length - int64(len(tail))
	if from < first {
		err := s.file.view(func(tx *bbolt.Tx) error {
			stored, err := readRecord(tx, key)
			if replaced = err == nil && (stored == nil || stored.id != latest.id); err == nil && !replaced {
				r.readFile(tx, latest.id, from, first)
			}
			return err
		})
		if err != nil || replaced {
			return replaced, err
		}
	}
	for at := max(from-first, 0); at < int64(len(tail)) && r.add(tail[at]); at++ {
	}
	return false, nil
}

// logReader collects the entries that one Read returns.
type logReader struct {
	entries [][]byte
	size    int
	limit   int
}

// add adds the entry. It returns false if the limit is reached.
func (r *logReader) add(entry []byte) bool {
	r.size += len(entry)
	if len(r.entries) == r.limit || len(r.entries) > 0 && r.size > store.MaxReadBytes {
		r.limit = len(r.entries) // accept no later entry either
		return false
	}
	r.entries = append(r.entries, entry)
	return true
}

// readFile adds copies of the entries [from, to) that are in the file.
func (r *logReader) readFile(tx *bbolt.Tx, id uint64, from, to int64) {
	c := tx.Bucket(bucketLog).Cursor()
	end := logKey(id, to)
	for key, entry := c.Seek(logKey(id, from)); key != nil && bytes.Compare(key, end) < 0; key, entry = c.Next() {
		if !r.add(append([]byte{}, entry...)) {
			return
		}
	}
}

// Keys implements store.Store.
func (s *Store) Keys(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	limit, err := store.CheckRange(0, limit)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	buffered, err := s.buffer.keys(prefix)
	if err != nil {
		return nil, err
	}
	m := keyMerger{buffered: buffered, after: after, limit: limit}
	m.names = slices.Sorted(maps.Keys(buffered))
	next, _ := slices.BinarySearch(m.names, after)
	m.names = m.names[next:]
	err = s.file.view(func(tx *bbolt.Tx) error {
		m.merge(tx, prefix)
		return nil
	})
	return m.keys, err
}

// keyMerger merges the keys of the memtables with those of the file.
type keyMerger struct {
	buffered map[string]bool // keys of the memtables, and whether each is a live record
	names    []string        // those of them that are not merged yet, sorted
	after    string
	limit    int
	keys     []string // the result
}

// add adds the key if the record is live. It returns false if the limit is reached.
func (m *keyMerger) add(key string, live bool) (more bool) {
	if live && key != m.after {
		m.keys = append(m.keys, key)
	}
	return len(m.keys) < m.limit
}

// addBuffered adds the keys of the memtables that sort before the given key of the file, or
// all of them if it is nil.
func (m *keyMerger) addBuffered(before []byte) (more bool) {
	for len(m.names) > 0 && (before == nil || m.names[0] < string(before)) {
		if !m.add(m.names[0], m.buffered[m.names[0]]) {
			return false
		}
		m.names = m.names[1:]
	}
	return true
}

func (m *keyMerger) merge(tx *bbolt.Tx, prefix string) {
	now := time.Now().UnixMilli()
	values := tx.Bucket(bucketValues)
	c := tx.Bucket(bucketRecords).Cursor()
	for key, id := c.Seek([]byte(max(prefix, m.after))); key != nil && bytes.HasPrefix(key, []byte(prefix)); key, id = c.Next() {
		if !m.addBuffered(key) {
			return
		}
		if _, is := m.buffered[string(key)]; !is && !m.add(string(key), expiresAt(values.Get(id)) > now) {
			return
		}
	}
	m.addBuffered(nil)
}
