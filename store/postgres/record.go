package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/store"
)

const (
	attempts   = 5                     // to make a change that the server refuses because of concurrent ones, or for which no connection was left
	maxBackoff = 16 * time.Millisecond // longest delay between two attempts

	// What the database adds to a record and to an entry, about: rows, entries of indexes, and room between them.
	recordOverhead = 400
	entryOverhead  = 80
)

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, change store.Change) error {
	if err := s.options.CheckChange(&change); err != nil {
		return err
	}
	return s.change(ctx, key, false, func(store.Record) (store.Change, error) { return change, nil })
}

// Update implements store.Store.
func (s *Store) Update(ctx context.Context, key string, change func(old store.Record) (store.Change, error)) error {
	return s.change(ctx, key, true, change)
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := s.Put(ctx, key, store.Change{Delete: true}); err != nil {
			return err
		}
	}
	return nil
}

// change makes a change in a transaction. It needs the old value only if read is true.
func (s *Store) change(ctx context.Context, key string, read bool, decide func(store.Record) (store.Change, error)) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	ctx, done := s.connection.begin(ctx)
	defer done()
	held, err := s.locks.Acquire(ctx, key)
	if err != nil {
		return s.connection.explain(ctx, err)
	}
	defer held.Release()
	for attempt, backoff := 1, time.Millisecond; ; attempt, backoff = attempt+1, min(2*backoff, maxBackoff) {
		if err := s.use.refresh(ctx); err != nil { // before this call takes a connection
			return err
		}
		again, err := s.try(ctx, key, read, decide)
		if !again || attempt == attempts {
			return err
		}
		select {
		case <-time.After(rand.N(backoff)): //nolint:gosec // only spreads retries
		case <-ctx.Done():
			return err
		}
	}
}

// try makes one attempt. It reports whether the attempt failed without a change, and another may succeed.
func (s *Store) try(ctx context.Context, key string, read bool, decide func(store.Record) (store.Change, error)) (again bool, err error) {
	conn, err := s.connection.pool.Acquire(ctx)
	if err != nil {
		return false, s.connection.explain(ctx, err)
	}
	t := &transaction{store: s, conn: conn, key: key}
	defer t.end()
	if err := t.lock(ctx, read); err != nil {
		if connectionLost(err) && ctx.Err() == nil {
			s.connection.pool.Reset()
			return true, s.connection.explain(ctx, err)
		}
		return conflicted(err), s.connection.explain(ctx, err)
	}
	c, err := decide(t.old)
	if err != nil {
		return false, err
	}
	if err := s.options.CheckChange(&c); err != nil {
		return false, err
	}
	if c.Delete {
		return t.remove(ctx, c.Async)
	}
	return t.write(ctx, &c)
}

// conflicted reports whether the server refused a transaction because of concurrent ones.
func conflicted(err error) bool {
	reply, ok := rejected(err)
	return ok && (reply.Code == codeSerialization || reply.Code == codeDeadlock)
}

// transaction changes one record.
type transaction struct {
	store *Store
	conn  *pgxpool.Conn
	key   string

	counted, committed bool // in use; in the database

	old   store.Record
	owner store.Owner
	size  int64 // bytes of the old record that count towards the limit; 0 if there is none
	held  int64 // bytes of the old value
}

// end releases the connection, and rolls back what was not committed.
func (t *transaction) end() {
	if !t.committed {
		if t.counted {
			t.store.use.forget() // the next change reads it from the database
		}
		if !t.conn.Conn().IsClosed() {
			ctx, cancel := t.store.connection.begin(context.Background())
			defer cancel()
			_, _ = t.conn.Exec(ctx, "ROLLBACK") // if it fails, Release closes the connection
		}
	}
	t.conn.Release()
}

// lock begins the transaction, locks the record and reads it.
func (t *transaction) lock(ctx context.Context, read bool) error {
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue("SELECT CASE WHEN $2 THEN value END, length, owner, size, octet_length(value) FROM lock_record($1)", []byte(t.key), read).
		QueryRow(func(row pgx.Row) error {
			var owner []byte
			err := row.Scan(&t.old.Value, &t.old.Length, &owner, &t.size, &t.held)
			t.owner = store.Owner(owner)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			return err
		})
	return t.conn.SendBatch(ctx, b).Close()
}

// write writes the record and commits.
func (t *transaction) write(ctx context.Context, c *store.Change) (again bool, err error) {
	if err := store.CheckLength(t.old.Length, len(c.Entries)); err != nil {
		return false, err
	}
	owner := c.Owner
	if owner == share.Gateway {
		owner = t.owner
	}
	value, evictable, tombstone := c.Value, c.Evictable, c.Tombstone
	if !evictable {
		tombstone = nil
	}
	size, before := t.sizeWith(value, c.Entries), t.size
	if owner != t.owner {
		before = 0
	}
	t.counted = true
	switch err := t.makeRoom(ctx, owner, size-before); {
	case err == nil:
	case (errors.Is(err, store.ErrShare) || errors.Is(err, store.ErrFull)) && tombstone != nil:
		value, evictable, tombstone = tombstone, false, nil
		size = t.sizeWith(value, c.Entries)
		t.store.use.add(owner, size-before)
	default:
		return conflicted(err), err
	}
	if owner != t.owner {
		t.store.use.add(t.owner, -t.size)
	}
	changed := c.Value != nil || t.size == 0
	return t.commit(ctx, c.Async, changed, "SELECT write_record($1, $2, $3, $4, $5, $6, $7, $8, $9)",
		[]byte(t.key), t.old.Length, size, []byte(owner), evictable, tombstone, c.TTL, value, c.Entries)
}

// sizeWith returns the bytes of the changed record that count towards the limit.
func (t *transaction) sizeWith(value []byte, entries [][]byte) int64 {
	size := t.size
	if size == 0 {
		size = recordOverhead + int64(len(t.key))
	}
	if value != nil {
		size += int64(len(value)) - t.held
	}
	return size + int64(store.EntriesSize(entries)+entryOverhead*len(entries))
}

// makeRoom counts the growth of the record for the owner. If there is no room for it, it evicts records. The error
// is store.ErrShare or store.ErrFull if there are none that it may evict.
func (t *transaction) makeRoom(ctx context.Context, owner store.Owner, growth int64) error {
	u, exhausted, current := t.store.use, make(map[store.Owner]bool), false // exhausted: owners without evictable records
	for {
		full, from, found := u.take(owner, growth, exhausted)
		switch {
		case full == nil:
			return nil
		case !found && !current: // other nodes may have made room
			if err := u.readIfOlder(ctx, t.conn, useNowInterval); err != nil {
				return t.store.connection.explain(ctx, err)
			}
			current = true
			clear(exhausted)
			continue
		case !found && full.Share:
			return fmt.Errorf("%w: %w", store.ErrShare, full)
		case !found:
			return fmt.Errorf("%w: %w", store.ErrFull, full)
		}
		var freed int64
		const statement = "SELECT evict($1, $2, $3)"
		if err := t.conn.QueryRow(ctx, statement, []byte(from), max(growth, u.limit/evictParts), []byte(t.key)).Scan(&freed); err != nil {
			return fmt.Errorf("evicting records: %w", t.store.connection.explain(ctx, err))
		}
		exhausted[from] = freed <= 0
		u.add(from, -freed)
	}
}

// remove deletes the record and commits.
func (t *transaction) remove(ctx context.Context, async bool) (again bool, err error) {
	if t.size == 0 {
		return false, nil
	}
	t.counted = true
	t.store.use.add(t.owner, -t.size)
	return t.commit(ctx, async, true, "DELETE FROM records WHERE key = $1", []byte(t.key))
}

// commit runs the statement of the change and commits. changed says whether the value changes. If the connection is lost, it is
// unknown whether the change was made.
func (t *transaction) commit(ctx context.Context, async, changed bool, statement string, arguments ...any) (again bool, err error) {
	b := &pgx.Batch{}
	if async { // the server writes it to its disk within a second, in the order of the changes
		b.Queue("SET LOCAL synchronous_commit TO OFF")
	}
	b.Queue(statement, arguments...)
	b.Queue("COMMIT")
	err = t.conn.SendBatch(ctx, b).Close()
	if err == nil {
		t.committed = true
		if changed {
			t.store.feed.changed(recordName(t.key))
		}
		return false, nil
	}
	if _, ok := rejected(err); !ok {
		return false, fmt.Errorf("it is unknown whether the change was made: %w", t.store.connection.explain(ctx, err))
	}
	return conflicted(err), t.store.connection.explain(ctx, err)
}

// recordName returns the name of a record in the feed.
func recordName(key string) string { return "record " + key }
