package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// Limits of the embedded store.
const (
	DefaultMaxRecords = 1_000_000 // records
	DefaultMaxBytes   = 1 << 30   // bytes of all records; the file can be twice as large

	lockTimeout = time.Second // how long to wait until another process releases the file
	sweepEvery  = 30 * time.Second
)

// BoltOptions configures the embedded store. The zero value selects the defaults.
type BoltOptions struct {
	Options
	// MaxRecords is the maximum number of records. Default: DefaultMaxRecords.
	MaxRecords int64
	// MaxBytes is the maximum size of all keys, values and logs, in bytes. Default:
	// DefaultMaxBytes.
	MaxBytes int64

	// Only tests set the following fields.
	sweepEvery   time.Duration
	flushPace    time.Duration
	applyEvery   time.Duration
	applyChanges int
	maxStaged    int
	syncJournal  func(*os.File) error
	beforeCommit func() error // called before a memtable is committed to the file
}

// complete sets the defaults of unset fields.
func (o *BoltOptions) complete() {
	o.setDefaults()
	if o.MaxRecords <= 0 {
		o.MaxRecords = DefaultMaxRecords
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.sweepEvery <= 0 {
		o.sweepEvery = sweepEvery
	}
	if o.flushPace <= 0 {
		o.flushPace = flushPace
	}
	if o.applyEvery <= 0 {
		o.applyEvery = applyEvery
	}
	if o.applyChanges <= 0 {
		o.applyChanges = applyChanges
	}
	if o.maxStaged <= 0 {
		o.maxStaged = maxStaged
	}
	if o.beforeCommit == nil {
		o.beforeCommit = func() error { return nil }
	}
	if o.syncJournal == nil {
		o.syncJournal = syncData
	}
}

// Bolt is the embedded store: a bbolt file with a write-ahead log in front of it. One
// process at a time can open it.
//
// The write path:
//
//  1. A change goes to the active memtable, where this process sees it at once, and
//     is added to the next batch (stage).
//  2. One goroutine appends each batch to the write-ahead log with a single write and
//     a single sync (journalAll). This is the group commit: all changes that arrived
//     since the last sync share the next one. Then the changes are durable and their
//     writers return. If a batch cannot be written, all its changes fail, and so do
//     all later changes, which may depend on them.
//  3. From time to time the active memtable becomes immutable and a new one replaces
//     it. Another goroutine flushes the immutable memtable to the file in one
//     transaction (applyAll). It writes each record once, however often the record has
//     changed, and the number of the last log frame that the file now contains.
//
// While a flush fails, the store rejects changes. While a flush takes long, writers are
// blocked (backpressure). After a crash, recovery replays the write-ahead log when the
// store is opened again (replay).
//
// In the code, a memtable is a layer: the active one is top, the immutable one is below.
// The write-ahead log is the journal: two files beside the store file, with the suffixes
// .journal.1 and .journal.2. Close removes them when everything is flushed. The store
// file reuses the space of deleted records but does not shrink.
type Bolt struct {
	options  BoltOptions
	db       *bbolt.DB
	path     string
	journal  *journal  // write-ahead log; used by journalAll only
	locks    *keyLocks // held from reading a record until its change is staged
	waiters  waiters
	wake     chan struct{} // signals that there is a batch to commit or a memtable to flush
	hurry    chan struct{} // signals that a caller waits for it
	handover chan *layer   // immutable memtable on its way to applyAll; capacity 1
	evictor  chan struct{} // held while evicting records
	closing  chan struct{}
	ended    sync.WaitGroup // journalAll, applyAll and sweepAll
	closed   error          // result of Close, set once it is done
	once     sync.Once

	journalEnded chan struct{} // closed when journalAll has ended
	unapplied    error         // why the log has changes that the file lacks; set when all goroutines have ended

	mu       sync.Mutex
	top      *layer  // active memtable
	below    *layer  // immutable memtable being flushed; nil if none
	batch    *batch  // next batch to commit to the write-ahead log
	hurried  bool    // the batch is committed without lingering
	asked    bool    // flush the active memtable soon
	askers   []asker // callers that wait for a flush
	way      chan struct{}
	broken   error  // why the last flush failed; nil if it did not
	totals   totals // including all staged changes
	written  totals // including all changes in the write-ahead log
	failures uint64 // number of failed batches
	shut     bool
}

// totals are sums over all records, and the last id given to one.
type totals struct {
	records int64
	bytes   int64
	lastID  uint64
}

// OpenBolt opens the store file at path. It creates the file and its folder if they do
// not exist, and replays the write-ahead log.
func OpenBolt(path string, options BoltOptions) (*Bolt, error) {
	options.complete()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the store: %w", err)
	}
	db, err := openFile(path)
	if err != nil {
		return nil, explainOpen(path, err)
	}
	before, m, err := prepare(db)
	var j *journal
	if err == nil {
		before, j, err = replay(db, before, m, options.syncJournal)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the store %s: %w", path, err), db.Close())
	}
	s := &Bolt{
		options:  options,
		db:       db,
		path:     path,
		journal:  j,
		locks:    newKeyLocks(),
		wake:     make(chan struct{}, 1),
		hurry:    make(chan struct{}, 1),
		handover: make(chan *layer, 1),
		evictor:  make(chan struct{}, 1),
		closing:  make(chan struct{}),

		journalEnded: make(chan struct{}),

		top:     newLayer(1, 0),
		batch:   newBatch(0),
		way:     make(chan struct{}),
		totals:  before,
		written: before,
	}
	s.ended.Add(3)
	go s.journalAll()
	go s.applyAll()
	go s.sweepAll()
	return s, nil
}

// explainOpen adds to the error how to fix it.
func explainOpen(path string, err error) error {
	switch {
	case errors.Is(err, bbolterrors.ErrTimeout):
		by := "another process"
		if pid := lockHolder(path); pid != 0 {
			by = fmt.Sprintf("process %d", pid)
		}
		return fmt.Errorf("the store %s is in use by %s: one process has it at a time; stop the other, or name another file, "+
			"or use redis for several", path, by)
	case errors.Is(err, bbolterrors.ErrInvalid), errors.Is(err, bbolterrors.ErrVersionMismatch), errors.Is(err, bbolterrors.ErrChecksum),
		errors.Is(err, errDamaged):
		return fmt.Errorf("%s is not a store, or is damaged: move it away and a new one is made: %w", path, err)
	}
	return fmt.Errorf("opening the store %s: %w", path, err)
}

// Get implements Store.
func (s *Bolt) Get(_ context.Context, key string) (Record, error) {
	if err := checkKey(key); err != nil {
		return Record{}, err
	}
	k, _, err := s.look(key)
	if err != nil {
		return Record{}, err
	}
	if k = k.living(); k == nil {
		return Record{}, ErrNotFound
	}
	return k.record(), nil
}

func (s *Bolt) view(read func(*bbolt.Tx) error) error {
	err := s.db.View(read)
	if errors.Is(err, bbolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return err
}

// Wait implements Store.
func (s *Bolt) Wait(ctx context.Context, key string, seen []byte) (Record, error) {
	if err := checkKey(key); err != nil {
		return Record{}, err
	}
	s.waiters.join(key)
	defer s.waiters.leave(key)
	for {
		changed := s.waiters.changed(key)
		k, _, err := s.look(key)
		if err != nil {
			return Record{}, err
		}
		k = k.living()
		if k == nil && seen != nil {
			return Record{}, ErrNotFound
		}
		if k != nil && (seen == nil || !bytes.Equal(k.value, seen)) {
			return k.record(), nil
		}
		if err := s.sleep(ctx, changed, k); err != nil {
			return Record{}, err
		}
	}
}

// sleep blocks until the record may have changed or expired.
func (s *Bolt) sleep(ctx context.Context, changed <-chan struct{}, k *kept) error {
	var expired <-chan time.Time
	if k != nil {
		timer := time.NewTimer(time.Until(time.UnixMilli(k.expires)) + time.Millisecond)
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
		return ErrClosed
	}
}

// Close implements Store. If the last flush failed, it returns an error. The changes are
// then still in the write-ahead log, and the next OpenBolt recovers them.
func (s *Bolt) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.shut = true // rejects further changes
		s.mu.Unlock()
		close(s.closing)
		s.ended.Wait()
		s.closed = errors.Join(s.unapplied, s.journal.close())
		if s.unapplied == nil {
			s.closed = errors.Join(s.closed, removeJournal(s.path))
		}
		s.closed = errors.Join(s.closed, s.db.Close())
	})
	return s.closed
}

// Interface guard
var _ Store = (*Bolt)(nil)
