package embedded

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/fairwayhq/fairway/internal/share"
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
//	expiry   class, indexed, id       → key; for evictable records of an owner, the owner follows the class
//	deleted  id                       → empty: logs that remain to be removed
//	owners   "=", owner               → sums of the owner's records
//	store    format, lastID, position → numbers; position is that of the write-ahead log
var (
	bucketRecords = []byte("records")
	bucketValues  = []byte("values")
	bucketLog     = []byte("log")
	bucketExpiry  = []byte("expiry")
	bucketDeleted = []byte("deleted")
	bucketOwners  = []byte("owners")
	bucketStore   = []byte("store")

	keyFormat   = []byte("format")
	keyLastID   = []byte("lastID")
	keyPosition = []byte("position")
)

const (
	format   = 2 // version of the file format
	ownerKey = '='

	maxDueRecords     = 256  // records that one call of expired or oldest returns
	maxGroups         = 64   // owners that one call of expired examines
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
	disk disk
	meta int // bytes of both meta pages

	updating sync.Mutex // held during a write transaction
	unsynced bool       // the last transaction may be visible but not durable
}

func (f *file) close() error { return f.db.Close() }

// update makes a change in one transaction. A transaction is visible once its meta page is written, even if
// the sync after that fails. It is not durable then, and the next transaction could overwrite pages of the
// last durable one. Therefore update makes the meta pages durable first, after an error and after opening the
// file, which another process may have left so.
func (f *file) update(change func(*bbolt.Tx) error) error {
	f.updating.Lock()
	defer f.updating.Unlock()
	if f.unsynced {
		if err := f.rewriteMeta(); err != nil {
			return fmt.Errorf("writing the meta pages again: %w", err)
		}
	}
	f.unsynced = true
	err := f.db.Update(change)
	f.unsynced = err != nil
	return err
}

// rewriteMeta writes both meta pages again and syncs them. After a sync has failed, another sync alone does
// not write the same pages again.
func (f *file) rewriteMeta() error {
	file, err := f.disk.open(f.path, os.O_RDWR)
	if err != nil {
		return err
	}
	defer file.Close()
	pages := make([]byte, f.meta)
	if _, err := io.ReadFull(file, pages); err != nil {
		return err
	}
	if _, err := file.WriteAt(pages, 0); err != nil {
		return err
	}
	return file.syncData()
}

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

// writeMemtable writes the memtable to the file, together with the sums and the position
// of the write-ahead log. If an earlier attempt has failed after its transaction became visible, it changes
// nothing.
func (f *file) writeMemtable(m *memtable, p walPosition, beforeCommit func() error) error {
	if len(m.batches) == 0 {
		return nil
	}
	return f.update(func(tx *bbolt.Tx) error {
		if stored := readPosition(tx); stored.flushed >= p.flushed {
			return nil
		}
		t := newTransaction(tx)
		if err := t.putMemtable(m); err != nil {
			return err
		}
		return errors.Join(t.putSums(), t.putPosition(p), beforeCommit())
	})
}

// expired returns records whose time in the expiry index is at most now, at most maxDueRecords of them.
// It reads the index from a position on, and returns the position for the next call, or nil at the end.
func (f *file) expired(now int64, from []byte) (keys []string, next []byte, err error) {
	err = f.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketExpiry).Cursor()
		groups := 0
		for at, key := c.Seek(from); len(at) > 16; {
			if len(keys) == maxDueRecords || groups == maxGroups {
				next = bytes.Clone(at)
				return nil
			}
			group := at[:len(at)-16]
			if int64(binary.BigEndian.Uint64(at[len(group):])) <= now {
				keys = append(keys, string(key))
				at, key = c.Next()
				continue
			}
			groups++ // skip the rest of the group, whose times begin with a byte 0
			at, key = c.Seek(append(bytes.Clone(group), 1))
		}
		return nil
	})
	return keys, next, err
}

// oldest returns the records of an owner and a class that expire first, at most number of them.
func (f *file) oldest(owner share.Owner, class byte, number int64) (keys []string, err error) {
	err = f.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucketExpiry).Cursor()
		group := appendEvictableGroup(nil, class, owner)
		for at, key := c.Seek(group); len(at) == len(group)+16 && bytes.HasPrefix(at, group) && int64(len(keys)) < number; at, key = c.Next() {
			keys = append(keys, string(key))
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
	err = f.update(func(tx *bbolt.Tx) error {
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

// sequentialFill is the fill percentage of pages in buckets with ascending keys. bbolt's default, 0.5,
// reserves space for keys that are inserted between others. The remaining space is for values that grow.
const sequentialFill = 0.9

// maxLogAtOnce is the maximum number of entries removed together with their record.
const maxLogAtOnce = 256

// transaction has the buckets of a write transaction of the file.
type transaction struct {
	records, values, log, expiry, deleted, owners, store *bbolt.Bucket

	changed ownerSums // what the transaction adds to the sums of each owner
	lastID  uint64    // of the new records

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
		owners:  tx.Bucket(bucketOwners),
		store:   tx.Bucket(bucketStore),
		changed: make(ownerSums),
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
			size += len(idKey(0)) + e.new.encodedSize() + len(key)
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
	t.changed.replace(key, old, next)
	if old != nil && (next == nil || isNew(old, next)) {
		if err := errors.Join(t.removeLog(old), t.values.Delete(idKey(old.id))); err != nil {
			return err
		}
	}
	if next == nil {
		return t.expiry.Delete(old.expiryKey())
	}
	t.lastID = max(t.lastID, next.id)
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
	return t.values.Put(t.key, next.appendTo(t.allocate(next.encodedSize())))
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

// putSums updates the sums of the owners, and the last id.
func (t *transaction) putSums() error {
	for owner, s := range t.changed {
		key := append([]byte{ownerKey}, owner...)
		stored := decodeSums(t.owners.Get(key))
		s = sums{s.records + stored.records, s.bytes + stored.bytes, s.evictable + stored.evictable, s.shrinkable + stored.shrinkable}
		var err error
		if s == (sums{}) {
			err = t.owners.Delete(key)
		} else {
			err = t.owners.Put(key, s.append(make([]byte, 0, sumsSize)))
		}
		if err != nil {
			return err
		}
	}
	if stored := t.store.Get(keyLastID); len(stored) == 8 {
		t.lastID = max(t.lastID, binary.BigEndian.Uint64(stored))
	}
	return t.store.Put(keyLastID, binary.BigEndian.AppendUint64(nil, t.lastID))
}

// readPosition returns the stored position, or the zero value if there is none.
func readPosition(tx *bbolt.Tx) (p walPosition) {
	if b := tx.Bucket(bucketStore).Get(keyPosition); len(b) == 16 {
		p.salt = binary.BigEndian.Uint64(b)
		p.flushed = binary.BigEndian.Uint64(b[8:])
	}
	return p
}

func (t *transaction) putPosition(p walPosition) error {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 16), p.salt)
	return t.store.Put(keyPosition, binary.BigEndian.AppendUint64(b, p.flushed))
}
