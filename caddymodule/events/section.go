// Package events is the directive `agent_events`, which receives the webhooks of an API. The package
// github.com/fairwayhq/fairway/events keeps them.
//
//   - Handler (handler.go) verifies a request, and stores its events before it responds.
//   - Source (source.go) has the events of a toolset: their types (event_types.go), which users may see them (audience.go), and what they get. The Section has
//     all sources, for the endpoints that serve events.
//   - A starter (start.go) starts hosted agents for events.
//   - An overview (operator.go) is what operators see of a source.
package events

import (
	"context"
	"fmt"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/events/serve"
	"github.com/fairwayhq/fairway/internal/audit"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/tools/result"
)

func init() {
	site.Register(func() site.Section { return new(Section) })
}

// Section is the part of the app `agents` with the sources of events.
type Section struct {
	app      *app.App
	agents   agentStarter // nil if no hosted agents are linked
	sources  map[string]*Source
	atStart  []func() error
	requests *share.Bound   // in progress
	memory   *result.Memory // of select
	recorder audit.Recorder // nil without an archive
}

// Options implements site.Section.
func (*Section) Options(*directive.Block) directive.Options { return nil }

// Provision implements site.Section.
func (s *Section) Provision(ctx caddy.Context, a *site.App) (err error) {
	s.sources = make(map[string]*Source)
	s.requests = share.NewBound(share.Options{Name: "webhooks in progress", Limit: maxRequests, Warn: site.WarnUse})
	s.memory = result.NewMemory(site.WarnUse)
	if s.app, err = site.Get[*app.App](a); err != nil {
		return err
	}
	if s.recorder, err = site.RecorderOf(a); err != nil {
		return err
	}
	if s.agents, _, err = site.Find[agentStarter](a); err != nil {
		return err
	}
	return directive.RegisterMetrics(ctx.GetMetricsRegistry(), received)
}

// Source returns the source of the events of a toolset. Sources are complete when the handlers are provisioned.
func (s *Section) Source(toolset string) (*Source, bool) {
	source, ok := s.sources[toolset]
	return source, ok
}

// AtStart adds a function that Start calls, to serve the events of a source.
func (s *Section) AtStart(begin func() error) { s.atStart = append(s.atStart, begin) }

// Serve adds a server that delivers the events of a source. Stop stops it.
func (s *Section) Serve(source string, with *serve.Server) {
	s.sources[source].servers = append(s.sources[source].servers, with)
}

// Start begins to start agents, and to serve events.
func (s *Section) Start() error {
	for _, source := range s.sources {
		if err := s.check(source); err != nil {
			return fmt.Errorf("agent_events %s: %w", source.name, err)
		}
	}
	for _, begin := range s.atStart {
		if err := begin(); err != nil {
			return err
		}
	}
	for _, source := range s.sources {
		source.starter.start()
	}
	return nil
}

// Stop ends it.
func (s *Section) Stop() {
	for _, source := range s.sources {
		source.starter.worker.Stop()
		for _, server := range source.servers {
			server.Stop()
		}
	}
}

// Cleanup implements caddy.CleanerUpper.
func (s *Section) Cleanup() error {
	for _, source := range s.sources {
		source.cancel()
	}
	return nil
}

// archive records entries about events of a source.
func (s *Section) archive(ctx context.Context, source string, entries ...audit.Entry) error {
	if s.recorder == nil {
		return nil
	}
	if err := s.recorder.Ready(ctx); err != nil {
		return err
	}
	for i := range entries {
		entries[i].Type, entries[i].Toolset = audit.TypeEvent, source
	}
	return s.recorder.Record(ctx, entries...)
}

// ArchiveDelivery records a delivery.
func (s *Section) ArchiveDelivery(ctx context.Context, source string, d *serve.Delivery) error {
	what := map[string]string{"poll": "polled", "push": "pushed", "webhook": "delivered"}[d.Mode]
	if d.Failed {
		what = "given_up"
	}
	entries := make([]audit.Entry, len(d.IDs))
	for i, id := range d.IDs {
		entries[i] = audit.Entry{Event: what, User: d.User, Name: d.Event, EventID: id}
	}
	return s.archive(ctx, source, entries...)
}

// received counts requests to agent_events by their result, and events that were stored.
var received = directive.Counter("events_received_total", "Events of webhooks, and refused requests of webhooks, by result.", "toolset", "result")

// maxRequests is the limit of the requests of all sources in progress.
const maxRequests = 256

// Interface guards
var (
	_ site.Starter       = (*Section)(nil)
	_ site.Stopper       = (*Section)(nil)
	_ caddy.CleanerUpper = (*Section)(nil)
)
