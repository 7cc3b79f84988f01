package oagent

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/oagent/guardrail"
	"github.com/fairwayhq/fairway/caddymodule/oagent/hosting"
	"github.com/fairwayhq/fairway/caddymodule/siteroutes"
)

// provisionHosting sets up the Host of the agents that have a model.
func provisionHosting(ctx caddy.Context, o *Handler) error {
	if len(o.Models) == 0 {
		if o.Limits != nil {
			return errors.New("limits has no effect without model: add the model of the agents")
		}
		return nil
	}
	if o.Serve == "" || o.Engagements == "" {
		return errors.New("model needs the endpoints through which the agents are used: add serve /agents and engagements /engagements")
	}
	models, err := hosting.LoadModels(ctx, o.Models)
	if err != nil {
		return err
	}
	if err := models.CheckNames(o.agents.Last().AgentNames()); err != nil {
		return err
	}
	chain := siteroutes.CallChainOf(ctx)
	if chain == nil || o.server == nil {
		return errors.New("agents cannot be hosted here, because the handlers for their tool calls cannot be determined: " +
			"move oagent out of named routes and error routes into the site")
	}
	o.host = hosting.New(hosting.Options{
		App: o.app, Server: o.server, Chain: chain, Logger: o.logger, Realm: realmOf(ctx, o, o.Serve, o.Engagements), Set: o.agents.CurrentFor, Toolsets: o.toolsets,
		CallerHeaders: o.callerHeaders, Guard: o.guard, Guardrails: &guardrail.Caller{Logger: o.logger}, Model: models.Of,
		Remote: o.remote, StaticIdentity: func(name string) func(*http.Request) error { return o.identities[name].Apply },
		Decided: func(ctx context.Context, d *hosting.Decision) { logAgentCall(ctx, o, d) },
		Spans:   &processSpans, Limits: o.Limits.Run(), TTL: time.Duration(o.EngagementTTL), Serve: strings.TrimRight(o.Serve, "/"), Engagements: strings.TrimRight(o.Engagements, "/"),
	})
	o.server.RegisterOnShutdown(o.host.EndServing)
	return nil
}
