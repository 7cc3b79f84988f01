package oagent

import (
	"errors"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/oagent/accept"
	"github.com/fairwayhq/fairway/caddymodule/oagent/agentset"
	"github.com/fairwayhq/fairway/caddymodule/oagent/remoteagents"
	"github.com/fairwayhq/fairway/oagent"
)

// provisionRemote sets up the calls of agents of other servers.
func provisionRemote(ctx caddy.Context, o *Handler) (err error) {
	if len(o.RemoteAgents) == 0 {
		return nil
	}
	if len(o.Models) == 0 {
		return errors.New("remote_agents has no effect without model: only hosted agents call agents of other servers")
	}
	o.remote, err = remoteagents.NewClient(ctx, o.RemoteAgents, o.logger)
	return err
}

// checkRemote returns the function that rejects agents of other servers which must not be called;
// nil if none may be.
func checkRemote(o *Handler) func(oagent.Reference) error {
	if o.remote == nil {
		return nil
	}
	return o.remote.Check
}

// provisionAccept sets up the acceptance of agent documents.
func provisionAccept(ctx caddy.Context, o *Handler) error {
	if o.Accept == nil {
		return nil
	}
	if err := o.Accept.Validate(o.Serve, func(identity string) bool { return o.Identities[identity] != nil }); err != nil {
		return err
	}
	o.accepted = accept.New(accept.Options{
		Config: o.Accept, Logger: o.logger, Realm: realmOf(ctx, o, o.Serve), OpenStore: o.app.OpenStore, Set: o.agents.Current,
		Check: func(a *oagent.Agent, set *agentset.Set) error { return checkGuardrails(o, set, a) },
		Replace: func(accepted []*oagent.Agent) {
			o.agents.Accept(accepted)
			showMetrics(o)
			o.app.NotifyAgentEndpoints()
		},
	})
	return nil
}
