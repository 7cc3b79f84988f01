package agents

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/otcadapter"
)

func init() {
	caddy.RegisterModule(new(App))
}

// App is the Caddy app that owns what Fairway's handlers share: the toolsets,
// the documents they are made of, and the store. Documents stay loaded and the
// store open over reloads of the configuration that do not change them.
type App struct {
	// Toolsets by name. Handlers name the one they offer.
	Toolsets map[string]*ToolsetConfig `json:"toolsets,omitempty"`

	// Where handlers keep what must outlive a request. It is opened at its first
	// use. Default: a file in Caddy's data directory.
	Store *StoreConfig `json:"store,omitempty"`

	logger *zap.Logger
	Named  map[string]*Toolset `json:"-"`
	Held   []*Document         `json:"-"` // closed by Cleanup, once for each entry
	inline int                 // toolsets that handlers define themselves
	store  *sharedStore

	GuardHandlers []GuardHandler `json:"-"` // in the order in which they are provisioned
	offered       []offer        // toolsets of handlers, likewise
	Bound         []*Binding     `json:"-"` // endpoints of agents
	started       atomic.Bool    // nothing of these changes any more
	guards        sharedGuards
	Callers       otcadapter.CallerHashes `json:"-"` // of callers whom no site has authenticated
	Pace          AskPace                 `json:"-"`

	shared sync.Map // see share

	events *eventEmitter // nil as long as no guard is configured
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "agents",
		New: func() caddy.Module { return new(App) },
	}
}

// Provision opens the named toolsets. A document that is a file must be there and
// be good; others are not contacted.
func (a *App) Provision(ctx caddy.Context) error {
	a.logger = ctx.Logger()
	a.Pace = defaultPace()
	a.Named = make(map[string]*Toolset, len(a.Toolsets))
	if err := AllMetrics.register(ctx.GetMetricsRegistry()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	var err error
	if a.store, err = a.Store.hold(a.logger); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Toolsets)) {
		if name == "" || a.Toolsets[name] == nil {
			return fmt.Errorf("toolset %q: a toolset needs a name and an OpenAPI document", name)
		}
		t, err := a.open(ctx, a.Toolsets[name], name, "")
		if err != nil {
			return err
		}
		a.Named[name] = t
	}
	return nil
}

// open opens a toolset and holds its document until Cleanup.
func (a *App) open(ctx caddy.Context, config *ToolsetConfig, name, site string) (*Toolset, error) {
	t, err := config.open(ctx, name, site, a.logger)
	if err != nil {
		if name != "" && !strings.HasPrefix(err.Error(), "toolset ") {
			err = fmt.Errorf("toolset %q: %w", name, err)
		}
		return nil, err
	}
	a.Held = append(a.Held, t.Document)
	return t, nil
}

// Share returns what the handlers of one configuration share under a key, which the
// first of them makes.
func Share[T any](a *App, key any, make func() T) T {
	if value, ok := a.shared.Load(key); ok {
		return value.(T)
	}
	value, _ := a.shared.LoadOrStore(key, make())
	return value.(T)
}

// Toolset returns the toolset of that name.
func (a *App) Toolset(name string) (*Toolset, bool) {
	t, ok := a.Named[name]
	return t, ok
}

// Names lists the toolsets, for messages.
func (a *App) Names() string {
	if len(a.Named) == 0 {
		return "there are none"
	}
	return "there are: " + strings.Join(slices.Sorted(maps.Keys(a.Named)), ", ")
}

// Define opens the toolset that a handler defines itself. Handlers that define
// the same share it, except where the document is one of the site: then each has
// its own, as the same path is another document on another site.
func (a *App) Define(ctx caddy.Context, config *ToolsetConfig) (*Toolset, error) {
	a.inline++
	return a.open(ctx, config, "", fmt.Sprintf("%p/%s", a, strconv.Itoa(a.inline)))
}

// Describe returns the toolset that was named, from now on with the schemas of the
// tools' answers if a handler asks for them.
func (a *App) Describe(ctx caddy.Context, named *Toolset, answers bool) (*Toolset, error) {
	if !answers {
		return named, nil
	}
	named.describe()
	return named, named.load(ctx)
}

// Start begins to load and watch the documents.
func (a *App) Start() error {
	a.store.logger.Store(a.logger)
	for _, d := range a.Held {
		d.start(a.logger)
	}
	if err := a.checkBound(); err != nil {
		return err // and Stop is not called
	}
	for _, h := range a.GuardHandlers {
		h.StartAsking()
	}
	return nil
}

// Stop leaves the documents as they are: the next configuration may use them. What
// agents are being asked is broken off, while the store is still open.
func (a *App) Stop() error {
	for _, h := range a.GuardHandlers {
		h.StopAsking()
	}
	return nil
}

// Cleanup gives the documents and the store up. What no other configuration uses
// stops.
func (a *App) Cleanup() error {
	a.events.close()
	if a.store != nil {
		a.store.release()
	}
	for _, d := range a.Held {
		closeDocument(d.Key)
	}
	a.Held = nil
	return nil
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
