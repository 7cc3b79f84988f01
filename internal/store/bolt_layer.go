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

// A layer is what is staged over the file: for each record that has changed what
// it is now, however often it has. The top layer takes changes. From time to time
// it becomes the one below, which is brought into the file and then dropped; what
// a record is says the top layer, else the one below, else the file. Each has a
// file of the journal to itself, but for batches that are not written yet.
type layer struct {
	number  uint64 // counted from 1
	records map[string]*pending
	batches []*batch // that are journaled
	changes int      // staged, journaled or not
	bytes   int      // of those, about, in memory
	totals  totals   // after the last batch
	last    uint64   // number of its frame in the journal; 0: none
}

// pending is what a layer has of one record.
type pending struct {
	old     *kept    // what is under the layer
	new     *kept    // nil: nothing any more
	entries [][]byte // the last ones of the log, which are under no other layer
}

// newLayer returns one that is likely to get so many records.
func newLayer(number uint64, records int) *layer {
	return &layer{number: number, records: make(map[string]*pending, records)}
}

// add makes the write visible and returns about how many bytes it has. The layer
// copies the list of entries.
func (l *layer) add(w *write) int {
	p := l.records[w.key]
	switch {
	case p == nil:
		p = &pending{old: w.old}
		l.records[w.key] = p
	case w.new == nil || p.new == nil || p.new.id != w.new.id:
		p.entries = nil // the log of a life that is over
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

// rebuilt is the layer without what is not journaled.
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

// staged returns what the layers have of a record: the uppermost first, and
// neither without one. s.mu is held.
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

// look returns the record as it stands, written or not, expired or not; nil if
// there is none. failures is how many batches had failed when it did.
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

// readLog reads the log from there on: first what is in the file, then what the
// layers have. It reports whether the record was deleted in between.
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

// reading is what one Read returns.
type reading struct {
	entries [][]byte
	size    int
	limit   int
}

// add adds the entry, and reports whether there was room for it.
func (r *reading) add(entry []byte) bool {
	r.size += len(entry)
	if len(r.entries) == r.limit || len(r.entries) > 0 && r.size > MaxReadBytes {
		r.limit = len(r.entries) // none after it either
		return false
	}
	r.entries = append(r.entries, entry)
	return true
}

// log adds copies of the entries that the file has, from one up to but not
// another.
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
	// addStaged adds what is staged and comes before that key of the file.
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

// stagedKeys returns the keys with that prefix that a layer has, and whether they
// live.
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
