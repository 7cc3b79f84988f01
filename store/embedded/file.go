package embedded

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/fairwayhq/fairway/store"
)

// The buckets of the file. All numbers are big-endian, so that keys sort numerically.
// Times are in milliseconds since 1970. Keys may be hashes, which scatter over all pages.
// So everything that changes with each write is stored by id: records of the same time
// are then neighbors.
//
//	records  key                      → id
//	values   id                       → record.appendTo
//	log      id, number of entry      → entry
//	expiry   class, indexed, id       → key
//	deleted  id                       → empty: logs that remain to be removed
//	store    format, totals, position → numbers; position is that of the write-ahead log
var (
	bucketRecords = []byte("records")
	bucketValues  = []byte("values")
	bucketLog     = []byte("log")
	bucketExpiry  = []byte("expiry")
	bucketDeleted = []byte("deleted")
	bucketStore   = []byte("store")

	keyFormat   = []byte("format")
	keyTotals   = []byte("totals")
	keyPosition = []byte("position")
)

const (
	format = 1 // version of the file format

	maxDueRecords     = 256  // records that one call of dueRecords returns
	maxRemovedEntries = 4096 // entries that one call of removeDeletedLog removes
)

// walPosition is the state of the write-ahead log as recorded in the store file.
type walPosition struct {
	salt    uint64
	flushed uint64 // number of the last frame that the file contains
}

// file is the bbolt file of the store.
type file struct {
	db   *bbolt.DB
	path string
}

func (f *file) close() error { return f.db.Close() }

func (f *file) view(read func(*bbolt.Tx) error) error {
	err := f.db.View(read)
	if errors.Is(err, bbolterrors.ErrDatabaseNotOpen) {
		return store.ErrClosed
	}
	return err
}

// get returns a copy of the record, or nil if there is none.
func (f *file) get(key string) (r *record, err error) {
	err = f.view(func(tx *bbolt.Tx) (err error) {
		r, err = readRecord(tx, key)
		return err
	})
	return r, err
}

// readRecord returns a copy of the record, or nil if there is none.
func readRecord(tx *bbolt.Tx, key string) (*record, error) {
	id := tx.Bucket(bucketRecords).Get([]byte(key))
	if id == nil {
		return nil, nil
	}
	b := tx.Bucket(bucketValues).Get(id)
	r := decodeRecord(b)
	if r == nil {
		return nil, fmt.Errorf("the store file is damaged: the encoded record %q has only %d bytes", key, len(b))
	}
	return r, nil
}

// prepare creates the buckets of a new file, or checks the format of an existing one. It
// returns the totals and the position of the write-ahead log.
func (f *file) prepare() (t totals, p walPosition, err error) {
	err = f.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketRecords, bucketValues, bucketLog, bucketExpiry, bucketDeleted, bucketStore} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		b := tx.Bucket(bucketStore)
		switch stored := b.Get(keyFormat); {
		case stored == nil:
			if err := b.Put(keyFormat, []byte{format}); err != nil {
				return err
			}
		case len(stored) != 1:
			return fmt.Errorf("%w: the number of its format is missing", errDamaged)
		case stored[0] != format:
			return fmt.Errorf("the file has format %d, but this version of Fairway reads format %d: "+
				"use the version that created it, or move the file away", stored[0], format)
		}
		if n := b.Get(keyTotals); len(n) == 24 {
			t.records = int64(binary.BigEndian.Uint64(n))
			t.bytes = int64(binary.BigEndian.Uint64(n[8:]))
			t.lastID = binary.BigEndian.Uint64(n[16:])
		}
		if n := b.Get(keyPosition); len(n) == 16 {
			p.salt = binary.BigEndian.Uint64(n)
			p.flushed = binary.BigEndian.Uint64(n[8:])
			return nil
		}
		var salt [8]byte
		_, _ = rand.Read(salt[:]) // never fails
		p.salt = binary.BigEndian.Uint64(salt[:])
		return newTransaction(tx).putPosition(p)
	})
	return t, p, err
}

// writeMemtable writes the memtable to the file, together with the totals and the position
// of the write-ahead log.
func (f *file) writeMemtable(m *memtable, p walPosition, beforeCommit func() error) error {
	if len(m.batches) == 0 {
		return nil
	}
	return f.db.Update(func(tx *bbolt.Tx) error {
		t := newTransaction(tx)
		if err := t.putMemtable(m); err != nil {
			return err
		}
		return errors.Join(t.putTotals(m.totals), t.putPosition(p), beforeCommit())
	})
}

// dueRecords returns the first records of the classes in the expiry index with a time up
// to until, at most maxDueRecords of them.
func (f *file) dueRecords(until int64, classes ...byte) ([]string, error) {
	var keys []string
	err := f.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketExpiry).Cursor()
		for _, class := range classes {
			for at, key := c.Seek([]byte{class}); len(at) == 17 && at[0] == class; at, key = c.Next() {
				if int64(binary.BigEndian.Uint64(at[1:])) > until || len(keys) == maxDueRecords {
					break
				}
				keys = append(keys, string(key))
			}
		}
		return nil
	})
	return keys, err
}

// removeDeletedLog removes log entries of deleted records. It reports whether there may be
// more.
func (f *file) removeDeletedLog() (more bool, err error) {
	err = f.view(func(tx *bbolt.Tx) error {
		id, _ := tx.Bucket(bucketDeleted).Cursor().First()
		more = id != nil
		return nil
	})
	if err != nil || !more {
		return false, err
	}
	err = f.db.Update(func(tx *bbolt.Tx) error {
		deleted, log := tx.Bucket(bucketDeleted), tx.Bucket(bucketLog)
		id, _ := deleted.Cursor().First()
		id = bytes.Clone(id)
		c := log.Cursor()
		var entries [][]byte
		for key, _ := c.Seek(id); bytes.HasPrefix(key, id) && len(entries) < maxRemovedEntries; key, _ = c.Next() {
			entries = append(entries, bytes.Clone(key))
		}
		for _, key := range entries {
			if err := log.Delete(key); err != nil {
				return err
			}
		}
		if len(entries) < maxRemovedEntries {
			return deleted.Delete(id)
		}
		return nil
	})
	return true, err
}
