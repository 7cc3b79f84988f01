package embedded

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/fairwayhq/fairway/store"
)

const (
	maxReportedKinds  = 64 // more kinds of keys are reported together
	maxReportedOwners = 10
)

// ErrNotEmpty reports that a backup was not restored because there is a store already.
var ErrNotEmpty = errors.New("there is a store already")

// Report says what a store has.
type Report struct {
	Records int64           `json:"records"` // with those that have expired and are not removed yet
	Expired int64           `json:"expired"`
	Entries int64           `json:"entries"` // of the logs of all records
	Bytes   int64           `json:"bytes"`   // that count towards Options.MaxBytes
	Kinds   map[string]Size `json:"kinds"`   // by the first part of the keys, up to a slash
	Owners  []OwnerSize     `json:"owners"`  // those with the most bytes, at most 10
	Oldest  time.Time       `json:"oldest"`  // expiry of the record that expires first; zero without records
	File    int64           `json:"file"`    // bytes of the file

	MaxRecords int64 `json:"max_records,omitempty"` // limits of the open store
	MaxBytes   int64 `json:"max_bytes,omitempty"`
}

// Size is what some records take.
type Size struct {
	Records int64 `json:"records"`
	Bytes   int64 `json:"bytes"`
}

// OwnerSize is what the records of an owner take. The owner of the gateway's records is "".
type OwnerSize struct {
	Owner store.Owner `json:"owner"`
	Size
}

// Backup writes a copy of the store to w: the store file, compressed by gzip, which has a checksum. The copy has all changes
// that were acknowledged before the call. Its structure is checked before the first byte is written.
//
// The file is copied to a temporary file beside it first, so that writers wait for the disk at most, and never for w.
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	return s.copied(ctx, func(path string, _ *Report) error {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		packed := gzip.NewWriter(w)
		_, err = io.Copy(packed, file)
		return errors.Join(err, packed.Close())
	})
}

// Report checks a copy of the store, and returns what it has.
func (s *Store) Report(ctx context.Context) (found *Report, err error) {
	err = s.copied(ctx, func(_ string, r *Report) error {
		found, r.MaxRecords, r.MaxBytes = r, s.options.MaxRecords, s.options.MaxBytes
		return nil
	})
	return found, err
}

// copied checks a temporary copy of the file that has all changes so far, and calls use with it.
func (s *Store) copied(ctx context.Context, use func(path string, r *Report) error) error {
	if !s.copying.TryLock() {
		return errors.New("another backup or check of the store is in progress: repeat this when it has ended")
	}
	defer s.copying.Unlock()
	if err := s.barrier(ctx); err != nil {
		return err
	}
	path := s.file.path + ".copy" // one left by a crash is overwritten
	defer os.Remove(path)         //nolint:errcheck // the next copy overwrites it
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = s.file.view(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(&steadyWriter{File: file})
		return err
	})
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("copying the store: %w", err)
	}
	r, err := Check(path)
	if err != nil {
		return err
	}
	return use(path, r)
}

// syncStep is the number of bytes after which a copy is synced.
const syncStep = 4 << 20

// steadyWriter syncs the file again and again. If a large part of it waited in memory, the next sync of the store could wait for all
// of that, because file systems write their journal in order.
type steadyWriter struct {
	*os.File
	unsynced int
}

func (w *steadyWriter) Write(b []byte) (n int, err error) {
	n, err = w.File.Write(b)
	if w.unsynced += n; err == nil && w.unsynced >= syncStep {
		w.unsynced = 0
		err = w.Sync()
	}
	return n, err
}

// ReadFrom hides that of the file, so that io.Copy calls Write.
func (w *steadyWriter) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{w}, r)
}

// Check checks the structure of the store file at path and all checksums, and returns what the file
// has. No process may have the store open for writing.
func Check(path string) (r *Report, err error) {
	defer func() {
		switch {
		case errors.Is(err, bbolterrors.ErrTimeout):
			err = inUseError{explainOpen(path, err)}
		case errors.Is(err, errOldFormat):
			err = explainOpen(path, err)
		case err != nil:
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	if _, _, err := checkFile(path); err != nil {
		return nil, err
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true, NoStatistics: true})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	c := checker{report: &Report{Kinds: make(map[string]Size)}, sums: make(ownerSums)}
	err = (&file{db: db}).view(c.check)
	return c.report, err
}

// inUseError is the error of Check that another process has the store open.
type inUseError struct{ error }

// checker collects what a file has.
type checker struct {
	report *Report
	sums   ownerSums
}

func (c *checker) check(tx *bbolt.Tx) error {
	c.report.File = tx.Size()
	err := tx.Bucket(bucketRecords).ForEach(func(key, _ []byte) error { return c.checkRecord(tx, string(key)) })
	if err != nil {
		return err
	}
	for _, name := range [][]byte{bucketValues, bucketExpiry} {
		if n := int64(tx.Bucket(name).Stats().KeyN); n != c.report.Records {
			return fmt.Errorf("%w: it has %d records, and %d keys in %s", errDamaged, c.report.Records, n, name)
		}
	}
	for owner, s := range c.sums {
		c.report.Owners = append(c.report.Owners, OwnerSize{owner, Size{s.records, s.bytes}})
	}
	slices.SortFunc(c.report.Owners, func(a, b OwnerSize) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Owner, b.Owner)) })
	c.report.Owners = c.report.Owners[:min(len(c.report.Owners), maxReportedOwners)]
	return nil
}

// checkRecord checks a record, its log and its place in the expiry index.
func (c *checker) checkRecord(tx *bbolt.Tx, key string) error {
	r, err := readRecord(tx, key, false)
	if err != nil {
		return err
	}
	if string(tx.Bucket(bucketExpiry).Get(r.expiryKey())) != key {
		return fmt.Errorf("%w: the record %q is not in the expiry index", errDamaged, key)
	}
	if err := readLog(tx, key, r, 0, func([]byte) bool { return true }); err != nil {
		return err
	}
	c.sums.add(len(key), r, +1)
	c.report.Records++
	c.report.Entries += r.length
	c.report.Bytes += r.size(len(key))
	if expires := time.UnixMilli(r.expires).UTC(); r.expired() {
		c.report.Expired++
	} else if c.report.Oldest.IsZero() || expires.Before(c.report.Oldest) {
		c.report.Oldest = expires
	}
	kind, _, found := strings.Cut(key, "/")
	if _, known := c.report.Kinds[kind]; !found || !known && len(c.report.Kinds) >= maxReportedKinds {
		kind = "other"
	}
	size := c.report.Kinds[kind]
	c.report.Kinds[kind] = Size{size.Records + 1, size.Bytes + r.size(len(key))}
	return nil
}

// Restore makes the store at path from a backup, which it checks. The file has the mode 0600, and the owner of its
// folder, so that a service can open what root has restored. A backup of format 2 is converted. If there is a store,
// Restore renames its files first, and returns the new name of the store file. If it is not empty, that needs replace;
// otherwise Restore returns ErrNotEmpty.
func Restore(backup io.Reader, path string, replace bool, read ReadOld) (r *Report, old string, err error) {
	packed, err := gzip.NewReader(backup)
	if err != nil {
		return nil, "", fmt.Errorf("this is not a backup: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, "", err
	}
	unpacked := path + ".restored"
	if err := os.Remove(unpacked); err != nil && !errors.Is(err, os.ErrNotExist) { // of a restore that was killed
		return nil, "", err
	}
	defer os.Remove(unpacked) //nolint:errcheck // it has been renamed, unless there was an error
	// O_EXCL: if another user may write to the folder, root must not follow a link of that user.
	file, err := os.OpenFile(unpacked, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, "", err
	}
	_, err = io.Copy(file, packed) //nolint:gosec // the operator's own file
	if err = errors.Join(err, takeOwner(unpacked), file.Sync(), file.Close()); err != nil {
		return nil, "", fmt.Errorf("unpacking the backup: %w", err)
	}
	r, err = Check(unpacked)
	if errors.Is(err, errOldFormat) {
		var before string
		r, before, err = Convert(unpacked, read)
		defer os.Remove(before) //nolint:errcheck // the backup has it
	}
	if err != nil {
		return nil, "", err
	}
	present, err := Check(path)
	if used, ok := errors.AsType[inUseError](err); ok {
		return nil, "", used
	}
	missing := errors.Is(err, os.ErrNotExist)
	if empty := err == nil && present.Records == 0; !missing && !empty && !replace {
		return nil, "", fmt.Errorf("%w: %s", ErrNotEmpty, path)
	}
	if !missing {
		if old, err = setAside(path, "replaced"); err != nil {
			return nil, "", err
		}
	}
	return r, old, errors.Join(os.Rename(unpacked, path), syncFolder(path))
}

// setAside renames the file, which another one is about to replace, and the files of a write-ahead log of an earlier version beside it. It returns the new name of the file.
func setAside(path, why string) (old string, err error) {
	old = path + "." + why + "-" + time.Now().UTC().Format("20060102T150405Z")
	// A link lets the new file replace the old one at once: a crash in between would leave no store, which looks like a new one.
	if err := os.Link(path, old); err != nil {
		if err := os.Rename(path, old); err != nil {
			return "", err
		}
	}
	for _, suffix := range []string{".wal.1", ".wal.2"} {
		if err := os.Rename(path+suffix, old+suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	return old, nil
}
