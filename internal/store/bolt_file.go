package store

import (
	"bytes"
	"crypto/rand"
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
//	values   id                   → kept.appendTo
//	log      id, number of entry  → entry
//	expiry   class, indexed, id   → key
//	dead     id                   → nothing: logs that remain to be removed
//	store    format, totals, mark → numbers; mark is what the file knows of its journal
var (
	bucketRecords = []byte("records")
	bucketValues  = []byte("values")
	bucketLog     = []byte("log")
	bucketExpiry  = []byte("expiry")
	bucketDead    = []byte("dead")
	bucketStore   = []byte("store")

	keyFormat = []byte("format")
	keyTotals = []byte("totals")
	keyMark   = []byte("mark")
)

const (
	format     = 3 // of the file
	formatBare = 2 // of one that was made before there was a journal; it becomes a new one

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

// appendTo appends the record as the file has it.
func (k *kept) appendTo(b []byte) []byte {
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
	k := decodeKept(b)
	if k == nil {
		return nil, fmt.Errorf("the store is damaged: record %q has %d bytes", key, len(b))
	}
	return k, nil
}

// decodeKept returns a copy of an encoded record; nil if it is none.
func decodeKept(b []byte) *kept {
	if len(b) < keptHeader {
		return nil
	}
	return &kept{
		id:       binary.BigEndian.Uint64(b),
		expires:  int64(binary.BigEndian.Uint64(b[8:])),
		indexed:  int64(binary.BigEndian.Uint64(b[16:])),
		length:   int64(binary.BigEndian.Uint64(b[24:])),
		logBytes: int64(binary.BigEndian.Uint64(b[32:])),
		spare:    b[40] == classSpare,
		value:    append([]byte{}, b[keptHeader:]...),
	}
}

// expiresAt is kept.expires of an encoded record.
func expiresAt(b []byte) int64 {
	if len(b) < keptHeader {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b[8:]))
}

// prepare makes the buckets of a new file, or checks the old one's format, and
// returns the totals and what it knows of its journal.
func prepare(db *bbolt.DB) (t totals, m mark, err error) {
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketRecords, bucketValues, bucketLog, bucketExpiry, bucketDead, bucketStore} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		b := tx.Bucket(bucketStore)
		switch was := b.Get(keyFormat); {
		case was == nil, bytes.Equal(was, []byte{formatBare}):
			if err := b.Put(keyFormat, []byte{format}); err != nil {
				return err
			}
		case !bytes.Equal(was, []byte{format}):
			return fmt.Errorf("its format is %d, not %d: another version of Fairway made it; use that, or move the file away", was, format)
		}
		if n := b.Get(keyTotals); len(n) == 24 {
			t.records = int64(binary.BigEndian.Uint64(n))
			t.bytes = int64(binary.BigEndian.Uint64(n[8:]))
			t.lastID = binary.BigEndian.Uint64(n[16:])
		}
		if n := b.Get(keyMark); len(n) == 16 {
			m.salt = binary.BigEndian.Uint64(n)
			m.applied = binary.BigEndian.Uint64(n[8:])
			return nil
		}
		var salt [8]byte
		_, _ = rand.Read(salt[:]) // never fails
		m.salt = binary.BigEndian.Uint64(salt[:])
		return openBuckets(tx).putMark(m)
	})
	return t, m, err
}

// buckets are those of one transaction that writes.
type buckets struct {
	records, values, log, expiry, dead, store *bbolt.Bucket

	memory []byte // for what bbolt does not copy: values, until the transaction ends
}

func openBuckets(tx *bbolt.Tx) *buckets {
	return &buckets{
		records: tx.Bucket(bucketRecords),
		values:  tx.Bucket(bucketValues),
		log:     tx.Bucket(bucketLog),
		expiry:  tx.Bucket(bucketExpiry),
		dead:    tx.Bucket(bucketDead),
		store:   tx.Bucket(bucketStore),
	}
}

// room returns so many bytes of memory, with nothing in them.
func (f *buckets) room(size int) []byte {
	if cap(f.memory)-len(f.memory) < size {
		f.memory = make([]byte, 0, size)
	}
	n := len(f.memory)
	f.memory = f.memory[:n+size]
	return f.memory[n : n : n+size]
}

// born reports whether a record begins a life of which the file has nothing.
func born(old, next *kept) bool {
	return next != nil && (old == nil || next.id != old.id)
}

// name files the record under its key.
func (f *buckets) name(key string, old, next *kept) error {
	switch {
	case born(old, next):
		return f.records.Put([]byte(key), binary.BigEndian.AppendUint64(f.room(8), next.id))
	case next == nil:
		return f.records.Delete([]byte(key))
	}
	return nil
}

// apply makes the rest of the change. The entries are the last of the log, which
// the file has not.
func (f *buckets) apply(key string, old, next *kept, entries [][]byte) error {
	if old != nil && (next == nil || born(old, next)) {
		if err := errors.Join(f.removeLog(old), f.values.Delete(idKey(old.id))); err != nil {
			return err
		}
	}
	if next == nil {
		return f.expiry.Delete(old.indexKey())
	}
	if err := f.index(key, old, next); err != nil {
		return err
	}
	first := next.length - int64(len(entries))
	for i, entry := range entries {
		if err := f.log.Put(logKey(next.id, first+int64(i)), entry); err != nil {
			return err
		}
	}
	return f.values.Put(idKey(next.id), next.appendTo(f.room(keptHeader+len(next.value))))
}

// index keeps the expiry index, which is left alone where it looks at the record
// early enough.
func (f *buckets) index(key string, old, next *kept) error {
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
func (f *buckets) removeLog(k *kept) error {
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

func (f *buckets) putTotals(t totals) error {
	b := make([]byte, 0, 24)
	b = binary.BigEndian.AppendUint64(b, uint64(t.records))
	b = binary.BigEndian.AppendUint64(b, uint64(t.bytes))
	return f.store.Put(keyTotals, binary.BigEndian.AppendUint64(b, t.lastID))
}

func (f *buckets) putMark(m mark) error {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 16), m.salt)
	return f.store.Put(keyMark, binary.BigEndian.AppendUint64(b, m.applied))
}
