package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
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
	syncWAL            func(*os.File) error
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
	if o.syncWAL == nil {
		o.syncWAL = syncData
	}
}

// Store is the embedded store. It implements store.Store.
type Store struct {
	options  Options
	file     *file
	wal      *writeAheadLog // used by the committer only
	buffer   *writeBuffer
	locks    *store.KeyLocks // held from reading a record until its change is in the buffer
	waiters  store.Waiters
	evicting chan struct{} // held while evicting records

	closing   chan struct{}
	ended     sync.WaitGroup // the committer, the flusher and the sweeper
	unflushed error          // why the log has changes that the file lacks; set when the flusher has ended
	once      sync.Once
	closeErr  error // result of Close
}

// Open opens the store file at path. It creates the file and its folder if they do not
// exist, and replays the write-ahead log.
func Open(path string, options Options) (*Store, error) {
	options.setDefaults()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder of the store: %w", err)
	}
	f, err := openFile(path)
	if err != nil {
		return nil, explainOpen(path, err)
	}
	sums, position, err := f.prepare()
	var wal *writeAheadLog
	if err == nil {
		sums, wal, err = replayWAL(f, sums, position, options.syncWAL)
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
	s.buffer = newWriteBuffer(&s.options, sums)
	s.start()
	return s, nil
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

// Get implements store.Store.
func (s *Store) Get(_ context.Context, key string) (store.Record, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Record{}, err
	}
	r, at, err := s.latest(key)
	if err != nil {
		return store.Record{}, err
	}
	if r == nil {
		s.buffer.noteAbsent(key, at)
	}
	if r = r.live(); r == nil {
		return store.Record{}, store.ErrNotFound
	}
	return r.public(), nil
}

// latest returns the latest version of the record, durable or not, expired or not, or nil
// if there is none.
func (s *Store) latest(key string) (r *record, at moment, err error) {
	r, found, at, err := s.buffer.get(key)
	if found || err != nil {
		return r, at, err
	}
	r, err = s.file.get(key)
	return r, at, err
}

// Wait implements store.Store.
func (s *Store) Wait(ctx context.Context, key string, seen []byte) (store.Record, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Record{}, err
	}
	s.waiters.Join(key)
	defer s.waiters.Leave(key)
	for {
		changed := s.waiters.Changed(key)
		r, _, err := s.latest(key)
		if err != nil {
			return store.Record{}, err
		}
		r = r.live()
		if r == nil && seen != nil {
			return store.Record{}, store.ErrNotFound
		}
		if r != nil && (seen == nil || !bytes.Equal(r.value, seen)) {
			return r.public(), nil
		}
		if err := s.waitForChange(ctx, changed, r); err != nil {
			return store.Record{}, err
		}
	}
}

// waitForChange blocks until the record may have changed or expired.
func (s *Store) waitForChange(ctx context.Context, changed <-chan struct{}, r *record) error {
	var expired <-chan time.Time
	if r != nil {
		timer := time.NewTimer(time.Until(time.UnixMilli(r.expires)) + time.Millisecond)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-changed:
		return nil
	case <-expired:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return store.ErrClosed
	}
}

// Close implements store.Store. If the last flush failed, it returns an error. The changes
// are then still in the write-ahead log, and the next Open replays them.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.buffer.close()
		close(s.closing)
		s.ended.Wait()
		s.closeErr = errors.Join(s.unflushed, s.wal.close())
		if s.unflushed == nil {
			s.closeErr = errors.Join(s.closeErr, removeWAL(s.file.path))
		}
		s.closeErr = errors.Join(s.closeErr, s.file.close())
	})
	return s.closeErr
}

// Interface guard
var _ store.Store = (*Store)(nil)
