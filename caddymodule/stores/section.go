// Package stores has the handle of the store of a configuration, and the module of the default store.
//
// Section (section.go) is the part of the app `agents` that has the option store. Handle (handle.go) opens the store at its first
// use, and keeps what must live as long as the store, over reloads. Users (users.go) finds the data about users in it. The modules
// of other stores are packages redis and postgres below this one.
package stores

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/store"
)

func init() {
	site.Register(func() site.Section { return new(Section) })
}

// Section has the store of a configuration.
type Section struct {
	// The store for data that must outlive a request and a restart. It is opened at the start; the default store at its first use.
	// Default: bolt, with a file in Caddy's data directory.
	StoreRaw json.RawMessage `json:"store,omitempty" caddy:"namespace=agents.stores inline_key=module"`

	*Handle `json:"-"`
	Users   users `json:"-"`

	module StoreModule
	logger *zap.Logger
	ended  <-chan struct{}
}

// Options implements site.Section.
func (s *Section) Options(b *directive.Block) directive.Options {
	return directive.Options{
		"store": func() error {
			err := b.Once()
			if err == nil {
				s.StoreRaw, err = b.Guest(storesNamespace, storesInlineKey)
			}
			return err
		},
	}
}

// Provision loads the module of the store. Without the option it is a file in Caddy's data directory.
func (s *Section) Provision(ctx caddy.Context, a *site.App) error {
	s.logger, s.ended = ctx.Logger(), a.Ended()
	if err := metrics.All.Register(ctx.GetMetricsRegistry()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	var loaded any
	var err error
	named := s.StoreRaw != nil // LoadModule clears it
	if !named {
		loaded, err = ctx.LoadModuleByID(storesNamespace+".bolt", nil)
	} else {
		loaded, err = ctx.LoadModule(s, "StoreRaw")
	}
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	module, ok := loaded.(StoreModule)
	if !ok {
		return fmt.Errorf("store: the module %T is not a store", loaded)
	}
	s.module = module
	if s.Handle, err = acquireStore(module, loaded.(caddy.Module).CaddyModule().ID, s.logger); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if named {
		s.named.Store(true)
	}
	s.Users.open = s.OpenStore
	a.AddCheck("store", s.check)
	return nil
}

// Start implements site.Starter.
func (s *Section) Start() error {
	s.started(s.module, s.logger)
	stored.OnUnreadable(reportUnreadable(s.logger))
	if s.named.Load() {
		go s.reportUnreachable(s.ended)
	}
	return nil
}

// reportUnreadable returns a function that logs and counts records that cannot be read. They may be read for each request, so it
// logs a few a minute.
func reportUnreadable(logger *zap.Logger) func(kind, key string, err error) {
	logger = logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Minute, 5, 0)
	}))
	return func(kind, key string, err error) {
		metrics.All.Unreadable(kind)
		logger.Error("a record in the store cannot be read", zap.String("kind", kind), zap.String("key", key), zap.Error(err))
	}
}

// Cleanup gives up the store. It closes unless another configuration uses it.
func (s *Section) Cleanup() error {
	if s.Handle != nil {
		s.release()
	}
	return nil
}

// OpenStore returns the store of this configuration and opens it at the first call. The store
// stays open until Cleanup, or longer if another configuration uses it.
func (s *Section) OpenStore(ctx context.Context) (store.Store, error) { return s.Open(ctx) }

// HostName returns the name of the host, for names of nodes.
func HostName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	return text.Cut(host, text.MaxQuoted)
}
