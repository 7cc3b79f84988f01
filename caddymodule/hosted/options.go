package hosted

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/caddymodule/internal/siteroutes"
	guard "github.com/fairwayhq/fairway/caddymodule/oagent"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

func init() { guard.RegisterPart(func() guard.Part { return new(Config) }) }

// Config is the part of the handler oagent with the options of hosted agents.
type Config struct {
	// The models of the agents. An agent with a model is hosted: this server runs it, and POST to
	// its document begins an Engagement. Default: none, and no agent is hosted.
	Models []*Model `json:"models,omitempty"`

	// Limits on each run of a hosted agent. Default: see the limits.
	Limits *Limits `json:"limits,omitempty"`

	// Limits on the runs of single hosted agents, by the names of the agents. Default: those of limits.
	AgentLimits map[string]*Limits `json:"agent_limits,omitempty"`

	// How many tokens of models users, groups and agents can use on one day. Default: no limit.
	Budgets []Budget `json:"budgets,omitempty"`

	// What the tokens of models cost, for budgets of cost and for usage reports. Default: unknown.
	Prices []Price `json:"prices,omitempty"`

	// How many runs of hosted agents this node works on at the same time. One user can have about three
	// quarters of them. 16 times as many runs can be in progress, which includes those that are queued.
	// Default: one for each 16 MiB of the memory limit of the process, at least 64 and at most 1024.
	Workers int `json:"workers,omitempty"`

	// The servers whose agents hosted agents may call. Default: none.
	RemoteAgents []*RemoteServers `json:"remote_agents,omitempty"`

	host *Host // nil without models
}

// Options implements guard.Part.
func (c *Config) Options(b *directive.Block) directive.Options {
	return directive.Options{
		"model": func() error {
			m, err := unmarshalModel(b)
			c.Models = append(c.Models, m)
			return err
		},
		"workers": directive.To(b.Positive, &c.Workers),
		"limits":  func() error { return c.unmarshalLimits(b) },
		"budget":  func() error { return b.Single(c.unmarshalBudgets) },
		"prices":  func() error { return b.Single(c.unmarshalPrices) },
		"remote_agents": func() error {
			servers, err := unmarshalRemote(b)
			c.RemoteAgents = append(c.RemoteAgents, servers)
			return err
		},
	}
}

// Provision implements guard.Part. It sets up the Host of the agents that have a model.
func (c *Config) Provision(ctx caddy.Context, o *guard.Handler) error {
	a, err := site.SectionOf[*app.App](ctx)
	if err != nil {
		return err
	}
	a.Users.Add("runs", run.UserData{})
	if err := registerMetrics(ctx.GetMetricsRegistry()); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	switch {
	case len(c.Models) > 0:
	case len(c.RemoteAgents) > 0:
		return errors.New("remote_agents has no effect without model: only hosted agents call agents of other servers")
	case c.Limits != nil || c.AgentLimits != nil || c.Workers != 0 || c.Budgets != nil || c.Prices != nil:
		return errors.New("limits, budget, prices and workers have no effect without model: add the model of the agents")
	default:
		return nil
	}
	if o.Serve == "" || o.Engagements == "" {
		return errors.New("model needs the endpoints through which the agents are used: add serve /agents and engagements /engagements")
	}
	options := Options{
		Config: c, Handler: o, App: a, Site: site.At(ctx), Chain: siteroutes.CallChainOf(ctx), Logger: ctx.Logger(),
		Guardrails: &agentset.GuardrailCaller{Logger: ctx.Logger()}, Serve: strings.TrimRight(o.Serve, "/"), Engagements: strings.TrimRight(o.Engagements, "/"),
		Grace: func() time.Duration { return site.GracePeriod(ctx) },
	}
	options.Server, _ = ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if options.Chain == nil || options.Server == nil {
		return errors.New("agents cannot be hosted here, because the handlers for their tool calls cannot be determined: " +
			"move oagent out of named routes and error routes into the site")
	}
	if options.Model, err = loadModels(ctx, c.Models, c.Prices); err != nil {
		return err
	}
	if len(c.RemoteAgents) > 0 {
		if options.Remote, err = newRemoteClient(ctx, c.RemoteAgents, options.Logger); err != nil {
			return err
		}
	}
	options.Realm = realmOf(ctx, a, options.Serve, options.Engagements)
	c.host = New(options)
	o.Host = guardHost{c.host}
	options.Server.RegisterOnShutdown(c.host.EndServing)
	return nil
}

// Validate implements caddy.Validator.
func (c *Config) Validate() error {
	for agent, l := range c.AgentLimits {
		if err := l.Check(); err != nil {
			return fmt.Errorf("agent %s: %w", agent, err)
		}
	}
	return errors.Join(c.Limits.Check(), checkBudgets(c.Budgets, c.Prices), directive.NotNegative("workers", int64(c.Workers)))
}

// Start implements site.Starter.
func (c *Config) Start() error {
	if c.host == nil {
		return nil
	}
	return c.host.Open()
}

// Stop implements site.Stopper.
func (c *Config) Stop() {
	if c.host != nil {
		c.host.Close()
	}
}

// Cleanup implements caddy.CleanerUpper.
func (c *Config) Cleanup() error {
	if c.host != nil {
		c.host.Release()
	}
	return nil
}

// Interface guards
var (
	_ guard.Host         = guardHost{}
	_ caddy.Validator    = (*Config)(nil)
	_ caddy.CleanerUpper = (*Config)(nil)
	_ site.Starter       = (*Config)(nil)
	_ site.Stopper       = (*Config)(nil)
)
