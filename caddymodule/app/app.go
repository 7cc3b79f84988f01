package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/bodies"
	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/caddymodule/stores"
	"github.com/fairwayhq/fairway/internal/audit"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/store/keyedhash"
	"github.com/fairwayhq/fairway/tools/result"
)

func init() {
	site.Register(func() site.Section { return new(App) })
}

// App is the part of the app `agents` that has the toolsets and the documents that they are built from. A reload keeps documents
// loaded if the new configuration uses them unchanged.
type App struct {
	// Toolsets by name. A handler refers to its toolset by this name. Default: none.
	Toolsets map[string]*ToolsetConfig `json:"toolsets,omitempty"`

	// Metrics that say who calls tools: fairway_caller_*. Default: none.
	CallerMetrics *metrics.Callers `json:"caller_metrics,omitempty"`

	Site            *site.App `json:"-"`
	*stores.Section `json:"-"`
	Bodies          *bodies.Section `json:"-"`

	// Pages keeps the pages of large responses: in the store, if it is one that nodes share, otherwise in memory that outlives a reload.
	Pages *result.PageKeeper `json:"-"`

	logger         *zap.Logger
	ToolsetsByName map[string]*Toolset `json:"-"`
	OpenDocuments  []*Document         `json:"-"` // closed by Cleanup, once for each entry
	inlineToolsets int                 // toolsets that handlers define themselves
	recorder       audit.Recorder      // nil without an archive

	served    []servedToolset // toolsets of handlers, in the order in which they are provisioned
	accounts  []siteAccounts  // of the directive agent_connections
	connected []func(user, provider string)

	// Providers are the third parties where users have accounts, by name. It is complete once all handlers are provisioned.
	Providers map[string]credential.Personal `json:"-"`
}

// Of returns the toolsets of the configuration that is being provisioned.
func Of(ctx caddy.Context) (*App, error) { return site.SectionOf[*App](ctx) }

// Provision opens the named toolsets. A document file must exist and be valid, unless the process starts. Documents given
// as a URL or as a path on the site are not fetched until Start.
func (a *App) Provision(ctx caddy.Context, shared *site.App) (err error) {
	a.Site, a.logger = shared, ctx.Logger()
	a.ToolsetsByName, a.Providers = make(map[string]*Toolset, len(a.Toolsets)), make(map[string]credential.Personal)
	if a.Section, err = site.Get[*stores.Section](shared); err != nil {
		return err
	}
	a.Pages = stores.Keep(a.Handle, newPages)
	if a.Bodies, err = site.Get[*bodies.Section](shared); err != nil {
		return err
	}
	if a.recorder, err = site.RecorderOf(shared); err != nil {
		return err
	}
	shared.AddCheck("documents", a.checkDocuments)
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
func (a *App) open(ctx caddy.Context, config *ToolsetConfig, name, siteID string) (*Toolset, error) {
	uploads, ok, err := site.Find[interface{ TakesUploads() bool }](a.Site)
	if err != nil {
		return nil, err
	}
	config.Uploads = ok && uploads.TakesUploads()
	t, err := config.open(ctx, name, siteID, a.logger)
	if err != nil {
		if name != "" && !strings.HasPrefix(err.Error(), "toolset ") {
			err = fmt.Errorf("toolset %q: %w", name, err)
		}
		return nil, err
	}
	a.OpenDocuments = append(a.OpenDocuments, t.Document)
	return t, a.addProviders(t)
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

// newPages returns what keeps the pages of large responses.
func newPages(h *stores.Handle) *result.PageKeeper {
	if h.Shared() {
		return result.NewSharedPageKeeper(h.Open)
	}
	return result.NewPageKeeper(site.WarnUse)
}

// SigningKeys returns the keys that all nodes of a shared store sign with. It returns nil if nodes do not
// share the store.
func (a *App) SigningKeys() *keyedhash.SigningKeys {
	if !a.Shared() {
		return nil
	}
	return stores.Keep(a.Handle, func(h *stores.Handle) *keyedhash.SigningKeys { return keyedhash.NewSigningKeys(h.Open) })
}

// Usage returns how much of the store and of other limits of this node is in use.
func (a *App) Usage() []share.Usage { return append(a.Handle.Usage(), a.Bodies.Usage()...) }

// checkDocuments returns an error if a document is not loaded. A document that a site serves itself does not count:
// requests load it.
func (a *App) checkDocuments(context.Context) error {
	for _, d := range a.OpenDocuments {
		if !d.FromSite && d.Loader.Toolset() == nil {
			return fmt.Errorf("the document of toolset %q is not loaded", d.Key.ShownName())
		}
	}
	return nil
}

// Start begins to load and watch the documents.
func (a *App) Start() error {
	for _, d := range a.OpenDocuments {
		d.recorder.Store(&a.recorder)
		if err := d.start(a); err != nil {
			return err
		}
	}
	return nil
}

// Cleanup releases the documents. Those that no other configuration uses are closed. Documents go on when the
// configuration stops, because the next one may use them.
func (a *App) Cleanup() error {
	for _, d := range a.OpenDocuments {
		closeDocument(d.Key)
	}
	return nil
}

// Interface guard
var _ site.Starter = (*App)(nil)
