package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app/archive"
	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
	"github.com/fairwayhq/fairway/store/keyedhash"
)

func init() {
	caddy.RegisterModule(new(App))
}

// App is the Caddy app `agents`. It owns what Fairway's handlers share: the toolsets, the
// documents that the toolsets are built from, and the store. A reload keeps documents loaded
// and the store open if the new configuration uses them unchanged.
type App struct {
	// Toolsets by name. A handler refers to its toolset by this name. Default: none.
	Toolsets map[string]*ToolsetConfig `json:"toolsets,omitempty"`

	// The store for data that must outlive a request and a restart. It is opened at the start; the default store at its first use.
	// Default: bolt, with a file in Caddy's data directory.
	StoreRaw json.RawMessage `json:"store,omitempty" caddy:"namespace=agents.stores inline_key=module"`

	// Which tool calls are kept, for the console and for `caddy agents calls`. Default: all, for 7 days.
	KeptCalls *calllog.Config `json:"calls,omitempty"`

	// The archive of the audit: files and webhooks that get guarded calls, reviews, logins, connections, approvals of tools and
	// starts of configurations. Default: none.
	Audit *archive.Config `json:"audit,omitempty"`

	// Allows the store to evict Engagements in which every call was refused, to make room for others. Default: false, they
	// are kept until they expire.
	EvictRefusedEngagements bool `json:"evict_refused_engagements,omitempty"`

	// The largest total size of the request bodies in memory, in bytes. Above three quarters of it, users and networks have
	// shares of the rest. Bodies of up to 16 KiB do not count. Default: an eighth of the memory limit, at least 64 MiB.
	MaxBodies int64 `json:"max_bodies,omitempty"`

	// Metrics that say who calls tools: fairway_caller_*. Default: none.
	CallerMetrics *metrics.Callers `json:"caller_metrics,omitempty"`

	logger         *zap.Logger
	ToolsetsByName map[string]*Toolset `json:"-"`
	OpenDocuments  []*Document         `json:"-"` // closed by Cleanup, once for each entry
	inlineToolsets int                 // toolsets that handlers define themselves
	store          *sharedStore
	storeModule    StoreModule

	GuardHandlers  []GuardHandler   `json:"-"` // in the order in which they are provisioned
	served         []servedToolset  // toolsets of handlers, in the order in which they are provisioned
	AgentEndpoints []*AgentEndpoint `json:"-"` // endpoints that are limited to one agent
	publicHealth   []publicHealth   // of endpoints
	logins         []siteLogin      // of the directive agent_login
	Resources      Resources        `json:"-"` // of the directive agent_auth
	accounts       []siteAccounts   // of the directive agent_connections
	connected      []func(user, provider string)
	pages          []sitePages      // whose users these logins log in
	exposed        []*ExposedAgents // of endpoints that serve agents as tools
	started        atomic.Bool      // set once all handlers are provisioned; GuardHandlers, served and AgentEndpoints are read-only from then on
	ready          chan struct{}    // closed at the end of Start, see AwaitStart
	ended          <-chan struct{}  // closed when the configuration ends
	sharedGuards   guardPool
	CallerHashes   keyedhash.Callers `json:"-"` // hashes of the credentials of callers that no site authenticates
	ReviewPace     ReviewPace        `json:"-"`

	// Providers are the third parties where users have accounts, by name. It is complete once all handlers are provisioned.
	Providers map[string]credential.Personal `json:"-"`

	shared sync.Map // see Share

	Bodies Bodies `json:"-"`

	Auditor Auditor `json:"-"`
	Users   Users   `json:"-"`

	events *eventEmitter // nil if no guard is configured
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "agents",
		New: func() caddy.Module { return new(App) },
	}
}

// Provision opens the named toolsets. A document file must exist and be valid, unless the process starts. Documents given
// as a URL or as a path on the site are not fetched until Start.
func (a *App) Provision(ctx caddy.Context) error {
	a.logger, a.ready, a.ended = ctx.Logger(), make(chan struct{}), ctx.Done()
	a.ReviewPace = defaultReviewPace()
	a.ToolsetsByName, a.Providers = make(map[string]*Toolset, len(a.Toolsets)), make(map[string]credential.Personal)
	if err := metrics.All.Register(ctx.GetMetricsRegistry()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	if err := directive.NotNegative("max_bodies", a.MaxBodies); err != nil {
		return err
	}
	if err := a.KeptCalls.Validate(); err != nil {
		return fmt.Errorf("calls: %w", err)
	}
	if err := a.loadStore(ctx); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	a.Users.open, a.Bodies.store = a.OpenStore, a.store
	if err := a.Auditor.provision(ctx, a); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(a.Toolsets)) {
		if name == "" || a.Toolsets[name] == nil {
			return fmt.Errorf("toolset %q has no name or no OpenAPI document", name)
		}
		t, err := a.open(ctx, a.Toolsets[name], name, "")
		if err != nil {
			return err
		}
		a.ToolsetsByName[name] = t
	}
	return nil
}

// open opens a toolset and keeps a reference to its document until Cleanup.
func (a *App) open(ctx caddy.Context, config *ToolsetConfig, name, site string) (*Toolset, error) {
	t, err := config.open(ctx, name, site, a.logger)
	if err != nil {
		if name != "" && !strings.HasPrefix(err.Error(), "toolset ") {
			err = fmt.Errorf("toolset %q: %w", name, err)
		}
		return nil, err
	}
	a.OpenDocuments = append(a.OpenDocuments, t.Document)
	return t, a.addProviders(t)
}

// Share returns the value that the handlers of one configuration share under key. The first
// handler that calls Share creates the value.
func Share[T any](a *App, key any, make func() T) T {
	if value, ok := a.shared.Load(key); ok {
		return value.(T)
	}
	value, _ := a.shared.LoadOrStore(key, make())
	return value.(T)
}

// Toolset returns the toolset with the given name.
func (a *App) Toolset(name string) (*Toolset, bool) {
	t, ok := a.ToolsetsByName[name]
	return t, ok
}

// ListNames returns the end of an error message that lists the configured toolsets.
func (a *App) ListNames() string {
	if len(a.ToolsetsByName) == 0 {
		return "there are none"
	}
	return "there are: " + strings.Join(slices.Sorted(maps.Keys(a.ToolsetsByName)), ", ")
}

// OpenInline opens a toolset that is configured inside a handler. Handlers with equal options share
// the document. Exception: if the document is a path on the site, each handler has its own,
// because the same path is a different document on another site.
func (a *App) OpenInline(ctx caddy.Context, config *ToolsetConfig) (*Toolset, error) {
	a.inlineToolsets++
	return a.open(ctx, config, "", fmt.Sprintf("%p/%s", a, strconv.Itoa(a.inlineToolsets)))
}

// Start begins to load and watch the documents.
func (a *App) Start() error {
	a.store.started(a)
	a.Users.Add("calls", calllog.UserData{Log: a.store.calls})
	if a.store.named.Load() {
		go a.store.reportUnreachable(a.ended)
	}
	for _, d := range a.OpenDocuments {
		d.archive.Store(&a.Auditor.archive)
		if err := d.start(a); err != nil {
			return err
		}
	}
	if err := CheckAgents(a); err != nil {
		return err // Caddy does not call Stop after a failed Start
	}
	a.started.Store(true)
	if err := loadExposed(a); err != nil {
		return err
	}
	for i, h := range a.GuardHandlers {
		if err := h.StartWork(); err != nil {
			for _, started := range a.GuardHandlers[:i+1] { // the last one may have started in part
				started.StopWork()
			}
			return err
		}
	}
	a.Auditor.start()
	a.store.latest.Store(a)
	close(a.ready)
	return nil
}

// errEnded is the error of AwaitStart if the configuration has ended.
var errEnded = errors.New("the configuration has ended before its start")

// AwaitStart waits until the app has started. Caddy starts apps in random order, so requests may arrive
// before. It returns an error if ctx or the configuration ends first.
func (a *App) AwaitStart(ctx context.Context) error {
	select {
	case <-a.ready:
		return nil
	default:
	}
	select {
	case <-a.ready:
		return nil
	case <-a.ended:
		return errEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stop ends the work of the guard handlers while the store is still open. It does not
// stop the documents, because the next configuration may use them.
func (a *App) Stop() error {
	for _, h := range a.GuardHandlers {
		h.StopWork()
	}
	a.Auditor.Archive().Stop()
	return nil
}

// Cleanup releases the documents and the store. Those that no other configuration uses are
// closed.
func (a *App) Cleanup() error {
	a.events.close()
	closeExposed(a)
	if a.store != nil {
		a.store.release()
	}
	for _, d := range a.OpenDocuments {
		closeDocument(d.Key)
	}
	return nil
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
