package agents

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/store"
)

// StoreConfig says where Fairway keeps what must outlive a request and a restart.
// One of its members is given; without any it is bolt, with its defaults.
type StoreConfig struct {
	// A file of this node. One process has it open at a time.
	Bolt *BoltConfig `json:"bolt,omitempty"`

	// A server of Redis 6 or later, or Valkey, that all nodes share.
	Redis *RedisConfig `json:"redis,omitempty"`
}

// BoltConfig is the embedded store.
type BoltConfig struct {
	// The file. Default: fairway/store.db in Caddy's data directory. Placeholders
	// such as {env.NAME} are replaced.
	File string `json:"file,omitempty"`

	// How many records there may be. Default: 1000000. Where that is reached,
	// records that may be dropped go, the first to expire first; others are
	// refused. A changed limit counts from the next start of the process on.
	MaxRecords int `json:"max_records,omitempty"`

	// How many bytes all records may have; the file can be twice as large.
	// Default: 1 GiB.
	MaxSize int64 `json:"max_size,omitempty"`
}

// RedisConfig is the store of several nodes.
type RedisConfig struct {
	// Where it is: redis://[[user]:password@]host[:6379][/database], the same
	// with rediss:// for TLS, or unix://[[user]:password@]/path[?db=number].
	// Placeholders such as {env.REDIS_URL} and {file.PATH} are replaced.
	URL string `json:"url,omitempty"`

	// What the names of all keys begin with. Default: `fairway:`.
	Prefix string `json:"prefix,omitempty"`
}

// stores are shared by successive configurations that name the same, so that a
// reload neither closes nor locks out what is in use.
var stores = caddy.NewUsagePool()

// openRetry is how long a store that could not be opened is not tried again.
const openRetry = time.Second

// sharedStore opens a store when it is first used: never to validate a
// configuration.
type sharedStore struct {
	key    string // in stores
	new    func(store.Options) (store.Store, error)
	logger atomic.Pointer[zap.Logger] // of the configuration that was started last
	opened atomic.Pointer[store.Store]

	mu     sync.Mutex
	closed bool
	failed error
	retry  time.Time // when failed is forgotten
}

// hold returns the configured store, unopened, from the pool; whoever holds it
// calls release once.
func (c *StoreConfig) hold(logger *zap.Logger) (*sharedStore, error) {
	key, open, err := c.prepare()
	if err != nil {
		return nil, err
	}
	value, _, err := stores.LoadOrNew(key, func() (caddy.Destructor, error) {
		s := &sharedStore{key: key, new: open}
		s.logger.Store(logger)
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	return value.(*sharedStore), nil
}

func (s *sharedStore) release() {
	_, _ = stores.Delete(s.key)
}

// prepare returns what tells the store from others, and what opens it.
func (c *StoreConfig) prepare() (key string, open func(store.Options) (store.Store, error), err error) {
	if c == nil || c.Bolt == nil && c.Redis == nil {
		c = &StoreConfig{Bolt: new(BoltConfig)}
	}
	if c.Bolt != nil && c.Redis != nil {
		return "", nil, errors.New("bolt and redis are both given: keep one of them")
	}
	if c.Redis != nil {
		return c.Redis.prepare()
	}
	return c.Bolt.prepare()
}

func (c *BoltConfig) prepare() (key string, open func(store.Options) (store.Store, error), err error) {
	if c.MaxRecords < 0 || c.MaxSize < 0 {
		return "", nil, errors.New("bolt: max_records and max_size are not negative")
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
	limits := store.BoltOptions{MaxRecords: int64(c.MaxRecords), MaxBytes: c.MaxSize}
	return "bolt " + file, func(options store.Options) (store.Store, error) {
		limits := limits
		limits.Options = options
		return store.OpenBolt(file, limits)
	}, nil
}

func (c *RedisConfig) prepare() (key string, open func(store.Options) (store.Store, error), err error) {
	address := caddy.NewReplacer().ReplaceAll(c.URL, "")
	if address == "" {
		return "", nil, errors.New("redis: url is empty, as in: store redis redis://127.0.0.1:6379/0")
	}
	if err := store.CheckRedisAddress(address); err != nil {
		return "", nil, fmt.Errorf("redis: %w", err)
	}
	return "redis " + c.Prefix + " " + address, func(options store.Options) (store.Store, error) {
		return store.OpenRedis(address, store.RedisOptions{Options: options, Prefix: c.Prefix})
	}, nil
}

// open returns the store. While it cannot be opened the error is the answer, and
// it is tried again every openRetry.
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
	case s.failed != nil && time.Now().Before(s.retry):
		return nil, s.failed
	}
	opened, err := s.new(store.Options{Failed: s.tell})
	if err != nil {
		s.logger.Load().Error("the store does not open", zap.Error(err))
		s.failed, s.retry = err, time.Now().Add(openRetry)
		return nil, err
	}
	s.failed = nil
	s.opened.Store(&opened)
	return opened, nil
}

// tell logs what the store could not do for nobody who waits for it.
func (s *sharedStore) tell(err error) {
	s.logger.Load().Error("the store failed", zap.Error(err))
}

// Destruct closes the store when no configuration names it any more.
func (s *sharedStore) Destruct() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if opened := s.opened.Load(); opened != nil {
		return (*opened).Close()
	}
	return nil
}

// OpenStore returns the store of this configuration, which its first use opens.
// It stays open until Cleanup, or longer if another configuration has it too.
func (a *App) OpenStore(ctx context.Context) (store.Store, error) {
	return a.store.open(ctx)
}
