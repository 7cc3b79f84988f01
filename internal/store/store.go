// Package store keeps what must outlive a request: the answers of OTC calls by
// their call_id, and the Engagements of agents. It knows neither: a record is a
// key, a value, a log that only grows, and a time after which it is gone.
//
// Update is the heart of it. It reads a record, lets its caller decide, and
// writes value and log together, or nothing; whoever else changes the record at
// the same moment, in this process or on another node, comes before or after.
// When it returns the change is durable: [Bolt] has it on disk in the one file of
// one process, [Redis] has the server's word. Get, Read and Keys look; Wait
// sleeps until a record is another.
//
// Both pass the suite in package storetest.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Limits of every store. What is beyond them is refused, never cut.
const (
	MaxKey          = 512                  // bytes of a key
	DefaultMaxValue = 1 << 20              // bytes of a value, and of all entries of one change
	MaxEntries      = 1024                 // entries that one change appends
	MaxLength       = 1 << 20              // entries of one log
	MaxRead         = 10_000               // entries or keys that one Read or Keys returns
	MaxReadBytes    = 16 << 20             // bytes of entries after which one Read returns
	MaxTTL          = 366 * 24 * time.Hour // life of a record after its last change
)

var (
	// ErrNotFound says that there is no record at that key, or no longer.
	ErrNotFound = errors.New("no such record")
	// ErrTooLarge says that a key, a value, the entries of a change or a log
	// would exceed its limit. Nothing was written.
	ErrTooLarge = errors.New("too large for the store")
	// ErrFull says that the store has as many records or bytes as it may, and
	// none that may be evicted. Nothing was written.
	ErrFull = errors.New("the store is full")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("the store is closed")
)

// A Record is what a key stands for. Its bytes belong to the caller to read, not
// to change.
type Record struct {
	Value  []byte // nil where there is no record, else not nil
	Length int64  // entries of its log
}

// A Change is what is to become of a record. Its bytes belong to the store from
// then on: they must not be changed.
type Change struct {
	// Value replaces the record's value. If nil the value stays as it is; a new
	// record's is empty then.
	Value []byte
	// Entries are appended to the record's log, which lives and ends with it. The
	// cost does not grow with the log.
	Entries [][]byte
	// TTL is how long the record lives from now on: more than 0, at most MaxTTL,
	// counted anew with each change.
	TTL time.Duration
	// Delete removes the record and its log; all else is ignored.
	Delete bool
	// Later does not wait for the disk: the change is visible to this process at
	// once and durable soon. A process that is killed may lose it, never a part
	// of it, nor an earlier change of the record without this one. A failure goes
	// to Options.Failed. Where too much is waiting already it is not later. Redis
	// makes every change at once.
	Later bool
	// Spare lets the record be evicted before its time when the embedded store
	// is full, the first to expire first. A record that is not spare never is:
	// ErrFull refuses others instead. Redis evicts by its own maxmemory-policy.
	Spare bool
}

// Store keeps records. Its methods are safe for concurrent use. They return
// ErrClosed after Close, and the context's error when it ends first; what Update
// and Put then did is unknown, as it is after a lost connection.
type Store interface {
	// Get returns the record, or ErrNotFound.
	Get(ctx context.Context, key string) (Record, error)

	// Update changes a record by what it is: change gets it as it stands (with a
	// nil Value if there is none, or no longer) and says what is to become of it.
	// It may run more than once, and for one key not twice at a time in this
	// process; it must be quick and not use the store. An error of change is
	// returned as it is, and nothing is changed.
	Update(ctx context.Context, key string, change func(old Record) (Change, error)) error

	// Put makes the change whatever the record is. With Entries alone it appends
	// to the log.
	Put(ctx context.Context, key string, change Change) error

	// Read returns the entries of the record's log from the one numbered from
	// (the first is 0) on, at most limit of them and about MaxReadBytes, but one
	// in any case: none where the log ends or there is no record.
	Read(ctx context.Context, key string, from int64, limit int) ([][]byte, error)

	// Wait returns the record as soon as its value is not seen (compared byte
	// by byte), which may be at once. It returns ErrNotFound when there is no
	// record, or no longer; with seen nil it waits until there is one. Changes by
	// this process are noticed at once, on Redis those of others as well; a
	// record that expires there is noticed within seconds.
	Wait(ctx context.Context, key string, seen []byte) (Record, error)

	// Keys returns the keys that begin with prefix and come after the key after
	// in the order of their bytes, at most limit of them. On Redis it walks all
	// keys of the database: for an operator's list, not for each request.
	Keys(ctx context.Context, prefix, after string, limit int) ([]string, error)

	// Delete removes records and their logs, each by itself. It is no error if
	// there are none.
	Delete(ctx context.Context, keys ...string) error

	// Close writes what waits to be written, ends all waiters, and gives up
	// what the store holds. Closing twice is the same as once.
	Close() error
}

// Options are the same for every store. The zero value has the defaults.
type Options struct {
	// MaxValue is the limit, in bytes, of a value and of all entries of one
	// change. Default: DefaultMaxValue.
	MaxValue int
	// Failed is told when a change that was made Later could not be made durable,
	// and of faults in the store's own upkeep. It must return soon.
	Failed func(error)
}

func (o *Options) setDefaults() {
	if o.MaxValue <= 0 {
		o.MaxValue = DefaultMaxValue
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
}

func checkKey(key string) error {
	if key == "" {
		return errors.New("a record's key is empty")
	}
	if len(key) > MaxKey {
		return fmt.Errorf("%w: a key of %d bytes; the limit is %d", ErrTooLarge, len(key), MaxKey)
	}
	return nil
}

// checkChange judges all of a change but the length that the log would have.
func (o *Options) checkChange(c *Change) error {
	if c.Delete {
		return nil
	}
	if c.TTL <= 0 || c.TTL > MaxTTL {
		return fmt.Errorf("a record's ttl is %s: it must be more than 0 and at most %s", c.TTL, MaxTTL)
	}
	if len(c.Value) > o.MaxValue {
		return fmt.Errorf("%w: a value of %d bytes; the limit is %d", ErrTooLarge, len(c.Value), o.MaxValue)
	}
	if len(c.Entries) > MaxEntries {
		return fmt.Errorf("%w: %d entries in one change; the limit is %d", ErrTooLarge, len(c.Entries), MaxEntries)
	}
	if size := entriesSize(c.Entries); size > o.MaxValue {
		return fmt.Errorf("%w: entries of %d bytes in one change; the limit is %d", ErrTooLarge, size, o.MaxValue)
	}
	return nil
}

func checkLength(length int64, more int) error {
	if length+int64(more) > MaxLength {
		return fmt.Errorf("%w: a log of %d entries cannot take %d more; the limit is %d", ErrTooLarge, length, more, MaxLength)
	}
	return nil
}

func entriesSize(entries [][]byte) int {
	size := 0
	for _, e := range entries {
		size += len(e)
	}
	return size
}

// checkRange judges what Read and Keys ask for, and returns how many to return.
func checkRange(from int64, limit int) (int, error) {
	if from < 0 || limit <= 0 {
		return 0, fmt.Errorf("from %d, limit %d: from counts from 0 and limit is more than 0", from, limit)
	}
	return min(limit, MaxRead), nil
}
