// Package store holds the data that must outlive a request: the responses to OTC
// calls by call_id, and the Engagements of agents. The package does not interpret
// this data. A record has a key, a value, an append-only log and an expiry time.
//
// Update is the central operation. It reads a record, calls a function that decides
// on the change, and writes value and log atomically. Updates of one record are
// serialized, within the process and across nodes. When Update returns, the change
// is durable unless it was made with [Change.Async]:
//
//   - Package embedded has written it to disk. One process owns the store file.
//   - Packages redis and postgres have received the confirmation of the server. Many nodes can share it.
//
// Get, Read and Keys read. Wait blocks until a record's value changes.
//
// This package has the interface, its limits and errors, and what implementations share: KeyLocks
// serializes updates, Waiters wakes Wait calls, and the Check functions apply the limits. An
// implementation must pass the test suite in package storetest.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
)

// Limits of every store. A store rejects data beyond a limit; it never truncates.
const (
	MaxKey          = 512                  // bytes of a key
	DefaultMaxValue = 1 << 20              // bytes of a value, and of all entries of one change
	MaxEntries      = 1024                 // entries appended by one change
	MaxLength       = 1 << 20              // entries of one log
	MaxRead         = 10_000               // entries or keys returned by one Read or Keys
	MaxReadBytes    = 16 << 20             // bytes of entries after which one Read returns
	MaxTTL          = 366 * 24 * time.Hour // lifetime of a record after its last change
	maxOwner        = 255                  // bytes of an Owner
	maxTombstone    = 1 << 10              // bytes of a tombstone
)

var (
	// ErrNotFound reports that no record has that key, or that it has expired.
	ErrNotFound = errors.New("no such record")
	// ErrTooLarge reports that a key, a value, the entries of a change or a log
	// would exceed its limit. Nothing was written.
	ErrTooLarge = errors.New("too large for the store")
	// ErrFull reports that the store has reached its limit of records or bytes and
	// has no record that it may evict. Nothing was written.
	ErrFull = errors.New("the store is full")
	// ErrShare reports that the owner of the record has used its share of the store and has no record that
	// the store may evict. Nothing was written; owners that use less can still write.
	ErrShare = errors.New("the caller's share of the store is used up")
	// ErrClosed reports that the store is closed.
	ErrClosed = errors.New("the store is closed")
)

// ShareUsed explains ErrShare to people and models.
const ShareUsed = "your share of the gateway's records is used; it is freed when your earlier records expire"

// An Owner is the user or the network whose share of the store a record takes.
type Owner = share.Owner

// Record is the value of a key and the length of its log. The caller may read the
// bytes but must not modify them.
type Record struct {
	Value  []byte // nil if there is no record; otherwise not nil
	Length int64  // number of entries in the log
}

// Change describes a change of a record. The store takes ownership of the bytes: the
// caller must not modify them afterwards.
type Change struct {
	// Value replaces the record's value. If it is nil, the value stays as it is, and
	// a new record gets an empty value.
	Value []byte
	// Entries are appended to the record's log. The log is deleted with the record.
	// The cost of appending does not depend on the length of the log.
	Entries [][]byte
	// TTL is the lifetime of the record, counted from this change. It must be more
	// than 0 and at most MaxTTL.
	TTL time.Duration
	// Delete removes the record and its log. All other fields but Async are ignored.
	Delete bool
	// Async makes the write asynchronous: the caller does not wait for the disk. Later changes
	// see the change at once, and readers when it is durable: a read of the record waits for that.
	//
	//   - If the process is killed, the change can be lost, but only as a whole. A
	//     change is never kept without the earlier changes of the same record.
	//   - A failed write is reported to Options.Failed.
	//   - If too many writes are queued, the caller waits until there is room.
	//   - Redis ignores Async and makes every change synchronously.
	Async bool
	// Evictable allows the store to evict the record before it expires, to make room. The owner that uses
	// most loses records first, in the order of their expiry. Records without Evictable are never evicted;
	// new ones are rejected with ErrFull or ErrShare instead.
	Evictable bool
	// Tombstone is the value that remains, without Evictable, when the record is evicted. If it is nil, the
	// record is deleted. If there is no room for Value, the tombstone is written in its place.
	Tombstone []byte
	// Owner is whose share of the store the record takes. If it is empty, the owner stays as it is, and a
	// new record belongs to the gateway.
	Owner Owner
}

// Store holds records. Its methods are safe for concurrent use. They return ErrClosed
// after Close. If the context ends first, they return its error, and it is unknown
// whether Update and Put made the change. The same is true after a lost connection.
type Store interface {
	// Get returns the record, or ErrNotFound.
	Get(ctx context.Context, key string) (Record, error)

	// Update changes a record depending on its current state. It calls change with
	// the current record and makes the change that the function returns. If there is
	// no record or it has expired, old.Value is nil.
	//
	// The function may run more than once, but in this process never twice at the
	// same time for one key. It must return quickly and must not use the store. If it
	// returns an error, Update returns that error and changes nothing.
	Update(ctx context.Context, key string, change func(old Record) (Change, error)) error

	// Put makes the change regardless of the current record. With only Entries set
	// it appends to the log.
	Put(ctx context.Context, key string, change Change) error

	// Read returns entries of the record's log, starting with number from (the first
	// entry is 0). It returns at most limit entries and about MaxReadBytes, but at
	// least one entry if there is one. At the end of the log, or if there is no
	// record, it returns none.
	Read(ctx context.Context, key string, from int64, limit int) ([][]byte, error)

	// Wait blocks until the record's value differs from seen (compared byte by byte)
	// and returns the record. If the value differs already, it returns at once.
	//
	//   - If there is no record or it has expired, Wait returns ErrNotFound.
	//   - If seen is nil, Wait instead blocks until there is a record.
	//
	// Changes by this process are noticed at once; on Redis and Postgres, changes by other
	// nodes too. There, the expiry of a record is noticed within seconds.
	Wait(ctx context.Context, key string, seen []byte) (Record, error)

	// Keys returns at most limit keys that begin with prefix and sort after the key
	// after, in byte order. Its cost is that of the returned keys. Exception:
	// Redis scans all keys of the database if redis.Options.Indexed does not have the prefix.
	Keys(ctx context.Context, prefix, after string, limit int) ([]string, error)

	// Delete removes records and their logs. Each removal is a separate change.
	// A missing record is not an error.
	Delete(ctx context.Context, keys ...string) error

	// Exclusive reports whether no other process can use the records before Close. Then a record that an
	// earlier process was working on is free at once.
	Exclusive() bool

	// Close flushes pending writes, ends all Wait calls and releases the store's
	// resources. Further calls have no effect.
	Close() error
}

// Options are common to every store. The zero value selects the defaults.
type Options struct {
	// MaxValue is the limit, in bytes, of a value and of all entries of one
	// change. Default: DefaultMaxValue.
	MaxValue int
	// Failed is called when a change with Async could not be made durable, and when
	// the background maintenance of the store fails. It must return quickly.
	Failed func(error)
	// Warn is called when the use of a limit of the store rises above 80 %. It must not block. May be nil.
	Warn func(Usage)
}

// Usage says how much of a limit is in use, and who uses most.
type Usage = share.Usage

// Measured is implemented by stores that know how much of their limits is in use.
type Measured interface {
	Usage() []Usage
}

// Checked is implemented by stores that know why they cannot be written. Health becomes nil again without a change.
type Checked interface {
	Health() error
}

// SetDefaults sets the options that are zero to their defaults.
func (o *Options) SetDefaults() {
	if o.MaxValue <= 0 {
		o.MaxValue = DefaultMaxValue
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
}

// CheckKey returns an error if the key is empty or too long.
func CheckKey(key string) error {
	if key == "" {
		return errors.New("store: the key of a record is empty")
	}
	if len(key) > MaxKey {
		return fmt.Errorf("%w: a key of %d bytes; the limit is %d", ErrTooLarge, len(key), MaxKey)
	}
	return nil
}

// CheckChange checks all limits of a change except the resulting length of the log.
func (o *Options) CheckChange(c *Change) error {
	if c.Delete {
		return nil
	}
	if c.TTL <= 0 || c.TTL > MaxTTL {
		return fmt.Errorf("store: the TTL of a record is %s; it must be more than 0 and at most %s", c.TTL, MaxTTL)
	}
	if len(c.Value) > o.MaxValue {
		return fmt.Errorf("%w: a value of %d bytes; the limit is %d", ErrTooLarge, len(c.Value), o.MaxValue)
	}
	if len(c.Entries) > MaxEntries {
		return fmt.Errorf("%w: %d entries in one change; the limit is %d", ErrTooLarge, len(c.Entries), MaxEntries)
	}
	if len(c.Owner) > maxOwner || len(c.Tombstone) > maxTombstone {
		return fmt.Errorf("%w: an owner of %d bytes or a tombstone of %d bytes; the limits are %d and %d",
			ErrTooLarge, len(c.Owner), len(c.Tombstone), maxOwner, maxTombstone)
	}
	if size := EntriesSize(c.Entries); size > o.MaxValue {
		return fmt.Errorf("%w: entries of %d bytes in one change; the limit is %d", ErrTooLarge, size, o.MaxValue)
	}
	return nil
}

// CheckLength returns an error if a log with length entries must not grow by more.
func CheckLength(length int64, more int) error {
	if length+int64(more) > MaxLength {
		return fmt.Errorf("%w: a log of %d entries cannot take %d more; the limit is %d", ErrTooLarge, length, more, MaxLength)
	}
	return nil
}

// EntriesSize returns the number of bytes of all entries.
func EntriesSize(entries [][]byte) int {
	size := 0
	for _, e := range entries {
		size += len(e)
	}
	return size
}

// CheckRange checks the arguments of Read and Keys and returns the effective limit.
func CheckRange(from int64, limit int) (int, error) {
	if from < 0 || limit <= 0 {
		return 0, fmt.Errorf("store: from is %d and limit is %d; from must be at least 0, and limit more than 0", from, limit)
	}
	return min(limit, MaxRead), nil
}

// Scan calls visit with each record whose key begins with prefix, in the order of the keys. It ends at the first error.
func Scan(ctx context.Context, s Store, prefix string, visit func(key string, r Record) error) error {
	const page = 1000
	for after := ""; ; {
		keys, err := s.Keys(ctx, prefix, after, page)
		if err != nil {
			return err
		}
		for _, key := range keys {
			r, err := s.Get(ctx, key)
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if err == nil {
				err = visit(key, r)
			}
			if err != nil {
				return err
			}
		}
		if len(keys) < page {
			return nil
		}
		after = keys[len(keys)-1]
	}
}
