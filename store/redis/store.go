// Package redis keeps the records of package store on a Redis server (version 6 or later)
// or Valkey, which any number of nodes can share.
//
// A change is one Lua script, which runs atomically on the server. It writes only if the
// record still has the revision that Update read; otherwise Update reads the record again
// and repeats the change. Each change is published, so that Wait on other nodes returns.
// Redis removes expired records.
package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fairwayhq/fairway/store"
)

const (
	// DefaultPrefix is the default prefix of all keys and channels in Redis.
	DefaultPrefix = "fairway:"

	requestTimeout   = 2 * time.Second       // to connect, and for each response
	operationTimeout = 5 * time.Second       // for all commands of one call of the store
	pollInterval     = 2 * time.Second       // interval at which Wait re-reads a record even without a notification
	idleTimeout      = 30 * time.Second      // the subscription ends after this time without waiters
	maxBackoff       = 16 * time.Millisecond // longest delay between two attempts to change a contended record
)

// Options configures the Redis store. The zero value selects the defaults.
type Options struct {
	store.Options
	// Prefix is the prefix of each key and channel. Default: DefaultPrefix.
	Prefix string
	// Indexed are the beginnings of keys that Keys finds by an index. For prefixes that begin with none of
	// them, Keys scans all keys of the database.
	Indexed []string
}

// Store implements store.Store.
//
// A record is one hash with these fields: the value, the length of the log, the entries
// of the log by number, and a revision. Each change sets a new random revision.
//
// Durability depends on the configuration of the server (appendonly, replicas). If the
// server is down, each call fails after at most a few seconds.
type Store struct {
	options Options
	name    string // address of the server in error messages, without password
	client  *redis.Client
	locks   *store.KeyLocks // avoids conflicts between changes of one key in this process
	waiters store.Waiters
	closing chan struct{}
	ended   sync.WaitGroup // the subscription
	once    sync.Once

	mu         sync.Mutex
	subscribed bool
	closed     bool
}

// Open returns the store at the address: redis://, rediss:// (TLS) or unix://. It
// does not connect; the first use does.
//
//	redis://[[user]:password@]host[:6379][/database]
//	rediss://…
//	unix://[[user]:password@]/path/to/redis.sock[?db=number]
func Open(address string, options Options) (*Store, error) {
	settings, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	options.SetDefaults()
	if options.Prefix == "" {
		options.Prefix = DefaultPrefix
	}
	return &Store{
		options: options,
		name:    settings.Network + "://" + settings.Addr,
		client:  redis.NewClient(settings),
		locks:   store.NewKeyLocks(),
		closing: make(chan struct{}),
	}, nil
}

// CheckAddress validates an address. Its errors do not contain secrets.
func CheckAddress(address string) error {
	_, err := parseAddress(address)
	return err
}

// parseAddress parses the address. Errors of the libraries may contain the password, so
// they are not wrapped.
func parseAddress(address string) (*redis.Options, error) {
	const shape = "use redis://host:6379/0, rediss://user:password@host:6379 or unix:///path/to/redis.sock, " +
		"and percent-encode special characters in the password"
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the address of Redis is not a URL: " + shape)
	}
	settings, err := redis.ParseURL(address)
	if err != nil || settings.Addr == "" {
		return nil, fmt.Errorf("the address of Redis, a URL with scheme %q, is not valid: %s", u.Scheme, shape)
	}
	settings.ContextTimeoutEnabled = true
	settings.MaxRetries = -1 // only this package knows which commands can be repeated
	settings.DialerRetries = 1
	settings.DisableIdentity = true
	settings.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	for _, timeout := range []*time.Duration{&settings.DialTimeout, &settings.ReadTimeout, &settings.WriteTimeout, &settings.PoolTimeout} {
		if *timeout <= 0 {
			*timeout = requestTimeout
		}
	}
	return settings, nil
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) (store.Record, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Record{}, err
	}
	ctx, done := s.begin(ctx)
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
	err = s.retryOnce(ctx, func() (err error) {
		fields, err = s.client.HMGet(ctx, s.options.Prefix+key, fieldValue, fieldRevision, fieldLength).Result()
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
		return store.Record{}, "", fmt.Errorf("redis at %s: key %q holds data that is not a record of Fairway; set a prefix that no other program uses", s.name, s.options.Prefix+key)
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
	ctx, done := s.begin(ctx)
	defer done()
	_, err := s.write(ctx, key, anyRevision, &change)
	return err
}

// Update implements store.Store.
func (s *Store) Update(ctx context.Context, key string, change func(old store.Record) (store.Change, error)) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	within, done := s.begin(ctx)
	defer done()
	held, err := s.locks.Acquire(within, key)
	if err != nil {
		return s.explain(within, err)
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
		if err := s.pause(within, rand.N(backoff)); err != nil { //nolint:gosec // only spreads retries
			return err
		}
	}
}

func (s *Store) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return s.explain(ctx, ctx.Err())
	case <-s.closing:
		return store.ErrClosed
	}
}

// Wait implements store.Store.
func (s *Store) Wait(ctx context.Context, key string, seen []byte) (store.Record, error) {
	if err := store.CheckKey(key); err != nil {
		return store.Record{}, err
	}
	s.waiters.Join(key)
	defer s.waiters.Leave(key)
	s.subscribe()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		changed := s.waiters.Changed(key)
		r, err := s.Get(ctx, key)
		switch {
		case errors.Is(err, store.ErrNotFound):
			if seen != nil {
				return store.Record{}, err
			}
		case err != nil:
			return store.Record{}, err
		case seen == nil || !bytes.Equal(r.Value, seen):
			return r, nil
		}
		timer.Reset(pollInterval/2 + rand.N(pollInterval/2)) //nolint:gosec // only spreads reads
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			return store.Record{}, ctx.Err()
		case <-s.closing:
			return store.Record{}, store.ErrClosed
		}
	}
}

// Close implements store.Store.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		close(s.closing)
		s.ended.Wait()
		err = s.client.Close()
	})
	return err
}

// begin sets the timeout of a call.
func (s *Store) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, operationTimeout)
}

// retryOnce runs a command that can safely be repeated. If the connection is lost, it runs the
// command once more.
func (s *Store) retryOnce(ctx context.Context, send func() error) error {
	err := send()
	if connectionLost(err) && ctx.Err() == nil {
		err = send()
	}
	return s.explain(ctx, err)
}

// connectionLost reports whether the connection ended before the response. A timeout does not count,
// since an immediate retry would not help.
func connectionLost(err error) bool {
	if err == nil || errors.Is(err, redis.ErrClosed) {
		return false
	}
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		return false
	}
	var reply redis.Error
	return !errors.As(err, &reply)
}

// explain adds the address of the server to an error and maps it to an error of Store.
func (s *Store) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-s.closing:
		return store.ErrClosed
	default:
	}
	var network net.Error
	switch {
	case errors.Is(err, redis.ErrClosed):
		return store.ErrClosed
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case strings.HasPrefix(err.Error(), "OOM "):
		return fmt.Errorf("%w: redis at %s: %w", store.ErrFull, s.name, err)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return fmt.Errorf("redis at %s did not respond in time: %w", s.name, err)
	}
	return fmt.Errorf("redis at %s: %w", s.name, err)
}

// Interface guard
var _ store.Store = (*Store)(nil)
