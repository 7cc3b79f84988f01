// Package calls keeps tool calls, for the console and for `caddy agents calls`. It is the part of the app `agents` that has the
// option calls.
package calls

import (
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/caddymodule/stores"
)

func init() {
	site.Register(func() site.Section { return new(Section) })
}

// Section has the log of tool calls, which outlives a reload.
type Section struct {
	// Which tool calls are kept, for the console and for `caddy agents calls`. Default: all, for 7 days.
	KeptCalls *calllog.Config `json:"calls,omitempty"`

	*calllog.Log `json:"-"`

	logger *zap.Logger
}

// Options implements site.Section.
func (s *Section) Options(b *directive.Block) directive.Options {
	return directive.Options{
		"calls": func() error {
			if s.KeptCalls == nil {
				s.KeptCalls = new(calllog.Config)
			}
			return s.KeptCalls.Unmarshal(b)
		},
	}
}

// Provision checks the options.
func (s *Section) Provision(ctx caddy.Context, a *site.App) error {
	s.logger = ctx.Logger()
	if err := s.KeptCalls.Validate(); err != nil {
		return fmt.Errorf("calls: %w", err)
	}
	records, err := site.Get[*stores.Section](a)
	if err != nil {
		return err
	}
	s.Log = stores.Keep(records.Handle, func(h *stores.Handle) *calllog.Log { return calllog.New(nodeName(), h.Open, h.Shared()) })
	records.Users.Add("calls", calllog.UserData{Log: s.Log})
	return nil
}

// Start makes the log use the options.
func (s *Section) Start() error {
	options := calllog.Options{
		Failed: func(err error) {
			s.logger.Warn("writing calls to the store failed; they are written later, or dropped if there are too many", zap.Error(err))
		},
		Dropped: metrics.All.CallsDropped,
	}
	options.Version, _ = caddy.Version()
	if s.KeptCalls != nil {
		options.Config = *s.KeptCalls
	}
	s.Log.Start(options)
	return nil
}

// nodeName returns the name of this process among the nodes that share a store: the host, and a random
// suffix, since a host can run several nodes.
func nodeName() string {
	return stores.HostName() + "-" + strings.ToLower(rand.Text()[:4])
}

// Interface guard
var _ site.Starter = (*Section)(nil)
