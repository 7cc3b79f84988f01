package archive

import (
	"context"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/caddymodule/stores"
	"github.com/fairwayhq/fairway/internal/audit"
)

func init() {
	site.Register(func() site.Section { return new(section) })
}

// section is the part of the app `agents` that has the archive. It records nothing unless the option audit is set.
type section struct {
	// The archive of the audit: files and webhooks that get guarded calls, reviews, logins, connections, approvals of tools and
	// starts of configurations. Default: none.
	Audit *Config `json:"audit,omitempty"`

	*Archive `json:"-"` // nil without the option
}

// Options implements site.Section.
func (s *section) Options(b *directive.Block) directive.Options {
	return directive.Options{
		"audit": func() error {
			err := b.Once()
			if err == nil {
				s.Audit = new(Config)
				err = s.Audit.UnmarshalCaddyfile(b.Dispenser)
			}
			return err
		},
	}
}

// Provision loads the sinks.
func (s *section) Provision(ctx caddy.Context, a *site.App) error {
	if s.Audit == nil {
		return nil
	}
	records, err := site.Get[*stores.Section](a)
	if err != nil {
		return err
	}
	queue := stores.Keep(records.Handle, func(h *stores.Handle) *Queue { return newQueue(stores.HostName(), h.Open) })
	if s.Archive, err = New(ctx, s.Audit, queue, ctx.Logger()); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	a.OnStarted(func() {
		entry := audit.Entry{Type: audit.TypeConfiguration, Event: "started", Digest: a.Digest()}
		if err := s.Record(context.Background(), entry); err != nil {
			s.logger.Error("the start of the configuration is not in the audit archive", zap.Error(err))
		}
	})
	return registerMetrics(ctx)
}

// IsOn implements site.Recorder.
func (s *section) IsOn() bool { return s.Archive != nil }

// Start begins to deliver entries.
func (s *section) Start() error {
	if s.Archive != nil {
		s.Archive.Start()
	}
	return nil
}

// Stop ends the deliveries.
func (s *section) Stop() { s.Archive.Stop() }

// Interface guards
var (
	_ site.Recorder = (*section)(nil)
	_ site.Starter  = (*section)(nil)
	_ site.Stopper  = (*section)(nil)
)
