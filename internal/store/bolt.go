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

	maxWaiting      = 4096        // changes that wait for the disk before none is made later
	maxWaitingBytes = 16 << 20    // bytes of those
	lockTimeout     = time.Second // for another process to let go of the file
	sweepEvery      = 30 * time.Second

	lingerFor = 10 * time.Millisecond // until changes are written for which nobody waits
)

// BoltOptions are those of the embedded store. The zero value has the defaults.
type BoltOptions struct {
	Options
	// MaxRecords is how many records there may be. Default: DefaultMaxRecords.
	MaxRecords int64
	// MaxBytes is how many bytes their keys, values and logs may have. Default:
	// DefaultMaxBytes.
	MaxBytes int64

	sweepEvery time.Duration
}

// Bolt is the embedded store: one file, which one process has open at a time.
//
// A change is made in memory first, where it is visible to this process, and put
// into the batch that waits for the disk (stage). One goroutine writes batch after
// batch, each in one transaction of the file (commitAll): what came while one was
// written is the next, so that many changes share one sync. A batch that cannot be
// written fails all its changes and all that came after, which may stand on them.
//
// The file keeps the space that deleted records had for new ones; it does not
// shrink.
type Bolt struct {
	options BoltOptions
	db      *bbolt.DB
	locks   *keyLocks // held from reading a record to staging its change
	waiters waiters
	wake    chan struct{} // there is something to write
	hurry   chan struct{} // and somebody waits for it
	evictor chan struct{} // held by who makes room
	closing chan struct{}
	ended   sync.WaitGroup // committer and sweeper
	closed  error          // of db.Close, once closing is closed
	once    sync.Once

	mu       sync.Mutex
	staged   map[string]*write // the last change of each record that is not written
	batch    *batch            // what is written next
	hurried  bool              // somebody waits for it
	totals   totals            // with all that is staged
	written  totals            // without
	failures uint64            // batches that failed
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
	options.setDefaults()
	if options.MaxRecords <= 0 {
		options.MaxRecords = DefaultMaxRecords
	}
	if options.MaxBytes <= 0 {
		options.MaxBytes = DefaultMaxBytes
	}
	if options.sweepEvery <= 0 {
		options.sweepEvery = sweepEvery
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the store: %w", err)
	}
	db, err := openFile(path)
	if err != nil {
		return nil, explainOpen(path, err)
	}
	s := &Bolt{
		options: options,
		db:      db,
		locks:   newKeyLocks(),
		wake:    make(chan struct{}, 1),
		hurry:   make(chan struct{}, 1),
		evictor: make(chan struct{}, 1),
		closing: make(chan struct{}),
		staged:  make(map[string]*write),
		batch:   newBatch(),
	}
	if s.written, err = prepare(db); err != nil {
		return nil, errors.Join(fmt.Errorf("the store %s: %w", path, err), db.Close())
	}
	s.totals = s.written
	s.ended.Add(2)
	go s.commitAll()
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
	k, err := s.look(key)
	if err != nil {
		return Record{}, err
	}
	if k = k.living(); k == nil {
		return Record{}, ErrNotFound
	}
	return k.record(), nil
}

// look returns the record as it stands, written or not, expired or not; nil if
// there is none.
func (s *Bolt) look(key string) (*kept, error) {
	s.mu.Lock()
	w, shut := s.staged[key], s.shut
	s.mu.Unlock()
	if shut {
		return nil, ErrClosed
	}
	if w != nil {
		return w.new, nil
	}
	var k *kept
	err := s.view(func(tx *bbolt.Tx) (err error) {
		k, err = readKept(tx, key)
		return err
	})
	return k, err
}

func (s *Bolt) view(read func(*bbolt.Tx) error) error {
	err := s.db.View(read)
	if errors.Is(err, bbolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return err
}

// Read implements Store.
func (s *Bolt) Read(ctx context.Context, key string, from int64, limit int) ([][]byte, error) {
	limit, err := checkRange(from, limit)
	if err != nil {
		return nil, err
	}
	if err := s.flush(ctx, key); err != nil {
		return nil, err
	}
	var entries [][]byte
	err = s.view(func(tx *bbolt.Tx) error {
		k, err := readKept(tx, key)
		if k = k.living(); err != nil || k == nil {
			return err
		}
		entries = readLog(tx, k, from, limit)
		return nil
	})
	return entries, err
}

// Keys implements Store.
func (s *Bolt) Keys(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	limit, err := checkRange(0, limit)
	if err != nil {
		return nil, err
	}
	if err := s.flush(ctx, ""); err != nil {
		return nil, err
	}
	var keys []string
	err = s.view(func(tx *bbolt.Tx) error {
		keys = readKeys(tx, prefix, after, limit)
		return nil
	})
	return keys, err
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
		k, err := s.look(key)
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

// Close implements Store.
func (s *Bolt) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		s.shut = true // nothing more is staged
		s.mu.Unlock()
		close(s.closing)
		s.ended.Wait()
		s.closed = s.db.Close()
	})
	return s.closed
}

// Interface guard
var _ Store = (*Bolt)(nil)
