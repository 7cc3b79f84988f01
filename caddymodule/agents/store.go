package agents

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/answer/pages"
	"github.com/fairwayhq/fairway/internal/calllog"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/redis"
)

// StoreConfig configures where Fairway keeps data that must outlive a request and a restart.
// Set at most one member. Default: bolt with its defaults.
type StoreConfig struct {
	// A file of this node. Only one process can have it open. Default: used if Redis is not
	// set.
	Bolt *BoltConfig `json:"bolt,omitempty"`

	// A server of Redis 6 or later, or Valkey, that all nodes share. Default: none.
	Redis *RedisConfig `json:"redis,omitempty"`
}

// BoltConfig configures the embedded store.
type BoltConfig struct {
	// The path of the file. Placeholders such as {env.NAME} are replaced. Default:
	// fairway/store.db in Caddy's data directory.
	File string `json:"file,omitempty"`

	// The maximum number of records. At the limit, records that may be evicted are removed,
	// those that expire first before others; if there are none, writes fail. A changed limit
	// takes effect when the process restarts. Default: 1000000.
	MaxRecords int `json:"max_records,omitempty"`

	// The maximum total size of all records, in bytes. The file can be twice as large. Default:
	// 1 GiB.
	MaxSize int64 `json:"max_size,omitempty"`
}

// RedisConfig configures the store that several nodes share.
type RedisConfig struct {
	// The server's URL: redis://[[user]:password@]host[:6379][/database], the same with
	// rediss:// for TLS, or unix://[[user]:password@]/path[?db=number]. Placeholders such as
	// {env.REDIS_URL} and {file.PATH} are replaced. Required.
	URL string `json:"url,omitempty"`

	// The prefix of all keys. Default: `fairway:`.
	Prefix string `json:"prefix,omitempty"`
}

// stores holds the open stores. Successive configurations with the same store share it, so that
// a reload neither closes the store nor waits for its file lock.
var stores = caddy.NewUsagePool()

// openRetry is the minimum time between attempts to open a store.
const openRetry = time.Second

// sharedStore opens a store at its first use. Validating a configuration does not open it.
type sharedStore struct {
	key       string // key in the pool `stores`
	openStore func(store.Options) (store.Store, error)
	logger    atomic.Pointer[zap.Logger] // logger of the configuration that was started last
	opened    atomic.Pointer[store.Store]
	pages     *pages.Keeper
	calls     *calllog.Log

	mu      sync.Mutex
	closed  bool
	lastErr error
	retryAt time.Time // when opening is tried again after an error
}

// acquire returns the configured store from the pool without opening it. The caller must call
// release once.
func (c *StoreConfig) acquire(logger *zap.Logger) (*sharedStore, error) {
	key, open, err := c.opener()
	if err != nil {
		return nil, err
	}
	value, _, err := stores.LoadOrNew(key, func() (caddy.Destructor, error) {
		s := &sharedStore{key: key, openStore: open}
		s.calls = calllog.New(nodeName())
		if s.pages = pages.New(); c != nil && c.Redis != nil {
			s.pages = pages.NewShared(s.open)
			s.calls.Share(s.open)
		}
		s.logger.Store(logger)
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	return value.(*sharedStore), nil
}

// release gives up the store. The pool closes it after the last release.
func (s *sharedStore) release() {
	_, _ = stores.Delete(s.key)
}

// opener returns the key that identifies the store, and the function that opens it.
func (c *StoreConfig) opener() (key string, open func(store.Options) (store.Store, error), err error) {
	if c == nil || c.Bolt == nil && c.Redis == nil {
		c = &StoreConfig{Bolt: new(BoltConfig)}
	}
	if c.Bolt != nil && c.Redis != nil {
		return "", nil, errors.New("bolt and redis are both configured; keep one")
	}
	if c.Redis != nil {
		return c.Redis.opener()
	}
	return c.Bolt.opener()
}

// opener validates the options of the embedded store.
func (c *BoltConfig) opener() (key string, open func(store.Options) (store.Store, error), err error) {
	if c.MaxRecords < 0 || c.MaxSize < 0 {
		return "", nil, errors.New("bolt: max_records and max_size must not be negative")
	}
	file := filepath.Join(caddy.AppDataDir(), "fairway", "store.db")
	if c.File != "" {
		if file = caddy.NewReplacer().ReplaceAll(c.File, ""); file == "" {
			return "", nil, fmt.Errorf("bolt: file %s is empty", c.File)
		}
	}
	if file, err = filepath.Abs(file); err != nil {
		return "", nil, fmt.Errorf("bolt: %w", err)
	}
	limits := embedded.Options{MaxRecords: int64(c.MaxRecords), MaxBytes: c.MaxSize}
	return "bolt " + file, func(options store.Options) (store.Store, error) {
		limits := limits
		limits.Options = options
		return embedded.Open(file, limits)
	}, nil
}

// opener validates the options of the Redis store.
func (c *RedisConfig) opener() (key string, open func(store.Options) (store.Store, error), err error) {
	address := caddy.NewReplacer().ReplaceAll(c.URL, "")
	if address == "" {
		return "", nil, errors.New("redis: url is empty, as in: store redis redis://127.0.0.1:6379/0")
	}
	if err := redis.CheckAddress(address); err != nil {
		return "", nil, fmt.Errorf("redis: %w", err)
	}
	return "redis " + c.Prefix + " " + address, func(options store.Options) (store.Store, error) {
		return redis.Open(address, redis.Options{Options: options, Prefix: c.Prefix})
	}, nil
}

// open returns the store and opens it if necessary. After a failure it returns the same error
// until openRetry has passed.
func (s *sharedStore) open(ctx context.Context) (store.Store, error) {
	if opened := s.opened.Load(); opened != nil {
		return *opened, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch opened := s.opened.Load(); {
	case opened != nil:
		return *opened, nil
	case s.closed:
		return nil, store.ErrClosed
	case s.lastErr != nil && time.Now().Before(s.retryAt):
		return nil, s.lastErr
	}
	opened, err := s.openStore(store.Options{Failed: s.logBackgroundError})
	if err != nil {
		s.logger.Load().Error("opening the store failed", zap.Error(err))
		s.lastErr, s.retryAt = err, time.Now().Add(openRetry)
		return nil, err
	}
	s.lastErr = nil
	s.opened.Store(&opened)
	return opened, nil
}

// logBackgroundError logs an error of the store's background work, which no caller can receive.
func (s *sharedStore) logBackgroundError(err error) {
	s.logger.Load().Error("background write of the store failed", zap.Error(err))
}

// Destruct closes the store. The pool calls it when no configuration uses the store.
func (s *sharedStore) Destruct() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.pages.Close()
	s.calls.Close()
	if opened := s.opened.Load(); opened != nil {
		return (*opened).Close()
	}
	return nil
}

// OpenStore returns the store of this configuration and opens it at the first call. The store
// stays open until Cleanup, or longer if another configuration uses it.
func (a *App) OpenStore(ctx context.Context) (store.Store, error) {
	return a.store.open(ctx)
}

// Pages returns what keeps the pages of large responses: the store, if it is one that nodes share,
// otherwise memory that outlives a reload.
func (a *App) Pages() *pages.Keeper {
	return a.store.pages
}

// Calls returns the log of recent tool calls. It outlives a reload.
func (a *App) Calls() *calllog.Log {
	return a.store.calls
}

// nodeName returns the name of this process among the nodes that share a store: the host, and a random
// suffix, since a host can run several nodes.
func nodeName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return text.Cut(host, text.MaxQuoted) + "-" + strings.ToLower(rand.Text()[:4])
}
