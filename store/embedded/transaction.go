package embedded

import (
	"bytes"
	"errors"

	"go.etcd.io/bbolt"
)

// sequentialFill is the fill percentage of pages in buckets with ascending keys. bbolt's default, 0.5,
// reserves space for keys that are inserted between others. The remaining space is for values that grow.
const sequentialFill = 0.9

// maxLogAtOnce is the maximum number of entries removed together with their record.
const maxLogAtOnce = 256

// transaction has the buckets of a write transaction of the file.
type transaction struct {
	records, values, log, expiry, deleted *bbolt.Bucket
}

// write makes the changes in one transaction.
func (f *file) write(writes []*write, lastID uint64, beforeCommit func() error) error {
	id := 0
	err := guard(func() error {
		return f.db.Update(func(tx *bbolt.Tx) error {
			id = tx.ID()
			t := transaction{
				records: tx.Bucket(bucketRecords),
				values:  tx.Bucket(bucketValues),
				log:     tx.Bucket(bucketLog),
				expiry:  tx.Bucket(bucketExpiry),
				deleted: tx.Bucket(bucketDeleted),
			}
			for _, b := range []*bbolt.Bucket{t.values, t.log, t.expiry} {
				b.FillPercent = sequentialFill
			}
			for _, w := range writes {
				if err := t.put(w.key, w.old, w.next, w.entries); err != nil {
					return err
				}
			}
			return errors.Join(t.removeDeletedLog(), t.values.SetSequence(lastID), beforeCommit())
		})
	})
	if err != nil && id > 0 && f.isVisible(id) {
		return f.rewriteMeta()
	}
	return err
}

// put writes the record and the last entries of its log, or removes it if next is nil.
func (t *transaction) put(key string, old, next *record, entries [][]byte) error {
	if old != nil && (next == nil || next.id != old.id) {
		if err := errors.Join(t.removeLog(old), t.values.Delete(idKey(old.id)), t.expiry.Delete(old.expiryKey())); err != nil {
			return err
		}
		if old = nil; next == nil {
			return t.records.Delete([]byte(key))
		}
	}
	if old == nil {
		if err := t.records.Put([]byte(key), idKey(next.id)); err != nil {
			return err
		}
	}
	if err := t.putExpiry(key, old, next); err != nil {
		return err
	}
	for i, entry := range entries {
		at := logKey(next.id, next.length-int64(len(entries)-i))
		if err := t.log.Put(at, encodeEntry(at, entry)); err != nil {
			return err
		}
	}
	return t.values.Put(idKey(next.id), next.encode(key))
}

// putExpiry updates the expiry index if the time in it has changed.
func (t *transaction) putExpiry(key string, old, next *record) error {
	at := next.expiryKey()
	if old != nil {
		before := old.expiryKey()
		if bytes.Equal(before, at) {
			return nil
		}
		if err := t.expiry.Delete(before); err != nil {
			return err
		}
	}
	return t.expiry.Put(at, []byte(key))
}

// removeLog removes a short log. It leaves a long one to the next transactions.
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

// removeDeletedLog removes some log entries of a deleted record.
func (t *transaction) removeDeletedLog() error {
	id, _ := t.deleted.Cursor().First()
	if id == nil {
		return nil
	}
	id = bytes.Clone(id)
	var entries [][]byte
	c := t.log.Cursor()
	for key, _ := c.Seek(id); bytes.HasPrefix(key, id) && len(entries) < maxRemovedEntries; key, _ = c.Next() {
		entries = append(entries, bytes.Clone(key))
	}
	for _, key := range entries {
		if err := t.log.Delete(key); err != nil {
			return err
		}
	}
	if len(entries) == maxRemovedEntries {
		return nil
	}
	return t.deleted.Delete(id)
}
