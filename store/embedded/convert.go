package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/store/embedded/format2"
)

// convertedBytes is the size after which a transaction of Convert is committed.
const convertedBytes = 8 << 20

// Convert makes a store of this version from the store of format 2 at path. It renames the old files, and returns the new name
// of the old store file. No process may have the store open. After an error, the old files are as they were.
func Convert(path string) (r *Report, old string, err error) {
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
	if err := convertInto(converted, path); err != nil {
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

func convertInto(converted, path string) error {
	f, err := openFile(converted, DefaultMaxBytes)
	if err != nil {
		return err
	}
	c := converter{file: f}
	err = f.create()
	if err == nil {
		err = format2.Read(path, c.add)
	}
	if err == nil {
		err = c.commit()
	}
	return errors.Join(err, f.db.Close(), takeOwner(converted))
}

// converter writes records in large transactions.
type converter struct {
	file   *file
	writes []*write
	bytes  int64
	lastID uint64
}

func (c *converter) add(from *format2.Record, log func(func([]byte) error) error) error {
	c.lastID++
	next := &record{
		id: c.lastID, expires: from.Expires, indexed: from.Expires, length: from.Length, logBytes: from.LogBytes,
		evictable: from.Evictable, owner: share.Owner(from.Owner), tombstone: bytes.Clone(from.Tombstone), value: append([]byte{}, from.Value...),
	}
	w := &write{key: from.Key, next: next}
	if err := log(func(entry []byte) error {
		w.entries = append(w.entries, append([]byte{}, entry...))
		return nil
	}); err != nil {
		return err
	}
	c.writes = append(c.writes, w)
	if c.bytes += next.size(len(from.Key)); c.bytes < convertedBytes {
		return nil
	}
	return c.commit()
}

func (c *converter) commit() error {
	err := c.file.write(c.writes, c.lastID, func() error { return nil })
	c.writes, c.bytes = nil, 0
	return err
}
