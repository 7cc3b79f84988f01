package store

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
)

const (
	// DefaultPrefix is the default prefix of all keys and channels in Redis.
	DefaultPrefix = "fairway:"

	redisTimeout   = 2 * time.Second       // to connect, and for each response
	redisOperation = 5 * time.Second       // for all commands of one call of the store
	redisPoll      = 2 * time.Second       // interval at which Wait re-reads a record even without a notification
	redisIdle      = 30 * time.Second      // the subscription ends after this time without waiters
	maxBackoff     = 16 * time.Millisecond // longest delay between two attempts to change a contended record
)

// RedisOptions configures the Redis store. The zero value selects the defaults.
type RedisOptions struct {
	Options
	// Prefix is the prefix of each key and channel. Default: DefaultPrefix.
	Prefix string
}

// Redis stores records on a Redis server (version 6 or later) or Valkey, which any number
// of nodes can share.
//
// A record is one hash with these fields: the value, the length of the log, the entries
// of the log by number, and a revision. Each change sets a new random revision.
//
// A change is one Lua script. It writes only if the revision is still the one that Update
// read; otherwise Update tries again. Each change is published to wake waiters on other
// nodes. Redis itself removes expired records.
//
// Durability depends on the configuration of the server (appendonly, replicas). If the
// server is down, each call fails after at most a few seconds.
type Redis struct {
	options RedisOptions
	name    string // address of the server in error messages, without password
	client  *redis.Client
	locks   *keyLocks // avoids conflicts between changes of one key in this process
	waiters waiters
	closing chan struct{}
	ended   sync.WaitGroup // the listener
	once    sync.Once

	mu        sync.Mutex
	listening bool
	shut      bool
}

// OpenRedis returns the store at the address: redis://, rediss:// (TLS) or unix://. It
// does not connect; the first use does.
//
//	redis://[[user]:password@]host[:6379][/database]
//	rediss://…
//	unix://[[user]:password@]/path/to/redis.sock[?db=number]
func OpenRedis(address string, options RedisOptions) (*Redis, error) {
	settings, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	options.setDefaults()
	if options.Prefix == "" {
		options.Prefix = DefaultPrefix
	}
	return &Redis{
		options: options,
		name:    settings.Network + "://" + settings.Addr,
		client:  redis.NewClient(settings),
		locks:   newKeyLocks(),
		closing: make(chan struct{}),
	}, nil
}

// CheckRedisAddress validates an address. Its errors do not contain secrets.
func CheckRedisAddress(address string) error {
	_, err := parseAddress(address)
	return err
}

// parseAddress parses the address. Errors of the libraries may contain the password, so
// they are not wrapped.
func parseAddress(address string) (*redis.Options, error) {
	const shape = "it should be as redis://host:6379/0, rediss://user:password@host:6379 or unix:///path/to/redis.sock, " +
		"with what is special in a password written as %XX"
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the address of Redis is not a URL: " + shape)
	}
	settings, err := redis.ParseURL(address)
	if err != nil || settings.Addr == "" {
		return nil, fmt.Errorf("the address of Redis, a URL with scheme %q, cannot be used: %s", u.Scheme, shape)
	}
	settings.ContextTimeoutEnabled = true
	settings.MaxRetries = -1 // only this package knows which commands can be repeated
	settings.DialerRetries = 1
	settings.DisableIdentity = true
	settings.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	for _, timeout := range []*time.Duration{&settings.DialTimeout, &settings.ReadTimeout, &settings.WriteTimeout, &settings.PoolTimeout} {
		if *timeout <= 0 {
			*timeout = redisTimeout
		}
	}
	return settings, nil
}

// Get implements Store.
func (s *Redis) Get(ctx context.Context, key string) (Record, error) {
	if err := checkKey(key); err != nil {
		return Record{}, err
	}
	ctx, done := s.begin(ctx)
	defer done()
	r, _, err := s.get(ctx, key)
	if err == nil && r.Value == nil {
		err = ErrNotFound
	}
	return r, err
}

// get returns the record and its revision. If there is no record, both are empty.
func (s *Redis) get(ctx context.Context, key string) (r Record, revision string, err error) {
	var fields []any
	err = s.ask(ctx, func() (err error) {
		fields, err = s.client.HMGet(ctx, s.options.Prefix+key, fieldValue, fieldRevision, fieldLength).Result()
		return err
	})
	if err != nil || len(fields) != 3 || fields[0] == nil {
		return Record{}, "", err
	}
	value, _ := fields[0].(string)
	revision, _ = fields[1].(string)
	length, _ := fields[2].(string)
	r.Value = []byte(value)
	if r.Length, err = strconv.ParseInt(length, 10, 64); err != nil || revision == "" {
		return Record{}, "", fmt.Errorf("redis at %s: %q is not a record of Fairway: give the store a prefix of its own", s.name, s.options.Prefix+key)
	}
	return r, revision, nil
}

// Put implements Store.
func (s *Redis) Put(ctx context.Context, key string, change Change) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := s.options.checkChange(&change); err != nil {
		return err
	}
	ctx, done := s.begin(ctx)
	defer done()
	_, err := s.write(ctx, key, anyRevision, &change)
	return err
}

// Update implements Store.
func (s *Redis) Update(ctx context.Context, key string, change func(old Record) (Change, error)) error {
	if err := checkKey(key); err != nil {
		return err
	}
	within, done := s.begin(ctx)
	defer done()
	held, err := s.locks.acquire(within, key)
	if err != nil {
		return s.explain(within, err)
	}
	defer held.release()
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
		if err := s.options.checkChange(&c); err != nil {
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

func (s *Redis) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return s.explain(ctx, ctx.Err())
	case <-s.closing:
		return ErrClosed
	}
}

// Wait implements Store.
func (s *Redis) Wait(ctx context.Context, key string, seen []byte) (Record, error) {
	if err := checkKey(key); err != nil {
		return Record{}, err
	}
	s.waiters.join(key)
	defer s.waiters.leave(key)
	s.listen()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		changed := s.waiters.changed(key)
		r, err := s.Get(ctx, key)
		switch {
		case errors.Is(err, ErrNotFound):
			if seen != nil {
				return Record{}, err
			}
		case err != nil:
			return Record{}, err
		case seen == nil || !bytes.Equal(r.Value, seen):
			return r, nil
		}
		timer.Reset(redisPoll/2 + rand.N(redisPoll/2)) //nolint:gosec // only spreads reads
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			return Record{}, ctx.Err()
		case <-s.closing:
			return Record{}, ErrClosed
		}
	}
}

// Close implements Store.
func (s *Redis) Close() error {
	var err error
	s.once.Do(func() {
		s.mu.Lock()
		s.shut = true
		s.mu.Unlock()
		close(s.closing)
		s.ended.Wait()
		err = s.client.Close()
	})
	return err
}

// begin sets the timeout of a call.
func (s *Redis) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, redisOperation)
}

// ask runs a command that can safely be repeated. If the connection is lost, it runs the
// command once more.
func (s *Redis) ask(ctx context.Context, send func() error) error {
	err := send()
	if lost(err) && ctx.Err() == nil {
		err = send()
	}
	return s.explain(ctx, err)
}

// lost reports whether the connection ended before the response. A timeout does not count,
// since an immediate retry would not help.
func lost(err error) bool {
	if err == nil || errors.Is(err, redis.ErrClosed) {
		return false
	}
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		return false
	}
	var answer redis.Error
	return !errors.As(err, &answer)
}

// explain adds the address of the server to an error and maps it to an error of Store.
func (s *Redis) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-s.closing:
		return ErrClosed
	default:
	}
	var network net.Error
	switch {
	case errors.Is(err, redis.ErrClosed):
		return ErrClosed
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case strings.HasPrefix(err.Error(), "OOM "):
		return fmt.Errorf("%w: redis at %s: %w", ErrFull, s.name, err)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return fmt.Errorf("redis at %s does not answer in time: %w", s.name, err)
	}
	return fmt.Errorf("redis at %s: %w", s.name, err)
}

// Interface guard
var _ Store = (*Redis)(nil)
