package store

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
)

// layer is a memtable: it holds the latest version of each record that changed since
// the last flush. Writes go to the active memtable (top). It later becomes immutable
// (below), is flushed to the file and then dropped. A read looks at the active memtable
// first, then at the immutable one, then at the file. Each memtable has its own file of
// the write-ahead log, except for batches that are not committed yet.
type layer struct {
	number  uint64 // counts from 1
	records map[string]*pending
	batches []*batch // those committed to the write-ahead log
	changes int      // staged changes, committed or not
	bytes   int      // approximate memory use of the changes
	totals  totals   // totals after the last batch
	last    uint64   // number of its last frame in the write-ahead log; 0 if none
}

// pending is the state of one record in a memtable.
type pending struct {
	old     *kept    // version below this memtable; nil if none
	new     *kept    // latest version; nil if the record was deleted
	entries [][]byte // log entries that only this memtable has
}

// newLayer returns a memtable with capacity for the given number of records.
func newLayer(number uint64, records int) *layer {
	return &layer{number: number, records: make(map[string]*pending, records)}
}

// add makes the write visible and returns its approximate size in bytes. It copies the
// list of entries.
func (l *layer) add(w *write) int {
	p := l.records[w.key]
	switch {
	case p == nil:
		p = &pending{old: w.old}
		l.records[w.key] = p
	case w.new == nil || p.new == nil || p.new.id != w.new.id:
		p.entries = nil // they belong to the log of the deleted record
	}
	p.new = w.new
	n := len(p.entries)
	p.entries = append(p.entries, w.entries...)
	w.entries = slices.Clip(p.entries[n:])
	size := w.size()
	l.changes++
	l.bytes += size
	return size
}

// rebuilt returns a copy of the memtable with only the changes that are in the
// write-ahead log.
func (l *layer) rebuilt() *layer {
	again := newLayer(l.number, len(l.records))
	again.batches, again.totals, again.last = l.batches, l.totals, l.last
	for _, b := range l.batches {
		for i := range b.writes {
			again.add(&b.writes[i])
		}
	}
	return again
}

// staged returns the memtable entries of a record, the most recent first. If there is
// none, both are nil. The caller must hold s.mu.
func (s *Bolt) staged(key string) (upper, lower *pending) {
	upper = s.top.records[key]
	if s.below == nil {
		return upper, nil
	}
	if upper == nil {
		return s.below.records[key], nil
	}
	return upper, s.below.records[key]
}

// look returns the current version of the record, durable or not, expired or not, or nil
// if there is none. failures is the number of failed batches at the time of the read.
func (s *Bolt) look(key string) (k *kept, failures uint64, err error) {
	s.mu.Lock()
	p, _ := s.staged(key)
	failures = s.failures
	shut := s.shut
	if p != nil {
		k = p.new
	}
	s.mu.Unlock()
	if shut {
		return nil, failures, ErrClosed
	}
	if p != nil {
		return k, failures, nil
	}
	err = s.view(func(tx *bbolt.Tx) (err error) {
		k, err = readKept(tx, key)
		return err
	})
	return k, failures, err
}

// Read implements Store.
func (s *Bolt) Read(ctx context.Context, key string, from int64, limit int) ([][]byte, error) {
	limit, err := checkRange(from, limit)
	if err != nil {
		return nil, err
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := reading{limit: limit}
		overtaken, err := s.readLog(&r, key, from)
		if err != nil {
			return nil, err
		}
		if !overtaken {
			return r.entries, nil
		}
	}
}

// readLog reads the log from the given entry on: first from the file, then from the
// memtables. overtaken reports that the record was deleted or replaced in the meantime.
func (s *Bolt) readLog(r *reading, key string, from int64) (overtaken bool, err error) {
	s.mu.Lock()
	shut := s.shut
	upper, lower := s.staged(key)
	var k *kept
	var tail [][]byte
	if upper != nil {
		k, tail = upper.new.living(), upper.entries
		if k != nil && lower != nil && lower.new != nil && lower.new.id == k.id {
			tail = slices.Concat(lower.entries, tail)
		}
	}
	s.mu.Unlock()
	if shut {
		return false, ErrClosed
	}
	if upper == nil {
		return false, s.view(func(tx *bbolt.Tx) error {
			k, err := readKept(tx, key)
			if k = k.living(); err == nil && k != nil {
				r.log(tx, k.id, from, k.length)
			}
			return err
		})
	}
	if k == nil {
		return false, nil
	}
	first := k.length - int64(len(tail))
	if from < first {
		err := s.view(func(tx *bbolt.Tx) error {
			file, err := readKept(tx, key)
			if overtaken = err == nil && (file == nil || file.id != k.id); err == nil && !overtaken {
				r.log(tx, k.id, from, first)
			}
			return err
		})
		if err != nil || overtaken {
			return overtaken, err
		}
	}
	for at := max(from-first, 0); at < int64(len(tail)) && r.add(tail[at]); at++ {
	}
	return false, nil
}

// reading collects the result of one Read.
type reading struct {
	entries [][]byte
	size    int
	limit   int
}

// add adds the entry. It returns false if the limit is reached.
func (r *reading) add(entry []byte) bool {
	r.size += len(entry)
	if len(r.entries) == r.limit || len(r.entries) > 0 && r.size > MaxReadBytes {
		r.limit = len(r.entries) // accept no later entry either
		return false
	}
	r.entries = append(r.entries, entry)
	return true
}

// log adds copies of the entries [from, to) that are in the file.
func (r *reading) log(tx *bbolt.Tx, id uint64, from, to int64) {
	c := tx.Bucket(bucketLog).Cursor()
	end := logKey(id, to)
	for key, entry := c.Seek(logKey(id, from)); key != nil && bytes.Compare(key, end) < 0; key, entry = c.Next() {
		if !r.add(append([]byte{}, entry...)) {
			return
		}
	}
}

// Keys implements Store.
func (s *Bolt) Keys(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	limit, err := checkRange(0, limit)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	staged, err := s.stagedKeys(prefix)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(staged))
	next, _ := slices.BinarySearch(names, after)
	names = names[next:]
	var keys []string
	add := func(key string, living bool) (more bool) {
		if living && key != after {
			keys = append(keys, key)
		}
		return len(keys) < limit
	}
	// addStaged adds the keys of the memtables that sort before the given key of the file.
	addStaged := func(before []byte) (more bool) {
		for len(names) > 0 && (before == nil || names[0] < string(before)) {
			if !add(names[0], staged[names[0]]) {
				return false
			}
			names = names[1:]
		}
		return true
	}
	err = s.view(func(tx *bbolt.Tx) error {
		now := time.Now().UnixMilli()
		values := tx.Bucket(bucketValues)
		c := tx.Bucket(bucketRecords).Cursor()
		for key, id := c.Seek([]byte(max(prefix, after))); key != nil && bytes.HasPrefix(key, []byte(prefix)); key, id = c.Next() {
			if !addStaged(key) {
				return nil
			}
			if _, is := staged[string(key)]; !is && !add(string(key), expiresAt(values.Get(id)) > now) {
				return nil
			}
		}
		addStaged(nil)
		return nil
	})
	return keys, err
}

// stagedKeys returns the keys with the prefix that are in a memtable, and whether each
// is a live record.
func (s *Bolt) stagedKeys(prefix string) (map[string]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return nil, ErrClosed
	}
	living := make(map[string]bool)
	for _, l := range []*layer{s.below, s.top} {
		if l == nil {
			continue
		}
		for key, p := range l.records {
			if strings.HasPrefix(key, prefix) {
				living[key] = p.new.living() != nil
			}
		}
	}
	return living, nil
}
