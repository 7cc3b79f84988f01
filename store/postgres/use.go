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

	bindAbove, warnAbove = 75, 80 // percent, see package share
)

// use is what the records of each owner take: as the database said last, and what this node has written since.
type use struct {
	connection *connection
	limit      int64
	warn       func(store.Usage)

	mu     sync.Mutex
	bound  *share.Bound // nil: unknown
	read   time.Time
	busy   bool // above bindAbove percent
	warned bool
}

func newUse(c *connection, options *Options) *use {
	return &use{connection: c, limit: options.MaxBytes, warn: options.Warn}
}

// refresh reads what records take, if that is due.
func (u *use) refresh(ctx context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if age := time.Since(u.read); u.bound != nil && (age < useFullInterval || age < useInterval && !u.busy) {
		return nil
	}
	var bound *share.Bound
	err := u.connection.timed(ctx, func(ctx context.Context) error {
		rows, err := u.connection.pool.Query(ctx, "SELECT owner, sum(bytes)::bigint FROM owner_bytes GROUP BY owner")
		if err != nil {
			return err
		}
		bound = share.NewBound(share.Options{Name: "postgres bytes", Limit: u.limit})
		var owner []byte
		var size int64
		_, err = pgx.ForEachRow(rows, []any{&owner, &size}, func() error {
			bound.Give(share.Owner(owner), -size) // takes them
			return nil
		})
		return err
	})
	if err != nil {
		return err
	}
	u.bound, u.read = bound, time.Now()
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
	return nil
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
