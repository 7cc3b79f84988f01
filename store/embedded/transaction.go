package embedded

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"go.etcd.io/bbolt"
)

// sequentialFill is the fill percentage of pages in buckets with ascending keys. bbolt's default, 0.5,
// reserves space for keys that are inserted between others. The remaining space is for values that grow.
const sequentialFill = 0.9

// maxLogAtOnce is the maximum number of entries removed together with their record.
const maxLogAtOnce = 256

// transaction has the buckets of a write transaction of the file.
type transaction struct {
	records, values, log, expiry, deleted, store *bbolt.Bucket

	memory []byte // buffer for values, which bbolt references until the transaction ends
	key    []byte // buffer for a key, which bbolt copies
}

func newTransaction(tx *bbolt.Tx) *transaction {
	t := &transaction{
		records: tx.Bucket(bucketRecords),
		values:  tx.Bucket(bucketValues),
		log:     tx.Bucket(bucketLog),
		expiry:  tx.Bucket(bucketExpiry),
		deleted: tx.Bucket(bucketDeleted),
		store:   tx.Bucket(bucketStore),
	}
	for _, b := range []*bbolt.Bucket{t.values, t.log, t.expiry} {
		b.FillPercent = sequentialFill
	}
	return t
}

// allocate returns an empty slice with the given capacity.
func (t *transaction) allocate(size int) []byte {
	if cap(t.memory)-len(t.memory) < size {
		t.memory = make([]byte, 0, size)
	}
	n := len(t.memory)
	t.memory = t.memory[:n+size]
	return t.memory[n : n : n+size]
}

// putMemtable writes the latest version of each record of the memtable. It sorts the
// keys, since bbolt is fastest with sorted keys.
func (t *transaction) putMemtable(m *memtable) error {
	type change struct {
		key string
		*memEntry
	}
	changes := make([]change, 0, len(m.records))
	size := 0
	for key, e := range m.records {
		if e.old == nil && e.new == nil {
			continue
		}
		changes = append(changes, change{key, e})
		if e.new != nil {
			size += len(idKey(0)) + recordHeader + len(e.new.value) + len(key)
		}
	}
	t.memory = make([]byte, 0, size)
	slices.SortFunc(changes, func(a, b change) int { return strings.Compare(a.key, b.key) })
	for _, c := range changes {
		if err := t.putKey(c.key, c.old, c.new); err != nil {
			return err
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.id(), b.id()) })
	for _, c := range changes {
		if err := t.putRecord(c.key, c.old, c.new, c.entries); err != nil {
			return err
		}
	}
	return nil
}

// isNew reports whether next is a new record with its own id.
func isNew(old, next *record) bool {
	return next != nil && (old == nil || next.id != old.id)
}

// putKey updates the index from key to id.
func (t *transaction) putKey(key string, old, next *record) error {
	switch {
	case isNew(old, next):
		t.key = append(t.key[:0], key...)
		return t.records.Put(t.key, binary.BigEndian.AppendUint64(t.allocate(8), next.id))
	case next == nil:
		return t.records.Delete([]byte(key))
	}
	return nil
}

// putRecord writes the record, its log and its place in the expiry index, or removes them if
// next is nil. entries are the last entries of the log, which the file does not have yet.
func (t *transaction) putRecord(key string, old, next *record, entries [][]byte) error {
	if old != nil && (next == nil || isNew(old, next)) {
		if err := errors.Join(t.removeLog(old), t.values.Delete(idKey(old.id))); err != nil {
			return err
		}
	}
	if next == nil {
		return t.expiry.Delete(old.expiryKey())
	}
	if err := t.putExpiry(key, old, next); err != nil {
		return err
	}
	first := next.length - int64(len(entries))
	for i, entry := range entries {
		t.key = appendLogKey(t.key[:0], next.id, first+int64(i))
		if err := t.log.Put(t.key, entry); err != nil {
			return err
		}
	}
	t.key = binary.BigEndian.AppendUint64(t.key[:0], next.id)
	return t.values.Put(t.key, next.appendTo(t.allocate(recordHeader+len(next.value))))
}

// putExpiry updates the expiry index if the time in it has changed.
func (t *transaction) putExpiry(key string, old, next *record) error {
	t.key = next.appendExpiryKey(t.key[:0])
	at := t.key
	if old != nil {
		before := old.expiryKey()
		if bytes.Equal(before, at) {
			return nil
		}
		if err := t.expiry.Delete(before); err != nil {
			return err
		}
	}
	return t.expiry.Put(at, append(t.allocate(len(key)), key...))
}

// removeLog removes a short log. It leaves a long one to the sweeper.
func (t *transaction) removeLog(r *record) error {
	if r.length > maxLogAtOnce {
		return t.deleted.Put(idKey(r.id), nil)
	}
	for i := range r.length {
		if err := t.log.Delete(logKey(r.id, i)); err != nil {
			return err
		}
	}
	return nil
}

func (t *transaction) putTotals(sums totals) error {
	b := make([]byte, 0, 24)
	b = binary.BigEndian.AppendUint64(b, uint64(sums.records))
	b = binary.BigEndian.AppendUint64(b, uint64(sums.bytes))
	return t.store.Put(keyTotals, binary.BigEndian.AppendUint64(b, sums.lastID))
}

func (t *transaction) putPosition(p walPosition) error {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 16), p.salt)
	return t.store.Put(keyPosition, binary.BigEndian.AppendUint64(b, p.flushed))
}
