package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app/archive"
	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/keyedhash"
	"github.com/fairwayhq/fairway/tools/result"
)

// The namespace of the guest modules for stores:
//
//	agents.stores.bolt      a file of this node
//	agents.stores.redis     a Redis server that all nodes share: package stores/redis
//	agents.stores.postgres  a Postgres database that all nodes share: package stores/postgres
//
// In JSON, the member storesInlineKey has the name of the module.
const (
	storesNamespace = "agents.stores"
	storesInlineKey = "module"
)

// StoreModule is a guest module of the namespace agents.stores. Provision checks its options. It must not open
// the store: a configuration that is only validated must not touch it.
type StoreModule interface {
	// Key identifies the place of the records, such as the path of a file. Successive configurations whose
	// modules have the same name and key share one open store. The key is not logged. It is called after Provision.
	Key() string

	// Shared reports whether several nodes can use the place at the same time. Then nodes exchange recent calls
	// and the pages of large responses in the store.
	Shared() bool

	// Open opens the store. It is called at the start, or for the default store at its first use, and again after an error. Errors must contain no
	// secrets. It may be called after Cleanup.
	Open(options store.Options) (store.Store, error)
}

// openStores holds the open stores. Successive configurations with the same store share it, so that
// a reload neither closes the store nor waits for its file lock.
var openStores = caddy.NewUsagePool()

// openRetry is the minimum time between attempts to open a store.
const openRetry = time.Second

// sharedStore opens a store at the start, or, if no configuration names it, at its first use. Validating a configuration does not open it.
type sharedStore struct {
	key     string                     // key in the pool openStores
	logger  atomic.Pointer[zap.Logger] // logger of the configuration that was started last
	opened  atomic.Pointer[store.Store]
	inUse   chan struct{}       // closed when the store is open
	named   atomic.Bool         // a configuration names the store, so it counts before its first use
	latest  atomic.Pointer[App] // the app that was started last
	pages   *result.PageKeeper
	bodies  atomic.Pointer[share.Bound]
	calls   *calllog.Log
	archive *archive.Queue
	keys    *keyedhash.SigningKeys // nil if nodes do not share the store

	mu      sync.Mutex
	module  StoreModule // of the configuration that was started last
	closed  bool
	lastErr error
	remove  func()    // ends the export of the use
	retryAt time.Time // when opening is tried again after an error
}

// loadStore loads the module of the configured store. Without one it is a file in Caddy's data directory.
func (a *App) loadStore(ctx caddy.Context) error {
	var loaded any
	var err error
	named := a.StoreRaw != nil // LoadModule clears it
	if !named {
		loaded, err = ctx.LoadModuleByID(storesNamespace+".bolt", nil)
	} else {
		loaded, err = ctx.LoadModule(a, "StoreRaw")
	}
	if err != nil {
		return err
	}
	module, ok := loaded.(StoreModule)
	if !ok {
		return fmt.Errorf("the module %T is not a store", loaded)
	}
	a.storeModule = module
	if a.store, err = acquireStore(module, loaded.(caddy.Module).CaddyModule().ID, a.logger); err == nil && named {
		a.store.named.Store(true)
	}
	return err
}

// acquireStore returns the store of a module from the pool without opening it. The caller must call
// release once.
func acquireStore(module StoreModule, id caddy.ModuleID, logger *zap.Logger) (*sharedStore, error) {
	key := string(id) + " " + module.Key()
	value, _, err := openStores.LoadOrNew(key, func() (caddy.Destructor, error) {
		s := &sharedStore{key: key, module: module, inUse: make(chan struct{})}
		s.calls = calllog.New(nodeName(), s.open, module.Shared())
		s.archive = archive.NewQueue(hostName(), s.open)
		s.pages = result.NewPageKeeper(WarnUse)
		s.bodies.Store(bodyBound(0))
		if module.Shared() {
			s.pages = result.NewSharedPageKeeper(s.open)
			s.keys = keyedhash.NewSigningKeys(s.open)
		}
		s.logger.Store(logger)
		s.remove = metrics.All.ExportUse(s.usage)
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	return value.(*sharedStore), nil
}

// started makes the store use the module, the logger and the options of a configuration that was started.
func (s *sharedStore) started(a *App) {
	s.logger.Store(a.logger)
	if bound := bodyBound(a.MaxBodies); bound.Usage().Limit != s.bodies.Load().Usage().Limit {
		s.bodies.Store(bound) // bodies that are counted by the other one are returned to it
	}
	options := calllog.Options{
		Failed: func(err error) {
			s.logger.Load().Warn("writing calls to the store failed; they are written later, or dropped if there are too many", zap.Error(err))
		},
		Dropped: metrics.All.CallsDropped,
	}
	options.Version, _ = caddy.Version()
	if a.KeptCalls != nil {
		options.Config = *a.KeptCalls
	}
	s.calls.Start(options)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.module = a.storeModule
}

// release gives up the store. The pool closes it after the last release.
func (s *sharedStore) release() {
	_, _ = openStores.Delete(s.key)
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
	opened, err := s.module.Open(store.Options{Failed: s.logBackgroundError, Warn: WarnUse})
	if err != nil {
		if s.lastErr == nil || s.lastErr.Error() != err.Error() { // once for an outage
			s.logger.Load().Error("opening the store failed", zap.Error(err))
		}
		s.lastErr, s.retryAt = err, time.Now().Add(openRetry)
		return nil, err
	}
	s.lastErr = nil
	s.opened.Store(&opened)
	close(s.inUse)
	return opened, nil
}

// logBackgroundError logs an error of the store's background work, which no caller can receive.
func (s *sharedStore) logBackgroundError(err error) {
	s.logger.Load().Error("background write of the store failed", zap.Error(err))
}

// usage returns how much of the store and of the pages is in use.
func (s *sharedStore) usage() []share.Usage {
	all := append(s.pages.Usage(), s.bodies.Load().Usage())
	if opened := s.opened.Load(); opened != nil {
		if measured, ok := (*opened).(store.Measured); ok {
			all = append(all, measured.Usage()...)
		}
	}
	return all
}

// Destruct closes the store. The pool calls it when no configuration uses the store.
func (s *sharedStore) Destruct() error {
	s.calls.Close() // writes what the store does not have yet
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.remove()
	s.pages.Close()
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
func (a *App) Pages() *result.PageKeeper {
	return a.store.pages
}

// Calls returns the log of tool calls. It outlives a reload.
func (a *App) Calls() *calllog.Log {
	return a.store.calls
}

// Usage returns how much of the store and of other limits of this node is in use.
func (a *App) Usage() []share.Usage { return a.store.usage() }

// SigningKeys returns the keys that all nodes of a shared store sign with. It returns nil if nodes do not
// share the store.
func (a *App) SigningKeys() *keyedhash.SigningKeys {
	return a.store.keys
}

// nodeName returns the name of this process among the nodes that share a store: the host, and a random
// suffix, since a host can run several nodes.
func nodeName() string {
	return hostName() + "-" + strings.ToLower(rand.Text()[:4])
}

// hostName returns the name of the host.
func hostName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return text.Cut(host, text.MaxQuoted)
}
