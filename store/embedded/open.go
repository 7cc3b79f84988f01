package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fairwayhq/fairway/store"
)

// Limits of the embedded store.
const (
	DefaultMaxRecords = 1_000_000 // records
	DefaultMaxBytes   = 1 << 30   // bytes of all records; the file can be twice as large
)

// Options configures the embedded store. The zero value selects the defaults.
type Options struct {
	store.Options
	// MaxRecords is the maximum number of records. Default: DefaultMaxRecords.
	MaxRecords int64
	// MaxBytes is the maximum size of all keys, values and logs, in bytes. Default:
	// DefaultMaxBytes.
	MaxBytes int64

	// Only tests set the following fields.
	sweepInterval      time.Duration
	commitInterval     time.Duration
	flushInterval      time.Duration
	memtableChanges    int
	maxBufferedChanges int
	walGrowth          int64
	disk               disk
	syncWAL            func(diskFile) error
	beforeFlush        func() error // called before the transaction of a flush is committed
}

// setDefaults sets the options that are zero to their defaults.
func (o *Options) setDefaults() {
	o.SetDefaults()
	if o.MaxRecords <= 0 {
		o.MaxRecords = DefaultMaxRecords
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.sweepInterval <= 0 {
		o.sweepInterval = sweepInterval
	}
	if o.commitInterval <= 0 {
		o.commitInterval = commitInterval
	}
	if o.flushInterval <= 0 {
		o.flushInterval = flushInterval
	}
	if o.memtableChanges <= 0 {
		o.memtableChanges = memtableChanges
	}
	if o.maxBufferedChanges <= 0 {
		o.maxBufferedChanges = maxBufferedChanges
	}
	if o.beforeFlush == nil {
		o.beforeFlush = func() error { return nil }
	}
	if o.walGrowth <= 0 {
		o.walGrowth = walGrowth
	}
	if o.disk == nil {
		o.disk = osDisk{}
	}
	if o.syncWAL == nil {
		o.syncWAL = diskFile.syncData
	}
}

// Open opens the store file at path. It creates the file and its folder if they do not
// exist, and replays the write-ahead log.
func Open(path string, options Options) (*Store, error) {
	options.setDefaults()
	if err := makeFolder(options.disk, filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("creating the folder of the store: %w", err)
	}
	if err := createFile(options.disk, path); err != nil {
		return nil, fmt.Errorf("creating the store %s: %w", path, err)
	}
	f, err := openFile(options.disk, path)
	if err != nil {
		return nil, explainOpen(path, err)
	}
	position, err := f.prepare()
	var wal *writeAheadLog
	var sums ownerSums
	var lastID uint64
	if err == nil {
		wal, err = replayWAL(f, position, &options)
	}
	if err == nil {
		sums, lastID, err = f.readSums()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the store %s: %w", path, err), f.close())
	}
	s := &Store{
		options:  options,
		file:     f,
		wal:      wal,
		locks:    store.NewKeyLocks(),
		evicting: make(chan struct{}, 1),
		closing:  make(chan struct{}),
	}
	s.buffer = newWriteBuffer(&s.options, sums, lastID)
	s.start()
	return s, nil
}

// makeFolder creates the folder and its parents, and makes them durable.
func makeFolder(d disk, path string) error {
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := makeFolder(d, filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return d.syncFolder(path)
}

// start starts the goroutines of the store.
func (s *Store) start() {
	sealed := make(chan *memtable, 1)
	committed := make(chan struct{})
	c := &committer{
		options: &s.options, buffer: s.buffer, wal: s.wal, waiters: &s.waiters,
		sealed: sealed, closing: s.closing,
		timer: stoppedTimer(), flushTimer: stoppedTimer(),
	}
	f := &flusher{
		options: &s.options, buffer: s.buffer, file: s.file, salt: s.wal.salt,
		sealed: sealed, committed: committed,
	}
	w := &sweeper{store: s}
	s.ended.Go(func() {
		defer close(committed)
		c.run()
	})
	s.ended.Go(func() { s.unflushed = f.run() })
	s.ended.Go(w.run)
}
