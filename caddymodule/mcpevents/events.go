// Package mcpevents is the option `events` of the directive `mcp`: MCP Events (SEP-3415). Package events/serve delivers them, and package
// caddymodule/events has their sources.
package mcpevents

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/events"
	"github.com/fairwayhq/fairway/caddymodule/mcp"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/events/serve"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/seal"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/mcpadapter/library"
)

func init() {
	mcp.RegisterPart(func() mcp.Part { return new(part) })
}

// Options of MCP Events.
type Options struct {
	// The codes of errors: "sketch", which clients expect that were written before the SEP, or "sep-3415". Default: sketch.
	Errors string `json:"errors,omitempty"`

	// Whether webhooks may have private addresses, for tests and private networks. Default: false.
	AllowPrivateReceivers bool `json:"allow_private_receivers,omitempty"`
}

// part is the part of the handler mcp with the option events.
type part struct {
	// Serves the events of the toolset, which agent_events receives (MCP Events). Webhooks also need the option secret. Default: no events.
	Events *Options `json:"events,omitempty"`
}

const sep = "sep-3415"

// Options implements mcp.Part.
func (p *part) Options(b *directive.Block) directive.Options {
	return directive.Options{"events": func() error {
		return b.Single(func(outer *directive.Block) error {
			if p.Events = new(Options); outer.NextArg() {
				return outer.ArgErr()
			}
			b := directive.NewBlock(outer.Dispenser)
			return b.Read("events", directive.Options{
				"errors":                  func() error { return b.OneOf(&p.Events.Errors, "sketch", sep) },
				"allow_private_receivers": directive.To(b.Flag, &p.Events.AllowPrivateReceivers),
			})
		})
	}}
}

// delivered counts events by their delivery.
var delivered = directive.Counter("events_delivered_total", "Events that were delivered to clients, or given up, by mode and result.", "toolset", "mode", "result")

// Provision implements mcp.Part.
func (p *part) Provision(ctx caddy.Context, m *mcp.Handler) error {
	o := p.Events
	switch {
	case o == nil:
		return nil
	case o.Errors != "" && o.Errors != "sketch" && o.Errors != sep:
		return fmt.Errorf("events: errors %q is not valid; use sketch or %s", o.Errors, sep)
	case m.Secret == "" && o.AllowPrivateReceivers:
		return errors.New("events: allow_private_receivers has no effect without webhooks, which need the option secret of mcp")
	}
	section, err := site.SectionOf[*events.Section](ctx)
	if err != nil {
		return err
	}
	toolset, logger := m.Endpoint.Parts.Name(), ctx.Logger()
	options := serve.Options{
		Name: m.Endpoint.SiteName + m.Path + " " + toolset, SEPCodes: o.Errors == sep, Open: m.Endpoint.App.OpenStore, Transport: serve.NewTransport(o.AllowPrivateReceivers, nil),
		Delivered: func(ctx context.Context, d *serve.Delivery) error {
			outcome := "delivered"
			if d.Failed {
				outcome = "failed"
			}
			delivered.WithLabelValues(toolset, d.Mode, outcome).Add(float64(len(d.IDs)))
			return section.ArchiveDelivery(ctx, toolset, d)
		},
		Failed: func(err error) { logger.Error("serving events failed", zap.String("toolset", toolset), zap.Error(err)) },
	}
	if m.Secret != "" {
		secrets, err := directive.Secrets("mcp", "MCP_SECRET", m.Secret, m.PreviousSecret)
		if err != nil {
			return err
		}
		options.Sealer = seal.Derive(secrets, "fairway event subscriptions")
	}
	e := &endpoint{app: m.Endpoint.App, toolset: toolset, events: section, options: options}
	section.AtStart(e.begin)
	m.Extensions = append(m.Extensions, e.extension())
	m.Live = e.resources
	return directive.RegisterMetrics(ctx.GetMetricsRegistry(), delivered)
}

// endpoint serves the events of a toolset.
type endpoint struct {
	app     *app.App
	toolset string
	events  *events.Section
	options serve.Options
	server  *serve.Server // after the start
}

// extension returns what the endpoint adds to the server.
func (e *endpoint) extension() mcpadapter.Extension {
	return mcpadapter.Extension{
		Name: "io.modelcontextprotocol/events", Settings: `{"listChanged":true}`, Capability: `,"events":{}`,
		Methods: map[string]mcpadapter.ExtensionMethod{
			"events/list":        e.method((*serve.Server).List),
			"events/poll":        e.method((*serve.Server).Poll),
			"events/subscribe":   e.method((*serve.Server).Subscribe),
			"events/unsubscribe": e.method((*serve.Server).Unsubscribe),
			"events/stream": func(ctx context.Context, r *mcpadapter.ExtensionRequest) ([]byte, *mcpadapter.Fault) {
				if err := e.app.Site.AwaitStart(ctx); err != nil {
					return nil, e.fault(err)
				}
				run, err := e.server.Stream(ctx, userOf(ctx), paramsOf(r))
				if err != nil {
					return nil, e.fault(err)
				}
				return []byte("{}"), r.Stream(run)
			},
		},
	}
}

// method returns the method that a function of a Server implements.
func (e *endpoint) method(run func(*serve.Server, context.Context, *identity.User, []byte) (any, error)) mcpadapter.ExtensionMethod {
	return func(ctx context.Context, r *mcpadapter.ExtensionRequest) (result []byte, f *mcpadapter.Fault) {
		err := e.app.Site.AwaitStart(ctx)
		var value any
		if err == nil {
			value, err = run(e.server, ctx, userOf(ctx), paramsOf(r))
		}
		if err == nil {
			result, err = json.Marshal(value)
		}
		return result, e.fault(err)
	}
}

func paramsOf(r *mcpadapter.ExtensionRequest) []byte {
	if r.Params == nil {
		return []byte("{}")
	}
	return r.Params
}

// userOf returns the user of a request.
func userOf(ctx context.Context) *identity.User {
	return route.UserOf(new(http.Request).WithContext(ctx))
}

func (e *endpoint) fault(err error) *mcpadapter.Fault {
	if err == nil {
		return nil
	}
	refused, ok := errors.AsType[*serve.Error](err)
	if !ok {
		e.options.Failed(err)
		refused = serve.ErrUnavailable
	}
	f := &mcpadapter.Fault{Status: http.StatusOK, Code: refused.Code, Message: refused.Message}
	if refused.Data != nil {
		f.Data, _ = json.Marshal(refused.Data, json.Deterministic(true)) // strings and numbers
	}
	return f
}

// resources returns a resource for each type, for clients of revisions without MCP Events.
func (e *endpoint) resources() (all []library.Live) {
	source, ok := e.events.Source(e.toolset)
	if !ok {
		return nil
	}
	for _, t := range source.Types() {
		all = append(all, library.Live{
			URI: "events://" + e.toolset + "/" + t.Name, Name: t.Name, Description: t.Description, Mime: "application/json",
			Read: func(ctx context.Context) ([]byte, error) {
				if err := e.app.Site.AwaitStart(ctx); err != nil {
					return nil, err
				}
				return e.server.Recent(ctx, userOf(ctx), t.Name)
			},
		})
	}
	return all
}

// begin begins to serve, when all sources are known.
func (e *endpoint) begin() error {
	source, ok := e.events.Source(e.toolset)
	if !ok {
		return fmt.Errorf("mcp: events: nothing receives the events of toolset %q: add agent_events PATH %[1]s", e.toolset)
	}
	e.options.Source = source
	e.server = serve.New(e.options)
	e.app.Users.Add("event_subscriptions of "+e.options.Name, e.server)
	e.events.Serve(e.toolset, e.server)
	e.server.Start()
	return nil
}
