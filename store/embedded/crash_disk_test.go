package embedded

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"go.etcd.io/bbolt"
)

// errCrashed is the error of all operations on a simulated disk after its crash.
var errCrashed = errors.New("the simulated machine has crashed")

const (
	simPage   = 4096 // bytes of a page of the simulated page cache
	simSector = 512  // bytes that the simulated disk writes at once
)

// simDisk simulates a disk and the page cache before it. A real folder has what processes see. Besides, it keeps
// for each file the durable content and the changes since the last sync.
type simDisk struct {
	mu      sync.Mutex
	random  *rand.Rand
	folder  string              // what processes see; in memory if possible
	names   map[string]*simFile // what processes see
	durable map[string]*simFile // names after a crash, before pending
	pending []func(names map[string]*simFile)

	operations int
	kinds      []string        // of the operations
	crashAt    int             // number of the operation that does not happen any more; 0: none
	failFrom   int             // operations from here to failTo fail; 0: none
	failTo     int             // exclusive
	failWith   error           // for these
	after      *simDisk        // the disk after the crash; nil before it
	makeAfter  func() *simDisk // how the crash ends
}

// simFile is a file of a simDisk.
type simFile struct {
	durable []byte
	pending []simWrite
}

// simWrite is a write since the last sync, or a truncation to 0.
type simWrite struct {
	at       int
	content  []byte
	truncate bool
}

func newSimDisk(t testing.TB, random *rand.Rand) *simDisk {
	parent := t.TempDir()
	if stat, err := os.Stat("/dev/shm"); err == nil && stat.IsDir() {
		if folder, err := os.MkdirTemp("/dev/shm", "fairway-crash-"); err == nil {
			t.Cleanup(func() { _ = os.RemoveAll(folder) })
			parent = folder
		}
	}
	return emptySimDisk(parent, random)
}

func emptySimDisk(parent string, random *rand.Rand) *simDisk {
	folder, err := os.MkdirTemp(parent, "")
	if err != nil {
		panic(err)
	}
	return &simDisk{random: random, folder: folder, names: make(map[string]*simFile), durable: make(map[string]*simFile)}
}

func (d *simDisk) path() string { return filepath.Join(d.folder, "records.db") }

// operation counts an operation. The caller must hold d.mu. If the error is not nil, the operation fails.
func (d *simDisk) operation(kind string) error {
	if d.after != nil {
		return errCrashed
	}
	d.operations++
	d.kinds = append(d.kinds, kind)
	if d.operations == d.crashAt {
		d.after = d.makeAfter()
		return errCrashed
	}
	if d.operations >= d.failFrom && d.operations < d.failTo {
		return fmt.Errorf("%s: %w", kind, d.failWith)
	}
	return nil
}

// count returns the number of operations so far.
func (d *simDisk) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.operations
}

func (d *simDisk) crashed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.after != nil
}

// change makes a change of the names visible and pending.
func (d *simDisk) change(change func(names map[string]*simFile)) {
	change(d.names)
	d.pending = append(d.pending, change)
}

func (d *simDisk) open(path string, flag int) (diskFile, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := filepath.Base(path)
	f, exists := d.names[name]
	if flag&(os.O_CREATE|os.O_TRUNC) != 0 {
		if err := d.operation("open " + name); err != nil {
			return nil, err
		}
	}
	file, err := os.OpenFile(path, flag, 0o600)
	switch {
	case err != nil:
		return nil, err
	case !exists:
		f = &simFile{}
		d.change(func(names map[string]*simFile) { names[name] = f })
	case flag&os.O_TRUNC != 0:
		f.pending = append(f.pending, simWrite{truncate: true})
	}
	return &simHandle{File: file, disk: d, content: f, name: name}, nil
}

// simHandle is an open file.
type simHandle struct {
	*os.File
	disk    *simDisk
	content *simFile
	name    string
}

func (h *simHandle) WriteAt(b []byte, at int64) (int, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	return h.disk.write(h, b, at)
}

// write writes to the page cache. A write that fails or crashes may write a part.
func (d *simDisk) write(h *simHandle, b []byte, at int64) (int, error) {
	if d.after != nil {
		return 0, errCrashed
	}
	next := d.operations + 1
	if next == d.crashAt || next >= d.failFrom && next < d.failTo {
		b = b[:d.random.IntN(len(b)+1)]
	}
	if _, err := h.File.WriteAt(b, at); err != nil {
		return 0, err
	}
	h.content.pending = append(h.content.pending, simWrite{at: int(at), content: slices.Clone(b)})
	return len(b), d.operation("write " + h.name)
}

func (h *simHandle) Sync() error {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	return h.disk.sync(h)
}

func (h *simHandle) syncData() error { return h.Sync() }

// sync makes the pending changes of the file durable. If it fails, some of them are lost although processes see
// them, and later syncs do not write them either, as on Linux.
func (d *simDisk) sync(h *simHandle) error {
	err := d.operation("sync " + h.name)
	switch {
	case errors.Is(err, errCrashed):
		return err
	case err != nil:
		h.content.durable = d.torn(h.content)
	default:
		h.content.durable = h.content.whole()
	}
	h.content.pending = nil
	return err
}

// whole returns the content with all changes. It changes f.durable.
func (f *simFile) whole() []byte {
	content := f.durable
	for _, w := range f.pending {
		content = w.apply(content, w.at, w.at+len(w.content))
	}
	return content
}

// apply applies the part of the write that is in [from, to).
func (w simWrite) apply(content []byte, from, to int) []byte {
	if w.truncate {
		return nil
	}
	from, to = max(from, w.at), min(to, w.at+len(w.content))
	if from >= to {
		return content
	}
	if more := to - len(content); more > 0 {
		content = append(content, make([]byte, more)...)
	}
	copy(content[from:to], w.content[from-w.at:])
	return content
}

// torn returns a content that the file can have after a crash: each page or each sector has all writes up to a
// moment of its own. One sector can be torn at any byte.
func (d *simDisk) torn(f *simFile) []byte {
	content := slices.Clone(f.durable)
	writes := slices.Clone(f.pending)
	truncated := d.random.IntN(2) == 0
	for i, w := range slices.Backward(writes) {
		if w.truncate {
			if truncated {
				content = nil
			}
			writes = writes[i+1:] // those before the truncation are not visible
			break
		}
	}
	end := 0
	for _, w := range writes {
		end = max(end, w.at+len(w.content))
	}
	unit, all := simSector, d.random.IntN(len(writes)+1)
	mode := d.random.IntN(5)
	if mode == 0 {
		unit = simPage
	}
	tear := func(from, to, moment int) {
		for _, w := range writes[:moment] {
			content = w.apply(content, from, to)
		}
	}
	switch mode {
	case 1: // nothing or all
		tear(0, end, len(writes)*d.random.IntN(2))
	case 2: // all writes up to a moment, and the beginning of the next one
		tear(0, end, all)
		if all < len(writes) {
			w := writes[all]
			part := len(w.content)
			if d.random.IntN(2) == 0 {
				part = min(part, 128) // a header
			}
			content = w.apply(content, w.at, w.at+d.random.IntN(part+1))
		}
	default:
		seen := make(map[int]bool)
		for _, w := range writes {
			for from := w.at / unit * unit; from < w.at+len(w.content); from += unit {
				if seen[from] {
					continue
				}
				seen[from] = true
				moment, cut := d.random.IntN(len(writes)+1), from+unit
				if d.random.IntN(8) == 0 {
					cut = from + d.random.IntN(unit)
					tear(cut, from+unit, d.random.IntN(moment+1))
				}
				tear(from, cut, moment)
			}
		}
	}
	return content
}

func (d *simDisk) remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := filepath.Base(path)
	if err := d.operation("remove " + name); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	d.change(func(names map[string]*simFile) { delete(names, name) })
	return nil
}

func (d *simDisk) rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.operation("rename"); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	f := d.names[filepath.Base(from)]
	d.change(func(names map[string]*simFile) {
		delete(names, filepath.Base(from))
		names[filepath.Base(to)] = f
	})
	return nil
}

func (d *simDisk) syncFolder(string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.operation("sync folder"); err != nil {
		return err
	}
	d.durable, d.pending = maps.Clone(d.names), nil
	return nil
}

// openDB opens a bbolt file whose writes go through the disk. bbolt syncs the file before and after it writes a
// meta page, which is one of the first two pages; its other writes are of data.
func (d *simDisk) openDB(path string, options *bbolt.Options) (*bbolt.DB, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.after != nil {
		return nil, errCrashed
	}
	var h *simHandle
	name := filepath.Base(path)
	o := *options
	o.InitialMmapSize = 0 // the file begins as large as the map; small ones are quickly copied
	o.OpenFile = func(path string, flag int, mode os.FileMode) (*os.File, error) {
		file, err := os.OpenFile(path, flag, mode)
		if err == nil {
			h = &simHandle{File: file, disk: d, name: name}
		}
		return file, err
	}
	stat, err := os.Stat(path)
	empty := err != nil || stat.Size() == 0
	db, err := bbolt.Open(path, 0o600, &o)
	if err != nil || o.ReadOnly {
		return db, err
	}
	fail := func(err error) (*bbolt.DB, error) {
		_ = db.Close()
		return nil, err
	}
	f, exists := d.names[name]
	if !exists {
		f = &simFile{}
	}
	h.content = f
	if empty { // bbolt has written the first pages
		content, err := os.ReadFile(path)
		if err != nil {
			return fail(err)
		}
		if err := os.Truncate(path, 0); err != nil {
			return fail(err)
		}
		if err := d.operation("open " + name); err != nil {
			_ = os.Remove(path)
			return fail(err)
		}
		if !exists {
			d.change(func(names map[string]*simFile) { names[name] = f })
		}
		if _, err := d.write(h, content, 0); err != nil {
			return fail(err)
		}
		if err := d.sync(h); err != nil {
			return fail(err)
		}
	}
	field := reflect.ValueOf(db).Elem().FieldByName("ops").FieldByName("writeAt")
	writeAt := (*func([]byte, int64) (int, error))(unsafe.Pointer(field.UnsafeAddr()))
	*writeAt = func(b []byte, at int64) (int, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.after != nil {
			return 0, errCrashed
		}
		if stat, err := h.Stat(); err == nil && int(stat.Size()) > len(f.durable) { // bbolt has extended and synced it
			f.durable = append(slices.Clone(f.durable), make([]byte, int(stat.Size())-len(f.durable))...)
		}
		if at >= int64(2*db.Info().PageSize) || db.NoSync {
			return d.write(h, b, at)
		}
		if err := d.sync(h); err != nil {
			return 0, err
		}
		n, err := d.write(h, b, at)
		if err == nil {
			err = d.sync(h)
		}
		return n, err
	}
	return db, nil
}

// powerLoss returns the disk after a loss of power. The caller must hold d.mu.
func (d *simDisk) powerLoss() *simDisk {
	next := emptySimDisk(filepath.Dir(d.folder), d.random)
	names := maps.Clone(d.durable)
	for _, change := range d.pending {
		if d.random.IntN(2) == 0 {
			change(names)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		f := &simFile{durable: d.torn(names[name])}
		next.names[name], next.durable[name] = f, f
		next.materialize(name, f.durable)
	}
	return next
}

// kill returns the disk after the process is killed: what processes see stays. The caller must hold d.mu.
func (d *simDisk) kill() *simDisk {
	next := emptySimDisk(filepath.Dir(d.folder), d.random)
	next.names, next.durable, next.pending = maps.Clone(d.names), maps.Clone(d.durable), slices.Clone(d.pending)
	for name := range d.names {
		content, err := os.ReadFile(filepath.Join(d.folder, name))
		if err != nil {
			panic(err)
		}
		next.materialize(name, content)
	}
	return next
}

func (d *simDisk) materialize(name string, content []byte) {
	if err := os.WriteFile(filepath.Join(d.folder, name), content, 0o600); err != nil {
		panic(err)
	}
}

// crash returns the disk after the crash, which happens now if it has not happened yet. It removes the files of d.
func (d *simDisk) crash() *simDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.after == nil {
		d.after = d.makeAfter()
	}
	_ = os.RemoveAll(d.folder)
	return d.after
}

var _ disk = (*simDisk)(nil)
