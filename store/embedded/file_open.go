package embedded

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/fairwayhq/fairway/internal/share"
)

// errDamaged reports that the file is a store file with damaged content.
var errDamaged = errors.New("the file is damaged")

const (
	// pageSize is the size of the pages of a new file. Flushes change many records each, so they write
	// fewer pages if these are larger than the system's.
	pageSize = 8192

	minFileSize = 2 * pageSize // bytes

	// initialMap is the size of the memory map of a small file, in bytes. Whenever the file outgrows its
	// map, bbolt copies all pages that the flush has changed so far. A larger file grows in steps of this
	// size anyway; until it is written, it takes no space on the disk.
	initialMap = 16 << 20

	lockTimeout = time.Second // how long to wait until another process releases the file
)

// checkFile reads every page of an existing file before it is opened for writing.
// bbolt does not validate pages. On a damaged page it panics, partly in its own
// goroutines, where the panic cannot be recovered. A page beyond the end of a truncated
// file terminates the process. checkFile returns an error in both cases.
func checkFile(d disk, path string) error {
	stat, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && stat.Size() == 0:
		return nil // bbolt initializes it
	case err != nil:
		return err
	case stat.Size() < minFileSize:
		return fmt.Errorf("%w: it has only %d bytes", errDamaged, stat.Size())
	}
	// Opened read-only, bbolt does not search for free pages, and locks out writers.
	db, err := d.openDB(path, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true, NoStatistics: true})
	if err != nil {
		return err
	}
	return errors.Join(readPages(db), db.Close())
}

// readPages reads all keys and the last byte of each value.
func readPages(db *bbolt.DB) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // restored for this goroutine on return
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v", errDamaged, value)
		}
	}()
	return db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			return readBucket(name, b)
		})
	})
}

func readBucket(name []byte, b *bbolt.Bucket) error {
	var previous []byte
	read := byte(0)
	err := b.ForEach(func(key, value []byte) error {
		if previous != nil && bytes.Compare(previous, key) >= 0 {
			return fmt.Errorf("%w: the keys of %s are not in order", errDamaged, name)
		}
		previous = key
		if len(value) > 0 {
			read |= value[len(value)-1]
		}
		return nil
	})
	_ = read // only the access matters
	return err
}

// createFile creates the store file if there is none or an empty one. The file has another name until it is
// complete, because the remains of a creation that a crash interrupts look like a damaged file.
func createFile(d disk, path string) error {
	stat, err := os.Stat(path)
	if err == nil && stat.Size() > 0 {
		return nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	incomplete := path + ".new"
	if err := d.remove(incomplete); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := openFile(d, incomplete)
	if err != nil {
		return err
	}
	_, err = f.prepare()
	if err := errors.Join(err, f.close()); err != nil {
		return err
	}
	return errors.Join(d.rename(incomplete, path), d.syncFolder(path))
}

// openFile opens the file for writing. A panic of bbolt becomes an error.
func openFile(d disk, path string) (f *file, err error) {
	if err := checkFile(d, path); err != nil {
		return nil, err
	}
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v", errDamaged, value)
		}
	}()
	db, err := d.openDB(path, &bbolt.Options{
		Timeout:        lockTimeout,
		NoFreelistSync: true, // smaller commits; bbolt rebuilds the list on opening
		FreelistType:   bbolt.FreelistMapType,
		NoStatistics:   true,
		PageSize:       pageSize,

		InitialMmapSize: initialMap,
	})
	if err != nil {
		return nil, err
	}
	return &file{db: db, path: path, disk: d, meta: 2 * db.Info().PageSize, unsynced: true}, nil
}

// explainOpen adds to the error how to fix it.
func explainOpen(path string, err error) error {
	switch {
	case errors.Is(err, bbolterrors.ErrTimeout):
		holder := "another process"
		if pid := lockHolder(path); pid != 0 {
			holder = fmt.Sprintf("process %d", pid)
		}
		return fmt.Errorf("the store %s is in use by %s, and only one process can open it: "+
			"stop that process, use another file, or use Redis to share one store", path, holder)
	case errors.Is(err, bbolterrors.ErrInvalid), errors.Is(err, bbolterrors.ErrVersionMismatch), errors.Is(err, bbolterrors.ErrChecksum),
		errors.Is(err, errDamaged):
		return fmt.Errorf("%s is not a store file, or it is damaged: move it away, and Fairway creates a new one: %w", path, err)
	}
	return fmt.Errorf("opening the store %s: %w", path, err)
}

// prepare creates the buckets of a new file, or checks the format of an existing one. It
// returns the position of the write-ahead log.
func (f *file) prepare() (p walPosition, err error) {
	err = f.update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketRecords, bucketValues, bucketLog, bucketExpiry, bucketDeleted, bucketOwners, bucketStore} {
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
		if p = readPosition(tx); p != (walPosition{}) {
			return nil
		}
		var salt [8]byte
		_, _ = rand.Read(salt[:]) // never fails
		p.salt = binary.BigEndian.Uint64(salt[:])
		return newTransaction(tx).putPosition(p)
	})
	return p, err
}

// readSums returns the sums of all owners and the last id.
func (f *file) readSums() (all ownerSums, lastID uint64, err error) {
	all = make(ownerSums)
	err = f.view(func(tx *bbolt.Tx) error {
		if id := tx.Bucket(bucketStore).Get(keyLastID); len(id) == 8 {
			lastID = binary.BigEndian.Uint64(id)
		}
		return tx.Bucket(bucketOwners).ForEach(func(owner, encoded []byte) error {
			all[share.Owner(owner[1:])] = decodeSums(encoded)
			return nil
		})
	})
	return all, lastID, err
}
