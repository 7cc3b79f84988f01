package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"go.etcd.io/bbolt"
)

// errDamaged reports that the file is a store file with damaged content.
var errDamaged = errors.New("the file is damaged")

// smallestFile is the minimum size of a bbolt file, in bytes: two pages.
const smallestFile = 2 * 4096

// checkFile reads every page of an existing file before it is opened for writing.
// bbolt does not validate pages. On a damaged page it panics, partly in its own
// goroutines, where the panic cannot be recovered. A page beyond the end of a truncated
// file terminates the process. checkFile returns an error in both cases.
func checkFile(path string) error {
	stat, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && stat.Size() == 0:
		return nil // bbolt creates it
	case err != nil:
		return err
	case stat.Size() < smallestFile:
		return fmt.Errorf("%w: it ends after %d bytes", errDamaged, stat.Size())
	}
	// Opened read-only, bbolt does not search for free pages, and locks out writers.
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true, NoStatistics: true})
	if err != nil {
		return err
	}
	return errors.Join(readAll(db), db.Close())
}

// readAll reads all keys and the last byte of each value.
func readAll(db *bbolt.DB) (err error) {
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
	var before []byte
	read := byte(0)
	err := b.ForEach(func(key, value []byte) error {
		if before != nil && bytes.Compare(before, key) >= 0 {
			return fmt.Errorf("%w: the keys of %s are not in order", errDamaged, name)
		}
		before = key
		if len(value) > 0 {
			read |= value[len(value)-1]
		}
		return nil
	})
	_ = read // only the access matters
	return err
}

// openFile opens the file for writing. A panic of bbolt becomes an error.
func openFile(path string) (db *bbolt.DB, err error) {
	if err := checkFile(path); err != nil {
		return nil, err
	}
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v", errDamaged, value)
		}
	}()
	return bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:        lockTimeout,
		NoFreelistSync: true, // smaller commits; bbolt rebuilds the list on opening
		FreelistType:   bbolt.FreelistMapType,
		NoStatistics:   true,
	})
}
