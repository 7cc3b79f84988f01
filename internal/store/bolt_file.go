package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

// The buckets of the file. All numbers are big-endian, so that bytes sort as the
// numbers do; times are milliseconds since 1970. Keys may be hashes, of which each
// is on a page of its own, so what changes with each write is filed under the id,
// where records of one time are neighbors.
//
//	records  key                  → id
//	values   id                   → kept.encode
//	log      id, number of entry  → entry
//	expiry   class, indexed, id   → key
//	dead     id                   → nothing: logs that remain to be removed
//	store    format, totals       → numbers
var (
	bucketRecords = []byte("records")
	bucketValues  = []byte("values")
	bucketLog     = []byte("log")
	bucketExpiry  = []byte("expiry")
	bucketDead    = []byte("dead")
	bucketStore   = []byte("store")

	keyFormat = []byte("format")
	keyTotals = []byte("totals")
)

const (
	format = 2 // of the file

	keptHeader     = 41  // bytes before the value
	recordOverhead = 128 // bytes that a record costs beside its own
	entryOverhead  = 32  // bytes that an entry costs beside its own
	maxLogAtOnce   = 256 // entries removed together with their record

	classKept  = 0 // of the expiry index
	classSpare = 1
)

// kept is a record as the file has it.
type kept struct {
	id       uint64 // of this life of the key; its log is filed under it
	expires  int64
	indexed  int64 // when the expiry index looks at it; not after expires
	length   int64
	logBytes int64
	spare    bool
	value    []byte
}

// living returns the record unless it has expired.
func (k *kept) living() *kept {
	if k == nil || k.expires <= time.Now().UnixMilli() {
		return nil
	}
	return k
}

func (k *kept) record() Record {
	if k == nil {
		return Record{}
	}
	return Record{Value: k.value, Length: k.length}
}

// size is what counts for MaxBytes.
func (k *kept) size(key string) int64 {
	return int64(len(key)+len(k.value)) + k.logBytes + k.length*entryOverhead + recordOverhead
}

func (k *kept) encode() []byte {
	b := make([]byte, 0, keptHeader+len(k.value))
	b = binary.BigEndian.AppendUint64(b, k.id)
	b = binary.BigEndian.AppendUint64(b, uint64(k.expires))
	b = binary.BigEndian.AppendUint64(b, uint64(k.indexed))
	b = binary.BigEndian.AppendUint64(b, uint64(k.length))
	b = binary.BigEndian.AppendUint64(b, uint64(k.logBytes))
	b = append(b, k.class())
	return append(b, k.value...)
}

func (k *kept) class() byte {
	if k.spare {
		return classSpare
	}
	return classKept
}

// indexKey is where the expiry index has the record.
func (k *kept) indexKey() []byte {
	b := make([]byte, 0, 17)
	b = append(b, k.class())
	b = binary.BigEndian.AppendUint64(b, uint64(k.indexed))
	return binary.BigEndian.AppendUint64(b, k.id)
}

func idKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64(nil, id)
}

func logKey(id uint64, number int64) []byte {
	b := make([]byte, 0, 16)
	b = binary.BigEndian.AppendUint64(b, id)
	return binary.BigEndian.AppendUint64(b, uint64(number))
}

// readKept returns a copy of the record, or nil.
func readKept(tx *bbolt.Tx, key string) (*kept, error) {
	id := tx.Bucket(bucketRecords).Get([]byte(key))
	if id == nil {
		return nil, nil
	}
	b := tx.Bucket(bucketValues).Get(id)
	if len(b) < keptHeader {
		return nil, fmt.Errorf("the store is damaged: record %q has %d bytes", key, len(b))
	}
	return &kept{
		id:       binary.BigEndian.Uint64(b),
		expires:  int64(binary.BigEndian.Uint64(b[8:])),
		indexed:  int64(binary.BigEndian.Uint64(b[16:])),
		length:   int64(binary.BigEndian.Uint64(b[24:])),
		logBytes: int64(binary.BigEndian.Uint64(b[32:])),
		spare:    b[40] == classSpare,
		value:    append([]byte{}, b[keptHeader:]...),
	}, nil
}

// expiresAt is kept.expires of an encoded record.
func expiresAt(b []byte) int64 {
	if len(b) < keptHeader {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b[8:]))
}

func readLog(tx *bbolt.Tx, k *kept, from int64, limit int) [][]byte {
	var entries [][]byte
	size := 0
	c := tx.Bucket(bucketLog).Cursor()
	id := idKey(k.id)
	for key, entry := c.Seek(logKey(k.id, from)); bytes.HasPrefix(key, id); key, entry = c.Next() {
		if size += len(entry); len(entries) == limit || len(entries) > 0 && size > MaxReadBytes {
			break
		}
		entries = append(entries, append([]byte{}, entry...))
	}
	return entries
}

func readKeys(tx *bbolt.Tx, prefix, after string, limit int) []string {
	var keys []string
	now := time.Now().UnixMilli()
	values := tx.Bucket(bucketValues)
	c := tx.Bucket(bucketRecords).Cursor()
	for key, id := c.Seek([]byte(max(prefix, after))); key != nil && bytes.HasPrefix(key, []byte(prefix)) && len(keys) < limit; key, id = c.Next() {
		if string(key) != after && expiresAt(values.Get(id)) > now {
			keys = append(keys, string(key))
		}
	}
	return keys
}

// prepare makes the buckets of a new file, or checks the old one's format, and
// returns the totals.
func prepare(db *bbolt.DB) (t totals, err error) {
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketRecords, bucketValues, bucketLog, bucketExpiry, bucketDead, bucketStore} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		b := tx.Bucket(bucketStore)
		switch was := b.Get(keyFormat); {
		case was == nil:
			return b.Put(keyFormat, []byte{format})
		case !bytes.Equal(was, []byte{format}):
			return fmt.Errorf("its format is %d, not %d: another version of Fairway made it; use that, or move the file away", was, format)
		}
		if n := b.Get(keyTotals); len(n) == 24 {
			t.records = int64(binary.BigEndian.Uint64(n))
			t.bytes = int64(binary.BigEndian.Uint64(n[8:]))
			t.lastID = binary.BigEndian.Uint64(n[16:])
		}
		return nil
	})
	return t, err
}

// buckets are those of one transaction that writes.
type buckets struct {
	records, values, log, expiry, dead, store *bbolt.Bucket
}

func openBuckets(tx *bbolt.Tx) buckets {
	return buckets{
		records: tx.Bucket(bucketRecords),
		values:  tx.Bucket(bucketValues),
		log:     tx.Bucket(bucketLog),
		expiry:  tx.Bucket(bucketExpiry),
		dead:    tx.Bucket(bucketDead),
		store:   tx.Bucket(bucketStore),
	}
}

// apply makes the change.
func (f buckets) apply(w *write) error {
	old, next := w.old, w.new
	born := next != nil && (old == nil || next.id != old.id)
	if old != nil && (next == nil || born) {
		if err := errors.Join(f.removeLog(old), f.values.Delete(idKey(old.id))); err != nil {
			return err
		}
	}
	if next == nil {
		return errors.Join(f.expiry.Delete(old.indexKey()), f.records.Delete([]byte(w.key)))
	}
	if err := f.index(w.key, old, next); err != nil {
		return err
	}
	first := next.length - int64(len(w.entries))
	for i, entry := range w.entries {
		if err := f.log.Put(logKey(next.id, first+int64(i)), entry); err != nil {
			return err
		}
	}
	if born {
		if err := f.records.Put([]byte(w.key), idKey(next.id)); err != nil {
			return err
		}
	}
	return f.values.Put(idKey(next.id), next.encode())
}

// index keeps the expiry index, which is left alone where it looks at the record
// early enough.
func (f buckets) index(key string, old, next *kept) error {
	at := next.indexKey()
	if old != nil {
		was := old.indexKey()
		if bytes.Equal(was, at) {
			return nil
		}
		if err := f.expiry.Delete(was); err != nil {
			return err
		}
	}
	return f.expiry.Put(at, []byte(key))
}

// removeLog removes a short log; a long one is left to the sweeper.
func (f buckets) removeLog(k *kept) error {
	if k.length > maxLogAtOnce {
		return f.dead.Put(idKey(k.id), nil)
	}
	for i := range k.length {
		if err := f.log.Delete(logKey(k.id, i)); err != nil {
			return err
		}
	}
	return nil
}

func (f buckets) putTotals(t totals) error {
	b := make([]byte, 0, 24)
	b = binary.BigEndian.AppendUint64(b, uint64(t.records))
	b = binary.BigEndian.AppendUint64(b, uint64(t.bytes))
	return f.store.Put(keyTotals, binary.BigEndian.AppendUint64(b, t.lastID))
}
