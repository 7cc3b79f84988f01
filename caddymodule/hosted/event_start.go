package hosted

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// eventAgent returns a hosted agent of a site, and its host.
func (x *exposure) eventAgent(at site.Site, name string) (*Host, *oagent.Agent, error) {
	var hosted []hostedAgent
	for _, o := range x.guards.At(at) {
		h, ok := o.Host.(guardHost)
		if !ok {
			continue
		}
		if agent := h.host.agent(name); agent != nil && h.Runs(agent) {
			return h.host, agent, nil
		}
		hosted = append(hosted, hostedAgents(o)...)
	}
	if len(hosted) == 0 {
		return nil, nil, errors.New("no oagent handler of the site hosts agents: add model to oagent")
	}
	return nil, nil, checkHosted(name, hosted)
}

// CheckEventAgent returns an error if the site does not host the agent, or if the agent has no credentials of its own.
func (x *exposure) CheckEventAgent(at site.Site, name string) error {
	_, agent, err := x.eventAgent(at, name)
	if err == nil && !slices.ContainsFunc(agent.Capabilities, func(c oagent.Capability) bool { return c.StaticIdentity != "" }) {
		err = fmt.Errorf("agent %s has no static_identity: an event has no user whose credentials the agent could use", name)
	}
	return err
}

// StartForEvent starts a run of an agent, as the user of that name and without credentials of a user. If there is a run for the id, it has no effect.
func (x *exposure) StartForEvent(ctx context.Context, at site.Site, name, user, id, input string) error {
	host, agent, err := x.eventAgent(at, name)
	if err != nil {
		return err
	}
	runner, err := host.Runner(ctx)
	if err != nil {
		return err
	}
	runID := run.IDOf(engagement.Digest("event", host.options.Realm(), user, name, id))
	if _, err := runner.Get(ctx, runID); !errors.Is(err, run.ErrNotFound) {
		return errors.Join(err, runner.Wake(ctx, runID)) // a node may have died before it began
	}
	from := &origin{Delegated: true, User: &identity.User{ID: user}}
	_, err = runner.Start(ctx, run.StartOptions{
		ID: runID, Agent: agent, User: engagement.User{ID: user}, Input: input, Origin: from.encode(), Forgets: true, // what is in one event must not reach the next
	})
	return err
}
