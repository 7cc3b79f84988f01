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
	DefaultMaxBytes   = 1 << 30   // bytes of all records; their file can be twice as large

	lockTimeout = time.Second // for another process to let go of the file
	sweepEvery  = 30 * time.Second
)

// BoltOptions are those of the embedded store. The zero value has the defaults.
type BoltOptions struct {
	Options
	// MaxRecords is how many records there may be. Default: DefaultMaxRecords.
	MaxRecords int64
	// MaxBytes is how many bytes their keys, values and logs may have. Default:
	// DefaultMaxBytes.
	MaxBytes int64

	// What tests change.
	sweepEvery   time.Duration
	flushPace    time.Duration
	applyEvery   time.Duration
	applyChanges int
	maxStaged    int
	syncJournal  func(*os.File) error
	beforeCommit func() error // of a layer to the file
}

// complete sets what is not set.
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

// Bolt is the embedded store: one file and its journal, which one process has open
// at a time.
//
// A change is made in memory first, in the top layer, where it is visible to this
// process, and put into the batch that waits for the disk (stage). One goroutine
// appends batch after batch to the journal (journalAll), each with one write and one
// sync for all changes that came since the last. Then they are durable, and their
// writers are told. A batch that cannot be written fails all its changes and all
// that came after, which may stand on them.
//
// From time to time the top layer becomes the one below, and a new one takes its
// place. Another goroutine brings the layer below into the file in one transaction
// (applyAll), in which each record is put once, however often it has changed, and
// with it how far the journal is applied. While that cannot be done no changes are
// taken, and while it takes long writers wait. After a crash the journal is applied
// when the store is opened again (replay).
//
// The journal is two files beside the store's, whose names end in .journal.1 and
// .journal.2; Close removes them when all is applied. The file keeps the space that
// deleted records had for new ones; it does not shrink.
type Bolt struct {
	options  BoltOptions
	db       *bbolt.DB
	path     string
	journal  *journal  // of journalAll
	locks    *keyLocks // held from reading a record to staging its change
	waiters  waiters
	wake     chan struct{} // there is something to flush or to apply
	hurry    chan struct{} // and somebody waits for it
	handover chan *layer   // to applyAll; has room for one
	evictor  chan struct{} // held by who makes room
	closing  chan struct{}
	ended    sync.WaitGroup // journalAll, applyAll and sweepAll
	closed   error          // of Close, once it is over
	once     sync.Once

	journalEnded chan struct{} // closed when journalAll has ended
	unapplied    error         // why the journal has what the file has not, once all have ended

	mu       sync.Mutex
	top      *layer  // takes changes
	below    *layer  // is brought into the file; nil: none is
	batch    *batch  // what is flushed next
	hurried  bool    // it is not to linger
	asked    bool    // the top layer is to be applied soon
	askers   []asker // who wait for it
	way      chan struct{}
	broken   error  // why the last layer could not be brought into the file
	totals   totals // with all that is staged
	written  totals // with all that is journaled
	failures uint64 // batches that failed
	shut     bool
}

// totals are counted over all records.
type totals struct {
	records int64
	bytes   int64
	lastID  uint64
}

// OpenBolt opens the store in that file, which it makes if there is none, with
// its folder.
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

// explainOpen says what to do about a file that does not open.
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

// sleep returns when there may be something new about the record.
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

// Close implements Store. An error may say that the journal has what the file has
// not; then it is there when the store is opened again.
func (s *Bolt) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.shut = true // nothing more is staged
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
