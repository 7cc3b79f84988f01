package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/store"
)

const (
	useInterval     = time.Second            // between requests for what records take
	useFullInterval = 100 * time.Millisecond // while shares bind
	useNowInterval  = 10 * time.Millisecond  // before a change is rejected
	useParts        = 10                     // part of the time that a node reads what records take, at most
	evictParts      = 1024                   // part of the limit that is freed at once, so that not each change evicts

	bindAbove, warnAbove = 75, 80 // percent, see package share
)

// use is what the records of each owner take: as the database said last, and what this node has written since.
type use struct {
	connection *connection
	limit      int64
	warn       func(store.Usage)

	mu     sync.Mutex
	bound  *share.Bound
	read   time.Time     // when the last read began
	took   time.Duration // the last read: many owners take long
	busy   bool          // above bindAbove percent
	warned bool
}

func newUse(c *connection, options *Options) *use {
	return &use{connection: c, limit: options.MaxBytes, warn: options.Warn}
}

// A querier is a connection or the pool.
type querier interface {
	Query(ctx context.Context, statement string, arguments ...any) (pgx.Rows, error)
}

// refresh reads what records take, if that is due.
func (u *use) refresh(ctx context.Context) error {
	u.mu.Lock()
	interval := useInterval
	if u.busy {
		interval = useFullInterval
	}
	interval = max(interval, useParts*u.took)
	u.mu.Unlock()
	return u.connection.timed(ctx, func(ctx context.Context) error { return u.readIfOlder(ctx, u.connection.pool, interval) })
}

// readIfOlder reads what records take, unless another call has begun to do so within the interval. It does not hold the lock
// meanwhile: from may wait for a connection that a transaction has, and the transaction for the lock.
func (u *use) readIfOlder(ctx context.Context, from querier, interval time.Duration) error {
	u.mu.Lock()
	began := time.Now()
	due := began.Sub(u.read) >= interval
	if due {
		u.read = began
	}
	u.mu.Unlock()
	if !due {
		return nil
	}
	bound := share.NewBound(share.Options{Name: "postgres bytes", Limit: u.limit})
	rows, err := from.Query(ctx, "SELECT owner, sum(bytes)::bigint FROM owner_bytes GROUP BY owner")
	if err == nil {
		var owner []byte
		var size int64
		_, err = pgx.ForEachRow(rows, []any{&owner, &size}, func() error {
			bound.Give(share.Owner(owner), -size) // takes them
			return nil
		})
	}
	if err != nil {
		u.forget()
		return err
	}
	u.set(bound, time.Since(began))
	return nil
}

// set replaces what is known, and warns if that is much.
func (u *use) set(bound *share.Bound, took time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bound, u.took = bound, took
	usage := bound.Usage()
	percent := usage.Used / max(usage.Limit/100, 1)
	u.busy = percent >= bindAbove
	switch {
	case !u.busy:
		u.warned = false
	case percent > warnAbove && !u.warned && u.warn != nil:
		u.warned = true
		go u.warn(usage)
	}
}

// forget makes the next refresh read from the database.
func (u *use) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.read = time.Time{}
}

// take counts n bytes for the owner. If there is no room for them, it returns why, and the owner whose records must
// be evicted, if there is one that is not exhausted.
func (u *use) take(owner store.Owner, n int64, exhausted map[store.Owner]bool) (full *share.FullError, from store.Owner, found bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	err := u.bound.Take(owner, n)
	if err == nil {
		return nil, "", false
	}
	full = err.(*share.FullError) //nolint:errorlint,forcetypeassert // Take returns no other
	from, found = u.bound.Yields(full, func(o share.Owner) bool { return !exhausted[o] })
	return full, from, found
}

// add counts n bytes for the owner without a check.
func (u *use) add(owner store.Owner, n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bound.Give(owner, -n)
}

// Usage implements store.Measured. It is empty if the server does not respond.
func (s *Store) Usage() []store.Usage {
	if err := s.use.refresh(context.Background()); err != nil {
		return nil
	}
	s.use.mu.Lock()
	defer s.use.mu.Unlock()
	return []store.Usage{s.use.bound.Usage()}
}
