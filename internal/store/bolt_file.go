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

// The buckets of the file. All numbers are big-endian, so that keys sort numerically.
// Times are in milliseconds since 1970. Keys may be hashes, which scatter over all pages.
// So everything that changes with each write is stored by id: records of the same time
// are then neighbors.
//
//	records  key                  → id
//	values   id                   → kept.appendTo
//	log      id, number of entry  → entry
//	expiry   class, indexed, id   → key
//	dead     id                   → empty: logs that remain to be removed
//	store    format, totals, mark → numbers; mark is the state of the write-ahead log
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
	format     = 3 // version of the file format
	formatBare = 2 // version without a write-ahead log; upgraded on opening

	keptHeader     = 41  // bytes before the value
	recordOverhead = 128 // bytes counted for a record besides its content
	entryOverhead  = 32  // bytes counted for an entry besides its content
	maxLogAtOnce   = 256 // maximum number of entries removed together with their record

	classKept  = 0 // class in the expiry index
	classSpare = 1
)

// kept is the stored form of a record.
type kept struct {
	id       uint64 // unique for each record, also if its key is reused; the log is stored by it
	expires  int64
	indexed  int64 // time in the expiry index; never after expires
	length   int64
	logBytes int64
	spare    bool
	value    []byte
}

// living returns the record, or nil if it has expired.
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

// size returns the bytes that count towards MaxBytes.
func (k *kept) size(key string) int64 {
	return int64(len(key)+len(k.value)) + k.logBytes + k.length*entryOverhead + recordOverhead
}

// appendTo appends the encoded record.
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

// indexKey returns the key of the record in the expiry index.
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

// readKept returns a copy of the record, or nil if there is none.
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

// decodeKept returns a copy of an encoded record, or nil if b is too short.
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

// expiresAt returns kept.expires of an encoded record.
func expiresAt(b []byte) int64 {
	if len(b) < keptHeader {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b[8:]))
}

// prepare creates the buckets of a new file, or checks the format of an existing one. It
// returns the totals and the state of the write-ahead log.
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

// buckets are the buckets in a write transaction.
type buckets struct {
	records, values, log, expiry, dead, store *bbolt.Bucket

	memory []byte // buffer for values, which bbolt references until the transaction ends
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

// room returns an empty slice with the given capacity.
func (f *buckets) room(size int) []byte {
	if cap(f.memory)-len(f.memory) < size {
		f.memory = make([]byte, 0, size)
	}
	n := len(f.memory)
	f.memory = f.memory[:n+size]
	return f.memory[n : n : n+size]
}

// born reports whether next is a new record with its own id.
func born(old, next *kept) bool {
	return next != nil && (old == nil || next.id != old.id)
}

// name updates the index from key to id.
func (f *buckets) name(key string, old, next *kept) error {
	switch {
	case born(old, next):
		return f.records.Put([]byte(key), binary.BigEndian.AppendUint64(f.room(8), next.id))
	case next == nil:
		return f.records.Delete([]byte(key))
	}
	return nil
}

// apply writes the record, its log and its place in the expiry index. entries are the
// last entries of the log, which the file does not have yet.
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

// index updates the expiry index if the time in it has changed.
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

// removeLog removes a short log. It leaves a long one to the sweeper.
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
