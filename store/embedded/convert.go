package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/fairwayhq/fairway/internal/share"
)

// Old is a record of an earlier format.
type Old struct {
	ID               uint64
	Value, Tombstone []byte
	Owner            string
	Expires          int64 // milliseconds since 1970
	Evictable        bool
	Length           int64    // number of entries of the log
	LogBytes         int64    // bytes of all entries
	Log              [][]byte // those that the file does not have: the last ones
}

// ReadOld calls visit for each record of a store of format 2, as format2.Read does. The values are valid during the call.
type ReadOld func(path string, visit func(key string, r *Old) error) error

// convertedBytes is the size after which a transaction of Convert is committed.
const convertedBytes = 8 << 20

// Convert makes a store of this version from the store of format 2 at path. It renames the old files, and returns the new name
// of the old store file. No process may have the store open. After an error, the old files are as they were.
func Convert(path string, read ReadOld) (r *Report, old string, err error) {
	own, err := readFormat(path)
	switch {
	case err != nil:
		return nil, "", err
	case own == format:
		return nil, "", fmt.Errorf("%s has format %d already", path, format)
	case own == 0:
		return nil, "", fmt.Errorf("%s: %w", path, errNoStore)
	case own != oldFormat:
		return nil, "", fmt.Errorf("%s has format %d; only format %d can be converted", path, own, oldFormat)
	}
	converted := path + ".converted"
	if err := os.Remove(converted); err != nil && !errors.Is(err, os.ErrNotExist) { // of a conversion that was killed
		return nil, "", err
	}
	defer os.Remove(converted) //nolint:errcheck // it has been renamed, unless there was an error
	if err := convertInto(converted, path, read); err != nil {
		return nil, "", fmt.Errorf("converting the store: %w", explainOpen(path, err))
	}
	if r, err = Check(converted); err != nil {
		return nil, "", err
	}
	if old, err = setAside(path, "format2"); err != nil {
		return nil, "", err
	}
	return r, old, errors.Join(os.Rename(converted, path), syncFolder(path))
}

// convertInto writes the records in large transactions.
func convertInto(converted, path string, read ReadOld) error {
	f, err := openFile(converted, defaultMaxBytes)
	if err != nil {
		return err
	}
	var writes []*write
	var size int64
	var lastID uint64
	commit := func() error {
		err := f.write(writes, lastID, func() error { return nil })
		writes, size = nil, 0
		return err
	}
	add := func(key string, r *Old) error {
		lastID++
		next := &record{
			id: lastID, expires: r.Expires, indexed: r.Expires, length: r.Length, logBytes: r.LogBytes,
			evictable: r.Evictable, owner: share.Owner(r.Owner), tombstone: bytes.Clone(r.Tombstone), value: bytes.Clone(r.Value),
		}
		w := &write{key: key, next: next}
		for _, entry := range r.Log {
			w.entries = append(w.entries, bytes.Clone(entry))
		}
		writes = append(writes, w)
		if size += next.size(len(key)); size < convertedBytes {
			return nil
		}
		return commit()
	}
	if err = f.create(); err == nil {
		err = read(path, add)
	}
	if err == nil {
		err = commit()
	}
	return errors.Join(err, f.db.Close(), takeOwner(converted))
}
