package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// A File reads a document from a file. It detects changes of this file, and of every
// file that the document refers to, first by identity, size and modification time, and then
// by content. Symbolic links and renames are therefore followed.
type File struct {
	Path    string
	MaxSize int64 // bytes; 0 means DefaultMaxDocument
}

// Location returns the path.
func (s *File) Location() string {
	return s.Path
}

// Fetch reads the file if it, or a file that the document refers to, has changed.
func (s *File) Fetch(ctx context.Context, previous *Snapshot) (*Snapshot, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	if previous != nil && !previous.stale() {
		return previous, false, nil
	}
	began := time.Now().Round(0) // wall clock time, as file systems use it
	data, file, err := readWatched(s.Path, s.MaxSize, began)
	if err != nil {
		return nil, false, fmt.Errorf("reading the document: %w", err)
	}
	snapshot := &Snapshot{
		Data:     data,
		Location: s.Path,
		hash:     file.hash,
		files:    []watchFile{file},
		began:    began,
	}
	if previous == nil {
		return snapshot, true, nil
	}
	changed := !snapshot.sameContent(previous)
	for _, earlier := range previous.files[min(1, len(previous.files)):] {
		current := lookAt(earlier.path, s.MaxSize, began)
		changed = changed || !current.sameContent(earlier)
		snapshot.files = append(snapshot.files, current)
	}
	if !changed {
		snapshot.Data = nil
	}
	return snapshot, changed, nil
}

// stale reports whether a file may differ from what the snapshot recorded.
func (s *Snapshot) stale() bool {
	for _, file := range s.files {
		if !file.stamp.equal(stampOf(file.path)) {
			return true
		}
	}
	return len(s.files) == 0
}

// watch returns the current state of the snapshot's own file and of the named files. If a
// file was written after the Fetch began, the Fetch may have read it before or after the
// write. Its content then counts as unknown, and the next Fetch treats it as changed.
func (s *Snapshot) watch(files []string) []watchFile {
	watched := []watchFile{s.files[0]}
	known := map[string]bool{s.files[0].path: true}
	for _, path := range files {
		if known[path] {
			continue
		}
		known[path] = true
		file := lookAt(path, DefaultMaxDocument, s.began)
		file.hashed = file.hashed && file.stamp.known
		watched = append(watched, file)
	}
	return watched
}

// A watchFile is the state of one file at the time it was read.
type watchFile struct {
	path   string
	stamp  stamp
	hash   [sha256.Size]byte
	hashed bool // the hash is of the content that was used
}

func (f watchFile) sameContent(earlier watchFile) bool {
	if f.stamp.absent() || earlier.stamp.absent() {
		return f.stamp.absent() && earlier.stamp.absent()
	}
	return f.hashed && earlier.hashed && f.hash == earlier.hash
}

// lookAt reads and hashes the file at path. A file that cannot be read has no hash; the
// build reports the error.
func lookAt(path string, limit int64, began time.Time) watchFile {
	_, file, err := readWatched(path, limit, began)
	if err != nil {
		return watchFile{path: path, stamp: stampOf(path)}
	}
	return file
}

// readWatched reads a regular file. Its stamp is unknown if the file may have been written
// after began.
func readWatched(path string, limit int64, began time.Time) ([]byte, watchFile, error) {
	before, err := os.Stat(path)
	if err != nil {
		return nil, watchFile{}, err
	}
	// Opening a pipe would block until it has a writer.
	if !before.Mode().IsRegular() {
		return nil, watchFile{}, fmt.Errorf("%s is not a regular file", path)
	}
	opened, err := os.Open(path)
	if err != nil {
		return nil, watchFile{}, err
	}
	defer opened.Close()
	data, err := readAtMost(opened, limit, before.Size())
	if err != nil {
		return nil, watchFile{}, fmt.Errorf("%s: %w", path, err)
	}
	file := watchFile{path: path, hash: sha256.Sum256(data), hashed: true}
	after, err := opened.Stat()
	if err != nil {
		return nil, watchFile{}, err
	}
	if os.SameFile(before, after) && settled(before, after, began) {
		file.stamp = stamp{known: true, file: after}
	}
	return data, file, nil
}

// clockGrain is how far the clock of a file system may lag behind the system clock.
const clockGrain = 20 * time.Millisecond

// settled reports whether the file was last written before began, so that any later write
// changes its modification time.
func settled(before, after fs.FileInfo, began time.Time) bool {
	return before.Size() == after.Size() && before.ModTime().Equal(after.ModTime()) &&
		after.ModTime().Before(began.Add(-clockGrain))
}

// A stamp identifies a state of a file without its content.
type stamp struct {
	known bool        // if false, the stamp differs from every other
	file  fs.FileInfo // nil if there is no file
}

func (s stamp) absent() bool {
	return s.known && s.file == nil
}

func (s stamp) equal(other stamp) bool {
	if !s.known || !other.known {
		return false
	}
	if s.file == nil || other.file == nil {
		return s.file == nil && other.file == nil
	}
	return os.SameFile(s.file, other.file) && s.file.Size() == other.file.Size() &&
		s.file.ModTime().Equal(other.file.ModTime())
}

// stampOf returns the stamp of the file at path, following symbolic links. If the file does
// not exist, the stamp says so. If its state cannot be read, the stamp is unknown.
func stampOf(path string) stamp {
	file, err := os.Stat(path)
	if err != nil {
		return stamp{known: errors.Is(err, fs.ErrNotExist)}
	}
	return stamp{known: true, file: file}
}
