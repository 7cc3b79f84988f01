package stores

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/store"
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

// Handle opens a store at the start, or, if no configuration names it, at its first use. Validating a configuration does not open it. It outlives a reload that does not
// change the store.
type Handle struct {
	key    string                     // key in the pool openStores
	shared bool                       // see StoreModule.Shared
	logger atomic.Pointer[zap.Logger] // logger of the configuration that was started last
	opened atomic.Pointer[store.Store]
	inUse  chan struct{} // closed when the store is open
	named  atomic.Bool   // a configuration names the store, so it counts before its first use

	keeping sync.Mutex
	kept    map[reflect.Type]any // see Keep

	mu      sync.Mutex
	module  StoreModule // of the configuration that was started last
	closed  bool
	lastErr error
	remove  func()    // ends the export of the use
	retryAt time.Time // when opening is tried again after an error
}

// Keep returns the value of type T that lives as long as the handle, for what must outlive a reload. The first call creates it. If T
// has the method Close, it is called before the store closes. If it has the method Usage() []share.Usage, its use is exported.
func Keep[T any](h *Handle, create func(*Handle) T) T {
	h.keeping.Lock()
	defer h.keeping.Unlock()
	key := reflect.TypeFor[T]()
	if value, ok := h.kept[key]; ok {
		return value.(T)
	}
	value := create(h)
	h.kept[key] = value
	return value
}

// acquireStore returns the store of a module from the pool without opening it. The caller must call
// release once.
func acquireStore(module StoreModule, id caddy.ModuleID, logger *zap.Logger) (*Handle, error) {
	key := string(id) + " " + module.Key()
	value, _, err := openStores.LoadOrNew(key, func() (caddy.Destructor, error) {
		h := &Handle{key: key, shared: module.Shared(), module: module, inUse: make(chan struct{}), kept: make(map[reflect.Type]any)}
		h.logger.Store(logger)
		h.remove = metrics.All.ExportUse(h.Usage)
		return h, nil
	})
	if err != nil {
		return nil, err
	}
	return value.(*Handle), nil
}

// started makes the store use the module and the logger of a configuration that was started.
func (h *Handle) started(module StoreModule, logger *zap.Logger) {
	h.logger.Store(logger)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.module = module
}

// Shared reports whether several nodes use the store.
func (h *Handle) Shared() bool { return h.shared }

// InUse is closed when the store is open.
func (h *Handle) InUse() <-chan struct{} { return h.inUse }

// release gives up the store. The pool closes it after the last release.
func (h *Handle) release() {
	_, _ = openStores.Delete(h.key)
}

// Open returns the store and opens it if necessary. After a failure it returns the same error
// until openRetry has passed.
func (h *Handle) Open(ctx context.Context) (store.Store, error) {
	if opened := h.opened.Load(); opened != nil {
		return *opened, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch opened := h.opened.Load(); {
	case opened != nil:
		return *opened, nil
	case h.closed:
		return nil, store.ErrClosed
	case h.lastErr != nil && time.Now().Before(h.retryAt):
		return nil, h.lastErr
	}
	opened, err := h.module.Open(store.Options{Failed: h.logBackgroundError, Warn: site.WarnUse})
	if err != nil {
		if h.lastErr == nil || h.lastErr.Error() != err.Error() { // once for an outage
			h.logger.Load().Error("opening the store failed", zap.Error(err))
		}
		h.lastErr, h.retryAt = err, time.Now().Add(openRetry)
		return nil, err
	}
	h.lastErr = nil
	h.opened.Store(&opened)
	close(h.inUse)
	return opened, nil
}

// logBackgroundError logs an error of the store's background work, which no caller can receive.
func (h *Handle) logBackgroundError(err error) {
	h.logger.Load().Error("background write of the store failed", zap.Error(err))
}

// Usage returns how much of the store, and of the data beside it, is in use.
func (h *Handle) Usage() []share.Usage {
	all := keptAs(h, func(m measured) []share.Usage { return m.Usage() })
	if opened := h.opened.Load(); opened != nil {
		if measured, ok := (*opened).(store.Measured); ok {
			all = append(all, measured.Usage()...)
		}
	}
	return all
}

// Destruct closes the store. The pool calls it when no configuration uses the store.
func (h *Handle) Destruct() error {
	for _, c := range keptAs(h, func(c closer) []closer { return []closer{c} }) {
		c.Close() // may write what the store does not have yet
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.remove()
	if opened := h.opened.Load(); opened != nil {
		return (*opened).Close()
	}
	return nil
}

type (
	closer   interface{ Close() }
	measured interface{ Usage() []share.Usage }
)

// keptAs returns what get returns for each kept value that is an I.
func keptAs[I, R any](h *Handle, get func(I) []R) (all []R) {
	h.keeping.Lock()
	defer h.keeping.Unlock()
	for _, value := range h.kept {
		if of, ok := value.(I); ok {
			all = append(all, get(of)...)
		}
	}
	return all
}
