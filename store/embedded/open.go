package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/fairwayhq/fairway/store"
)

// Limits of the embedded store.
const (
	defaultMaxRecords = 1_000_000 // records
	defaultMaxBytes   = 1 << 30   // bytes of all records; the file can be twice as large
)

// Options configures the embedded store. The zero value selects the defaults.
type Options struct {
	store.Options
	// MaxRecords is the maximum number of records. Default: defaultMaxRecords.
	MaxRecords int64
	// MaxBytes is the maximum size of all keys, values and logs, in bytes. Default:
	// defaultMaxBytes.
	MaxBytes int64

	// Only tests set the following fields.
	sweepInterval time.Duration
	beforeCommit  func() error // called before a transaction is committed; may be nil
}

// setDefaults sets the options that are zero to their defaults.
func (o *Options) setDefaults() {
	o.SetDefaults()
	if o.MaxRecords <= 0 {
		o.MaxRecords = defaultMaxRecords
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.sweepInterval <= 0 {
		o.sweepInterval = sweepInterval
	}
}

// Open opens the store file at path. It creates the file and its folder if they do not exist.
func Open(path string, options Options) (*Store, error) {
	options.setDefaults()
	if err := makeFolder(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("creating the folder of the store: %w", err)
	}
	if err := createFile(path); err != nil {
		return nil, fmt.Errorf("creating the store %s: %w", path, err)
	}
	all, lastID, err := checkFile(path)
	if err != nil {
		return nil, explainOpen(path, err)
	}
	f, err := openFile(path, options.MaxBytes)
	if err != nil {
		return nil, explainOpen(path, err)
	}
	s := &Store{
		options: options,
		file:    f,
		use:     newUse(&options, all),
		changes: make(chan *change, maxWaitingChanges),
		closing: make(chan struct{}),
		ended:   make(chan struct{}),

		pending:      pending{writes: make(map[string]*write), turns: make(map[string]*turn)},
		acknowledged: acknowledged{changes: make(map[string]int)},
	}
	c := &committer{store: s, next: newBatch(), written: make(chan error, 1), lastID: lastID}
	c.setFailed(nil)
	go func() {
		defer close(s.ended)
		c.run()
	}()
	s.sweeping.Go(s.sweepUntilClosed)
	return s, nil
}

// makeFolder creates the folder and its parents, and makes them durable.
func makeFolder(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := makeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncFolder(path)
}

// createFile creates the store file if there is none or an empty one. The file has another name until it is
// complete, because the remains of a creation that a crash interrupts look like a damaged file.
func createFile(path string) error {
	stat, err := os.Stat(path)
	if err == nil && stat.Size() > 0 {
		return nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	incomplete := path + ".new"
	if err := os.Remove(incomplete); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := openFile(incomplete, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.create(), f.db.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(incomplete, path), syncFolder(path))
}

// explainOpen adds to the error how to fix it.
func explainOpen(path string, err error) error {
	switch {
	case errors.Is(err, errOldFormat):
		return fmt.Errorf("opening the store: %w caddy agents store convert %s", err, path)
	case errors.Is(err, bbolterrors.ErrTimeout):
		holder := "another process"
		if pid := lockHolder(path); pid != 0 {
			holder = fmt.Sprintf("process %d", pid)
		}
		return fmt.Errorf("the store %s is in use by %s, and only one process can open it: "+
			"stop that process, use another file, or use Redis to share one store", path, holder)
	case errors.Is(err, bbolterrors.ErrInvalid), errors.Is(err, bbolterrors.ErrVersionMismatch), errors.Is(err, bbolterrors.ErrChecksum),
		errors.Is(err, errDamaged), errors.Is(err, errNoStore):
		return fmt.Errorf("%s is not a store file, or it is damaged: move it away, and Fairway creates a new one: %w", path, err)
	}
	return fmt.Errorf("opening the store %s: %w", path, err)
}
