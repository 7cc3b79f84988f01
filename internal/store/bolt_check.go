package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"go.etcd.io/bbolt"
)

// errDamaged says that the file is a store's, and that some of it is not as bbolt
// has written it.
var errDamaged = errors.New("the file is damaged")

// smallestFile is below what any file of bbolt has, in bytes: two pages.
const smallestFile = 2 * 4096

// checkFile reads every page of a file that is there already, before it is opened
// to be written. bbolt trusts a file: it panics over a damaged page, in goroutines
// of its own where nobody can recover, and a page behind the end of a file that was
// cut ends the process. Here both are errors.
func checkFile(path string) error {
	stat, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && stat.Size() == 0:
		return nil // bbolt makes it
	case err != nil:
		return err
	case stat.Size() < smallestFile:
		return fmt.Errorf("%w: it ends after %d bytes", errDamaged, stat.Size())
	}
	// Who reads only looks for no free pages, and keeps out who writes.
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true, NoStatistics: true})
	if err != nil {
		return err
	}
	return errors.Join(readAll(db), db.Close())
}

// readAll reads all keys, and where their values end.
func readAll(db *bbolt.DB) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // of this goroutine
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
	_ = read // that it could be is enough
	return err
}

// openFile opens the file to be written. What bbolt panics over, though the file
// could be read, is an error.
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
		NoFreelistSync: true, // less to write in each commit; the list is found again on opening
		FreelistType:   bbolt.FreelistMapType,
		NoStatistics:   true,
	})
}
