// Package redis keeps the records of package store on a Redis server (version 6.2 or later)
// or Valkey, which any number of nodes can share.
//
// A change is one Lua script, which runs atomically on the server. It writes only if the
// record still has the revision that Update read; otherwise Update reads the record again
// and repeats the change. Each change is published, so that Wait on other nodes returns.
// Redis removes expired records.
package redis

import (
	"context"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairwayhq/fairway/store"
)

const (
	// DefaultPrefix is the default prefix of all keys and channels in Redis.
	DefaultPrefix = "fairway:"

	maxBackoff = 16 * time.Millisecond // longest delay between two attempts to change a contended record
)

// Options configures the Redis store. The zero value selects the defaults.
type Options struct {
	store.Options
	// Prefix is the prefix of each key and channel. Default: DefaultPrefix. In a cluster it gets braces, so that
	// it is a hash tag.
	Prefix string
	// Indexed are the prefixes of keys that have an index. For other prefixes, Keys scans all keys of the
	// database.
	Indexed []string

	// Cluster says that the address is that of a server of a Redis Cluster.
	Cluster bool
	// Sentinel is the name of the master if the address is that of a sentinel. Then the user, the password and the
	// database of the address are those of the master.
	Sentinel string
	// Addresses are those of more servers of the cluster, or of more sentinels, as host:port.
	Addresses []string
	// SentinelUser and SentinelPassword authenticate this client to the sentinels. Default: none.
	SentinelUser, SentinelPassword string
	// RootCAs verify the certificates of servers and sentinels. Default: those of the system.
	RootCAs *x509.CertPool
}

// Store implements store.Store.
//
// A record is one hash with these fields: the value, the length of the log, the entries
// of the log by number, and a revision. Each change sets a new random revision.
//
// Durability depends on the configuration of the server (appendonly, replicas). If the
// server is down, each call fails after at most a few seconds.
type Store struct {
	options    Options
	connection *connection
	locks      *store.KeyLocks // avoids conflicts between changes of one key in this process
	changes    changeFeed
	memory     memory
	once       sync.Once
}

// Open returns the store at the address: redis://, rediss:// (TLS) or unix://. It
// does not connect; the first use does.
//
//	redis://[[user]:password@]host[:6379][/database]
//	rediss://…
//	unix://[[user]:password@]/path/to/redis.sock[?db=number]
func Open(address string, options Options) (*Store, error) {
	connection, err := newConnection(address, &options)
	if err != nil {
		return nil, err
	}
	options.SetDefaults()
	s := &Store{options: options, connection: connection, locks: store.NewKeyLocks()}
	s.memory.connection, s.memory.warn = s.connection, s.warn
	s.changes.connection, s.changes.channel = s.connection, options.Prefix+"changed"
	return s, nil
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) (store.Record, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Record{}, err
	}
	ctx, done := s.connection.begin(ctx)
	defer done()
	r, _, err := s.get(ctx, key)
	if err == nil && r.Value == nil {
		err = store.ErrNotFound
	}
	return r, err
}

// get returns the record and its revision. If there is no record, both are empty.
func (s *Store) get(ctx context.Context, key string) (r store.Record, revision string, err error) {
	var fields []any
	err = s.connection.retryOnce(ctx, func(client *redis.Client) (err error) {
		fields, err = client.HMGet(ctx, s.options.Prefix+key, fieldValue, fieldRevision, fieldLength).Result()
		return err
	})
	if err != nil || len(fields) != 3 || fields[0] == nil {
		return store.Record{}, "", err
	}
	value, _ := fields[0].(string)
	revision, _ = fields[1].(string)
	length, _ := fields[2].(string)
	r.Value = []byte(value)
	if r.Length, err = strconv.ParseInt(length, 10, 64); err != nil || revision == "" {
		return store.Record{}, "", fmt.Errorf("redis at %s: key %q holds data that is not a record of Fairway; set a prefix that no other program uses", s.connection.name, s.options.Prefix+key)
	}
	return r, revision, nil
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, change store.Change) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	if err := s.options.CheckChange(&change); err != nil {
		return err
	}
	ctx, done := s.connection.begin(ctx)
	defer done()
	_, err := s.write(ctx, key, anyRevision, &change)
	return err
}

// Update implements store.Store.
func (s *Store) Update(ctx context.Context, key string, change func(old store.Record) (store.Change, error)) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	within, done := s.connection.begin(ctx)
	defer done()
	held, err := s.locks.Acquire(within, key)
	if err != nil {
		return s.connection.explain(within, err)
	}
	defer held.Release()
	for backoff := time.Millisecond; ; backoff = min(2*backoff, maxBackoff) {
		old, revision, err := s.get(within, key)
		if err != nil {
			return err
		}
		c, err := change(old)
		if err != nil {
			return err
		}
		if c.Delete && old.Value == nil {
			return nil
		}
		if err := s.options.CheckChange(&c); err != nil {
			return err
		}
		written, err := s.write(within, key, revision, &c)
		if written || err != nil {
			return err
		}
		if err := s.connection.pause(within, rand.N(backoff)); err != nil { //nolint:gosec // only spreads retries
			return err
		}
	}
}

// Wait implements store.Store.
func (s *Store) Wait(ctx context.Context, key string, seen []byte) (store.Record, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Record{}, err
	}
	return s.changes.waiters.Await(ctx, key, seen, s.connection.closing, func() (store.Record, time.Duration, error) {
		s.changes.subscribe()
		r, err := s.Get(ctx, key)
		return r, 0, err
	})
}

// Exclusive implements store.Store.
func (s *Store) Exclusive() bool { return false }

// Close implements store.Store.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		close(s.connection.closing)
		s.changes.close()
		err = s.connection.client.Close()
	})
	return err
}

// Interface guard
var _ store.Store = (*Store)(nil)
