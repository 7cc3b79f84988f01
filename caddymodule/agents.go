package caddymodule

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
	caddy.RegisterModule(new(Agents))
}

// Agents is the Caddy app that owns what Fairway's handlers share: the toolsets,
// the documents they are made of, and the store. Documents stay loaded and the
// store open over reloads of the configuration that do not change them.
type Agents struct {
	// Toolsets by name. Handlers name the one they offer.
	Toolsets map[string]*ToolsetConfig `json:"toolsets,omitempty"`

	// Where handlers keep what must outlive a request. It is opened at its first
	// use. Default: a file in Caddy's data directory.
	Store *StoreConfig `json:"store,omitempty"`

	logger *zap.Logger
	named  map[string]*toolset
	held   []*document // closed by Cleanup, once for each entry
	inline int         // toolsets that handlers define themselves
	store  *sharedStore

	guardHandlers []guardHandler // in the order in which they are provisioned
	offered       []offer        // toolsets of handlers, likewise
	bound         []*binding     // endpoints of agents
	started       atomic.Bool    // nothing of these changes any more
	guards        sharedGuards
	callers       otcadapter.CallerHashes // of callers whom no site has authenticated
	pace          askPace

	shared sync.Map // see share

	events *eventEmitter // nil as long as no guard is configured
}

// CaddyModule returns the Caddy module information.
func (*Agents) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "agents",
		New: func() caddy.Module { return new(Agents) },
	}
}

// Provision opens the named toolsets. A document that is a file must be there and
// be good; others are not contacted.
func (a *Agents) Provision(ctx caddy.Context) error {
	a.logger = ctx.Logger()
	a.pace = defaultPace()
	a.named = make(map[string]*toolset, len(a.Toolsets))
	if err := collected.register(ctx.GetMetricsRegistry()); err != nil {
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
		a.named[name] = t
	}
	return nil
}

// open opens a toolset and holds its document until Cleanup.
func (a *Agents) open(ctx caddy.Context, config *ToolsetConfig, name, site string) (*toolset, error) {
	t, err := config.open(ctx, name, site, a.logger)
	if err != nil {
		if name != "" && !strings.HasPrefix(err.Error(), "toolset ") {
			err = fmt.Errorf("toolset %q: %w", name, err)
		}
		return nil, err
	}
	a.held = append(a.held, t.document)
	return t, nil
}

// share returns what the handlers of one configuration share under a key, which the
// first of them makes.
func share[T any](a *Agents, key any, make func() T) T {
	if value, ok := a.shared.Load(key); ok {
		return value.(T)
	}
	value, _ := a.shared.LoadOrStore(key, make())
	return value.(T)
}

// toolset returns the toolset of that name.
func (a *Agents) toolset(name string) (*toolset, bool) {
	t, ok := a.named[name]
	return t, ok
}

// names lists the toolsets, for messages.
func (a *Agents) names() string {
	if len(a.named) == 0 {
		return "there are none"
	}
	return "there are: " + strings.Join(slices.Sorted(maps.Keys(a.named)), ", ")
}

// define opens the toolset that a handler defines itself. Handlers that define
// the same share it, except where the document is one of the site: then each has
// its own, as the same path is another document on another site.
func (a *Agents) define(ctx caddy.Context, config *ToolsetConfig) (*toolset, error) {
	a.inline++
	return a.open(ctx, config, "", fmt.Sprintf("%p/%s", a, strconv.Itoa(a.inline)))
}

// described returns the toolset that was named, from now on with the schemas of the
// tools' answers if a handler asks for them.
func (a *Agents) described(ctx caddy.Context, named *toolset, answers bool) (*toolset, error) {
	if !answers {
		return named, nil
	}
	named.describe()
	return named, named.load(ctx)
}

// Start begins to load and watch the documents.
func (a *Agents) Start() error {
	a.store.logger.Store(a.logger)
	for _, d := range a.held {
		d.start(a.logger)
	}
	if err := a.checkBound(); err != nil {
		return err // and Stop is not called
	}
	for _, h := range a.guardHandlers {
		h.StartAsking()
	}
	return nil
}

// Stop leaves the documents as they are: the next configuration may use them. What
// agents are being asked is broken off, while the store is still open.
func (a *Agents) Stop() error {
	for _, h := range a.guardHandlers {
		h.StopAsking()
	}
	return nil
}

// Cleanup gives the documents and the store up. What no other configuration uses
// stops.
func (a *Agents) Cleanup() error {
	a.events.close()
	if a.store != nil {
		a.store.release()
	}
	for _, d := range a.held {
		closeDocument(d.key)
	}
	a.held = nil
	return nil
}

// Interface guards
var (
	_ caddy.App          = (*Agents)(nil)
	_ caddy.Provisioner  = (*Agents)(nil)
	_ caddy.CleanerUpper = (*Agents)(nil)
)
