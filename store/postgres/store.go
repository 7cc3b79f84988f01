// Package postgres keeps the records of package store in a Postgres database (version 13 or later), which any
// number of nodes can share.
//
//   - store.go: Store and its reading methods.
//   - record.go: changes of a record, each in a transaction that locks it.
//   - schema.go, schema/*.sql: the tables and functions, and their migrations.
//   - use.go: what records take, and the shares of owners.
//   - feed.go: LISTEN and NOTIFY, which wake Wait and Take on all nodes.
//   - queue.go: the queue.
//   - sweep.go: removes expired records.
//
// All times are those of the server, so the clocks of nodes need not agree.
package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairwayhq/fairway/store"
)

const (
	// DefaultSchema is the default schema of all tables.
	DefaultSchema = "fairway"

	// defaultMaxBytes is the default of Options.MaxBytes.
	defaultMaxBytes = 10 << 30
)

// Options configures the Postgres store. The zero value selects the defaults.
type Options struct {
	store.Options
	// Schema has the tables, and is also the name of the channel for NOTIFY: up to 63 of a-z, 0-9 and _. It is
	// created if it does not exist. Default: DefaultSchema.
	Schema string
	// MaxBytes limits the bytes of all records: keys, values and logs, with an estimate of what the database
	// adds. Nodes see what others have written within a second, so together they can exceed it by that much. With
	// very many owners, it takes ten times as long as the database takes to add up what they have.
	// Default: defaultMaxBytes.
	MaxBytes int64
}

// Store implements store.Store and store.Queuer.
//
// Durability depends on the configuration of the server (fsync, synchronous_commit, replicas). If the server is
// down, each call fails after at most a few seconds.
type Store struct {
	options    Options
	connection *connection
	locks      *store.KeyLocks // so that a key in demand takes one connection of the pool
	feed       *feed
	use        *use
	once       sync.Once
	background sync.WaitGroup
	stop       context.CancelFunc // ends what runs in the background
}

// Open opens the store in the database of the address, a URL as libpq defines it. It creates the schema, or
// brings it to the current version.
//
//	postgres://[user[:password]@]host[:5432]/database[?sslmode=verify-full&…]
func Open(address string, options Options) (*Store, error) {
	options.SetDefaults()
	options.Schema = cmp.Or(options.Schema, DefaultSchema)
	options.MaxBytes = cmp.Or(options.MaxBytes, defaultMaxBytes)
	settings, err := parseAddress(address, options.Schema)
	if err != nil {
		return nil, err
	}
	c, err := newConnection(settings)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	u := newUse(c, &options)
	if err = migrate(ctx, settings.ConnConfig, options.Schema, newestVersion); err == nil {
		err = u.refresh(ctx)
	}
	if err != nil {
		err = c.explain(ctx, err)
		stop()
		c.pool.Close()
		return nil, err
	}
	s := &Store{options: options, connection: c, locks: store.NewKeyLocks(), use: u, stop: stop}
	s.feed = &feed{connection: c, settings: settings.ConnConfig, channel: options.Schema, due: make(chan struct{}, 1), pending: make(map[string]bool)}
	s.background.Go(func() { s.feed.listen(ctx) })
	s.background.Go(func() { s.feed.notify(ctx) })
	s.background.Go(func() { s.sweep(ctx) })
	return s, nil
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) (r store.Record, err error) {
	if err := store.CheckKey(key); err != nil {
		return r, err
	}
	err = s.connection.timed(ctx, func(ctx context.Context) error {
		const statement = "SELECT value, length FROM records WHERE key = $1 AND expires > statement_timestamp()"
		return s.connection.pool.QueryRow(ctx, statement, []byte(key)).Scan(&r.Value, &r.Length)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = store.ErrNotFound
	}
	return r, err
}

// Read implements store.Store.
func (s *Store) Read(ctx context.Context, key string, from int64, limit int) ([][]byte, error) {
	if err := store.CheckKey(key); err != nil {
		return nil, err
	}
	limit, err := store.CheckRange(from, limit)
	if err != nil {
		return nil, err
	}
	return s.rows(ctx, "SELECT read_log($1, $2, $3, $4)", []byte(key), from, limit, store.MaxReadBytes)
}

// Keys implements store.Store.
func (s *Store) Keys(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	limit, err := store.CheckRange(0, limit)
	if err != nil {
		return nil, err
	}
	const statement = `SELECT key FROM records
		WHERE key >= $1 AND key > $2 AND key < $3 AND expires > statement_timestamp() ORDER BY key LIMIT $4`
	rows, err := s.rows(ctx, statement, []byte(prefix), []byte(after), prefixEnd(prefix), limit)
	keys := make([]string, len(rows))
	for i, key := range rows {
		keys[i] = string(key)
	}
	return keys, err
}

// prefixEnd returns the first key after those that begin with prefix.
func prefixEnd(prefix string) []byte {
	for end := []byte(prefix); len(end) > 0; end = end[:len(end)-1] {
		if last := len(end) - 1; end[last] < 0xff {
			end[last]++
			return end
		}
	}
	return bytes.Repeat([]byte{0xff}, store.MaxKey+1)
}

// rows returns the values of a query with one column.
func (s *Store) rows(ctx context.Context, statement string, arguments ...any) (values [][]byte, err error) {
	err = s.connection.timed(ctx, func(ctx context.Context) error {
		rows, err := s.connection.pool.Query(ctx, statement, arguments...)
		if err == nil {
			values, err = pgx.CollectRows(rows, pgx.RowTo[[]byte])
		}
		return err
	})
	return values, err
}

// Wait implements store.Store.
func (s *Store) Wait(ctx context.Context, key string, seen []byte) (store.Record, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Record{}, err
	}
	return s.feed.waiters.Await(ctx, recordName(key), seen, s.connection.closing, func() (store.Record, time.Duration, error) {
		r, err := s.Get(ctx, key)
		return r, 0, err
	})
}

// Exclusive implements store.Store.
func (s *Store) Exclusive() bool { return false }

// Close implements store.Store. It waits for calls in progress.
func (s *Store) Close() error {
	s.once.Do(func() {
		close(s.connection.closing)
		s.stop()
		s.background.Wait()
		s.connection.pool.Close()
	})
	return nil
}

// Interface guards
var (
	_ store.Store    = (*Store)(nil)
	_ store.Queuer   = (*Store)(nil)
	_ store.Measured = (*Store)(nil)
)
