// Package watch finds changes of files: of OpenAPI documents, agent documents and prompts.
//
// [File.Read] returns the content of a file and its [State]. The next Read gets that State and reads
// the file again only if it may have changed: first by identity, size and modification time, and then
// by content. Symbolic links and renames are therefore followed, and touching a file is no change.
// [State.Follow] adds other files, so that a change of one of them is a change of the file. [Poll]
// calls a function at an interval.
//
// Files are polled, because notifications of the operating system miss changes on network file
// systems and in mounted volumes.
package watch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
)

// interval is how often files are checked. Only SetInterval changes it.
var interval = time.Second

// Interval returns how often files are checked for changes.
func Interval() time.Duration { return interval }

// SetInterval changes the Interval. It is for a TestMain, so that tests do not wait a second for
// each change of a file. It must not be called once a file is watched.
func SetInterval(d time.Duration) { interval = d }

// Poll calls check at the interval until ctx ends.
func Poll(ctx context.Context, interval time.Duration, check func(context.Context)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			check(ctx)
		}
	}
}

// A File is a file to watch.
type File struct {
	Path    string
	MaxSize int64 // bytes
}

// A State is what is known about a file and the files that it refers to, since they were read. It is
// immutable.
type State struct {
	files []state // the file itself, then those it refers to
	began time.Time
}

// Read reads the file if it, or a file that it refers to, has changed since previous, the State of
// an earlier Read, or nil. If it has not changed, data is nil. The new State replaces previous in
// either case. If the file is larger than MaxSize, the error wraps buffer.ErrTooLarge.
func (f File) Read(previous *State) (data []byte, current *State, changed bool, err error) {
	if previous != nil && !previous.stale() {
		return nil, previous, false, nil
	}
	began := time.Now().Round(0) // wall clock time, as file systems use it
	data, main, err := read(f.Path, f.MaxSize, began)
	if err != nil {
		return nil, nil, false, err
	}
	current = &State{files: []state{main}, began: began}
	if previous == nil {
		return data, current, true, nil
	}
	changed = !main.sameContent(previous.files[0])
	for _, earlier := range previous.files[1:] {
		other := lookAt(earlier.path, earlier.limit, began)
		changed = changed || !other.sameContent(earlier)
		current.files = append(current.files, other)
	}
	if !changed {
		data = nil
	}
	return data, current, changed, nil
}

// Follow returns the State with other files that the file refers to, in place of earlier ones. Paths
// that do not exist may be among them: if one appears, that is a change. A file larger than limit
// bytes is changed whenever it is touched.
//
// If a file was written after the Read began, the caller may have read it before or after the write.
// Its content then counts as unknown, and the next Read treats it as changed.
func (s *State) Follow(paths []string, limit int64) *State {
	followed := &State{files: s.files[:1:1], began: s.began}
	known := map[string]bool{s.files[0].path: true}
	for _, path := range paths {
		if known[path] {
			continue
		}
		known[path] = true
		file := lookAt(path, limit, s.began)
		file.hashed = file.hashed && file.stamp.known
		followed.files = append(followed.files, file)
	}
	return followed
}

// Followed returns the paths of the other files.
func (s *State) Followed() []string {
	paths := make([]string, 0, len(s.files)-1)
	for _, file := range s.files[1:] {
		paths = append(paths, file.path)
	}
	return paths
}

// stale reports whether a file may differ from what the State recorded.
func (s *State) stale() bool {
	return slices.ContainsFunc(s.files, func(file state) bool { return !file.stamp.equal(stampOf(file.path)) })
}

// A state is the state of one file at the time it was read.
type state struct {
	path   string
	limit  int64
	stamp  stamp
	hash   [sha256.Size]byte
	hashed bool // the hash is of the content that was used
}

func (f state) sameContent(earlier state) bool {
	if f.stamp.absent() || earlier.stamp.absent() {
		return f.stamp.absent() && earlier.stamp.absent()
	}
	return f.hashed && earlier.hashed && f.hash == earlier.hash
}

// lookAt reads and hashes the file at path. A file that cannot be read has no hash; its reader
// reports the error.
func lookAt(path string, limit int64, began time.Time) state {
	_, file, err := read(path, limit, began)
	if err != nil {
		return state{path: path, limit: limit, stamp: stampOf(path)}
	}
	return file
}

// read reads a regular file. Its stamp is unknown if the file may have been written after began.
func read(path string, limit int64, began time.Time) ([]byte, state, error) {
	before, err := os.Stat(path)
	if err != nil {
		return nil, state{}, err
	}
	if before.IsDir() {
		return nil, state{}, fmt.Errorf("%s is a directory; give the path of a file", path)
	}
	// Opening a pipe would block until it has a writer.
	if !before.Mode().IsRegular() {
		return nil, state{}, fmt.Errorf("%s is not a regular file", path)
	}
	opened, err := os.Open(path)
	if err != nil {
		return nil, state{}, err
	}
	defer opened.Close()
	if before.Size() > limit {
		return nil, state{}, fmt.Errorf("%s: %w", path, buffer.ErrTooLarge)
	}
	var content buffer.Buffer
	content.Grow(int(before.Size()) + 1) // one more, so that the end is found without growing
	if err := content.ReadAll(opened, limit); err != nil {
		return nil, state{}, fmt.Errorf("%s: %w", path, err)
	}
	file := state{path: path, limit: limit, hash: sha256.Sum256(content.B), hashed: true}
	after, err := opened.Stat()
	if err != nil {
		return nil, state{}, err
	}
	if os.SameFile(before, after) && settled(before, after, began) {
		file.stamp = stamp{known: true, file: after}
	}
	return content.B, file, nil
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
