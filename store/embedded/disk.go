package embedded

import (
	"io"
	"os"

	"go.etcd.io/bbolt"
)

// disk has the operations that change the files of the store. Tests replace it to simulate crashes and errors.
type disk interface {
	// open opens a file of the write-ahead log, as os.OpenFile does.
	open(path string, flag int) (diskFile, error)
	// openDB opens the store file, as bbolt.Open does.
	openDB(path string, options *bbolt.Options) (*bbolt.DB, error)
	rename(from, to string) error
	remove(path string) error
	// syncFolder makes the directory entries of the file's folder durable.
	syncFolder(path string) error
}

// diskFile is an open file.
type diskFile interface {
	io.Reader
	io.WriterAt
	io.Closer
	// Sync makes the content and the metadata of the file durable.
	Sync() error
	// syncData makes the content of the file durable, and only the metadata needed to read it.
	syncData() error
}

// osDisk is the disk of the operating system.
type osDisk struct{}

func (osDisk) open(path string, flag int) (diskFile, error) {
	file, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{file}, nil
}

func (osDisk) openDB(path string, options *bbolt.Options) (*bbolt.DB, error) {
	return bbolt.Open(path, 0o600, options)
}

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }
func (osDisk) remove(path string) error     { return os.Remove(path) }
func (osDisk) syncFolder(path string) error { return syncFolder(path) }

// osFile is a file of the operating system.
type osFile struct{ *os.File }
