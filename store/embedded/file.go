package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"runtime"
	"runtime/debug"
	"time"

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
//	values   id                       → record.encode
//	log      id, number of entry      → encodeEntry
//	expiry   class, indexed, id       → key; for evictable records of an owner, the owner follows the class
//	deleted  id                       → empty: logs that remain to be removed
//	store    format                   → the version of the file format
var (
	bucketRecords = []byte("records")
	bucketValues  = []byte("values")
	bucketLog     = []byte("log")
	bucketExpiry  = []byte("expiry")
	bucketDeleted = []byte("deleted")
	bucketStore   = []byte("store")

	buckets = [][]byte{bucketRecords, bucketValues, bucketLog, bucketExpiry, bucketDeleted, bucketStore}

	keyFormat = []byte("format")
)

const (
	format    = 3 // version of the file format
	oldFormat = 2 // of the versions that had a write-ahead log; Convert reads it

	maxDueRecords     = 256  // records that one call of expired or oldest returns
	maxGroups         = 64   // owners that one call of expired examines
	maxRemovedEntries = 1024 // entries of deleted records that one transaction removes

	pageSize    = 4096         // bytes of the pages of a new file
	minFileSize = 2 * pageSize // bytes

	lockTimeout = time.Second // how long to wait until another process releases the file
)

// errDamaged reports that the file is a store file with damaged content.
var errDamaged = errors.New("the store file is damaged")

// file is the bbolt file of the store.
type file struct {
	db   *bbolt.DB
	path string
}

// guard calls use. A panic of bbolt, which does not validate pages, and the access to a page behind the end of the file
// become an error.
func guard(use func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // restored for this goroutine on return
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v", errDamaged, value)
		}
	}()
	return use()
}

// view calls read with a read transaction. What read keeps must be copied.
func (f *file) view(read func(*bbolt.Tx) error) error {
	err := guard(func() error { return f.db.View(read) })
	if errors.Is(err, bbolterrors.ErrDatabaseNotOpen) {
		return store.ErrClosed
	}
	return err
}

// get returns the record, or nil if there is none.
func (f *file) get(key string) (r *record, err error) {
	err = f.view(func(tx *bbolt.Tx) error {
		r, err = readRecord(tx, key, true)
		return err
	})
	return r, err
}

// readRecord returns the record, or nil if there is none. It is a copy unless the caller uses it in the transaction only.
func readRecord(tx *bbolt.Tx, key string, copied bool) (*record, error) {
	id := tx.Bucket(bucketRecords).Get([]byte(key))
	if id == nil {
		return nil, nil
	}
	var r *record
	if len(id) == 8 {
		b := tx.Bucket(bucketValues).Get(id)
		if copied {
			b = bytes.Clone(b)
		}
		r = decodeRecord(key, binary.BigEndian.Uint64(id), b)
	}
	if r == nil {
		return nil, fmt.Errorf("%w: the record %q is not as it was written", errDamaged, key)
	}
	return r, nil
}

// readLog calls add with copies of the entries of the record from a number on, until it returns false.
func readLog(tx *bbolt.Tx, key string, r *record, from int64, add func([]byte) bool) error {
	c := tx.Bucket(bucketLog).Cursor()
	at, b := c.Seek(logKey(r.id, from))
	for n := from; n < r.length; n++ {
		entry, ok := decodeEntry(at, b)
		if !ok || !bytes.Equal(at, logKey(r.id, n)) {
			return fmt.Errorf("%w: entry %d of the record %q is missing or not as it was written", errDamaged, n, key)
		}
		if !add(entry) {
			return nil
		}
		at, b = c.Next()
	}
	return nil
}

// checkFile reads every page of an existing file before it is opened for writing.
// bbolt does not validate pages. On a damaged page it panics, partly in its own
// goroutines, where the panic cannot be recovered. A page beyond the end of a truncated
// file terminates the process. checkFile returns an error in both cases. It returns the sums of all records, and the last id.
func checkFile(path string) (all ownerSums, lastID uint64, err error) {
	stat, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, 0, err
	case stat.Size() < minFileSize:
		return nil, 0, fmt.Errorf("%w: it has only %d bytes", errDamaged, stat.Size())
	}
	// Opened read-only, bbolt does not search for free pages, and locks out writers.
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true, NoStatistics: true})
	if err != nil {
		return nil, 0, err
	}
	all = make(ownerSums)
	err = (&file{db: db}).view(func(tx *bbolt.Tx) error {
		if err := readPages(tx, all); err != nil {
			return err
		}
		lastID = tx.Bucket(bucketValues).Sequence()
		return nil
	})
	return all, lastID, errors.Join(err, db.Close())
}

// readPages checks the format, reads all keys and the last byte of each value, and adds the records to the sums. It panics if a bucket
// is missing.
func readPages(tx *bbolt.Tx, all ownerSums) error {
	own := tx.Bucket(bucketStore)
	if own == nil {
		return fmt.Errorf("%w: it has no format", errDamaged)
	}
	if err := checkFormat(own.Get(keyFormat)); err != nil {
		return err
	}
	read := byte(0)
	for _, name := range buckets {
		var previous []byte
		err := tx.Bucket(name).ForEach(func(key, value []byte) error {
			if previous != nil && bytes.Compare(previous, key) >= 0 {
				return fmt.Errorf("%w: the keys of %s are not in order", errDamaged, name)
			}
			if previous = key; len(value) > 0 {
				read |= value[len(value)-1]
			}
			if bytes.Equal(name, bucketValues) {
				r, length := parseRecord(value)
				if all.add(length, r, +1); r == nil {
					return fmt.Errorf("%w: a record is too short", errDamaged)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	_ = read // only the access matters
	return nil
}

// checkFormat returns an error unless the stored format is that of this version.
func checkFormat(stored []byte) error {
	switch {
	case len(stored) != 1:
		return fmt.Errorf("%w: the number of its format is missing", errDamaged)
	case stored[0] == oldFormat:
		return errOldFormat
	case stored[0] != format:
		return fmt.Errorf("the file has format %d, but this version of Fairway reads format %d: "+
			"use the version that created it, or move the file away", stored[0], format)
	}
	return nil
}

var errOldFormat = fmt.Errorf("the file has format %d of an earlier version of Fairway: "+
	"while Caddy does not run, convert it with the command", oldFormat)

// openFile opens a file that checkFile has checked, or that is new, for writing.
func openFile(path string, maxBytes int64) (f *file, err error) {
	err = guard(func() error {
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{
			Timeout:         lockTimeout,
			NoFreelistSync:  true, // smaller commits; bbolt rebuilds the list on opening
			FreelistType:    bbolt.FreelistMapType,
			NoStatistics:    true,
			PageSize:        pageSize,
			InitialMmapSize: mapSize(maxBytes),
		})
		f = &file{db: db, path: path}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := f.rewriteMeta(); err != nil {
		return nil, errors.Join(err, f.db.Close())
	}
	return f, nil
}

// mapSize returns the size of the memory map of the file. When the file outgrows it, bbolt waits for all readers, also for a
// backup, and copies all pages that the transaction has changed. The map takes no memory, and no space on the disk.
func mapSize(maxBytes int64) int {
	if bits.UintSize < 64 || runtime.GOOS == "windows" { // Windows extends the file to the size of the map
		return 16 << 20
	}
	return int(min(4*maxBytes, 64<<30))
}

// create creates the file with its buckets, if it is new.
func (f *file) create() error {
	return f.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketStore).Put(keyFormat, []byte{format})
	})
}

// rewriteMeta makes the newest meta page durable. A transaction is visible once its meta page is written, even if the sync
// after that fails, or a crash comes before it. It is not durable then, and the next transaction could overwrite pages of the
// last durable one. After a sync has failed, another sync alone does not write the same pages again.
func (f *file) rewriteMeta() error {
	file, err := os.OpenFile(f.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	pages := make([]byte, 2*f.db.Info().PageSize)
	if _, err := io.ReadFull(file, pages); err != nil {
		return err
	}
	if _, err := file.WriteAt(pages, 0); err != nil {
		return err
	}
	return file.Sync()
}

// isVisible reports whether readers see the transaction.
func (f *file) isVisible(id int) (visible bool) {
	_ = f.view(func(tx *bbolt.Tx) error {
		visible = tx.ID() >= id
		return nil
	})
	return visible
}

// expired returns records whose time in the expiry index is at most now, at most maxDueRecords of them.
// It reads the index from a position on, and returns the position for the next call, or nil at the end.
func expired(tx *bbolt.Tx, now int64, from []byte) (keys []string, next []byte) {
	c := tx.Bucket(bucketExpiry).Cursor()
	groups := 0
	for at, key := c.Seek(from); len(at) > 16; {
		if len(keys) == maxDueRecords || groups == maxGroups {
			return keys, bytes.Clone(at)
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
	return keys, nil
}

// oldest returns the records of an owner and a class that expire first, at most number of them.
func oldest(tx *bbolt.Tx, owner share.Owner, class byte, number int64) (keys []string) {
	c := tx.Bucket(bucketExpiry).Cursor()
	group := appendEvictableGroup(nil, class, owner)
	for at, key := c.Seek(group); len(at) == len(group)+16 && bytes.HasPrefix(at, group) && int64(len(keys)) < number; at, key = c.Next() {
		keys = append(keys, string(key))
	}
	return keys
}
