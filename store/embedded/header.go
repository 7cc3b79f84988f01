package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// errNoStore reports that a file is not a store.
var errNoStore = errors.New("it is not a store file")

// readFormat returns the format of the store file, or 0 if it is not known: there is no file, or a process writes it at this time. It
// takes no lock.
//
// A bbolt file begins with two pages, whose content begins at byte 16: magic 4, version 4, page size 4, flags 4, page of the root 8, 24
// other bytes, number of the transaction 8. The page of the root has the small bucket "store", whose keys are followed by their values.
func readFormat(path string) (byte, error) {
	const magic, header, maxPage = 0xED0CDAED, 16, 64 << 10
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	head := make([]byte, 2*maxPage)
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if n == 0 {
		return 0, nil // Open initializes an empty file
	}
	var newest, size, root uint64
	for at := header; at+maxPage < len(head); at += int(size) {
		meta := head[at:]
		if binary.NativeEndian.Uint32(meta) != magic {
			return 0, errNoStore
		}
		if size = uint64(binary.NativeEndian.Uint32(meta[8:])); size == 0 || size > maxPage {
			return 0, errNoStore
		}
		if transaction := binary.NativeEndian.Uint64(meta[48:]); root == 0 || transaction > newest {
			newest, root = transaction, binary.NativeEndian.Uint64(meta[16:])
		}
		if at > header {
			break
		}
	}
	page := make([]byte, size)
	_, _ = file.ReadAt(page, int64(root*size))
	if _, after, found := bytes.Cut(page, keyFormat); found && len(after) > 0 {
		return after[0], nil
	}
	return 0, nil
}

// CheckPlace returns an error if Open would fail for a reason that does not pass: there is a file that is not a store of this version, or
// the folder cannot exist. It takes no lock, and changes nothing.
func CheckPlace(path string) error {
	for folder := filepath.Dir(path); ; folder = filepath.Dir(folder) {
		info, err := os.Stat(folder)
		if errors.Is(err, os.ErrNotExist) && folder != filepath.Dir(folder) {
			continue
		}
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a folder", folder)
		}
		if err == nil {
			err = checkWritable(folder)
		}
		if err != nil {
			return fmt.Errorf("the folder of the store %s cannot be used: %w", path, err)
		}
		break
	}
	stored, err := readFormat(path)
	if err == nil && stored != 0 {
		err = checkFormat([]byte{stored})
	}
	if err != nil {
		return explainOpen(path, err)
	}
	return nil
}
