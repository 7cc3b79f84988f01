package hosting

import (
	"context"
	"slices"

	"github.com/fairwayhq/fairway/caddymodule/oagent/agentset"
	"github.com/fairwayhq/fairway/caddymodule/oagent/guardrail"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/model"
	"github.com/fairwayhq/fairway/oagent/run"
)

// tools makes the calls of the agents of a Host: of tools and agents of the site, and of agents of other
// servers. It implements run.Tools.
type tools struct{ *Host }

// capability is a capability of an agent, with the operation or the agent that it refers to.
type capability struct {
	*oagent.Capability
	operation *agentset.Operation // nil for an agent
	agent     *oagent.Agent       // of this server; nil for a tool
	remote    bool                // an agent of another server
}

// set returns the current agents of the site.
func (h tools) set(ctx context.Context) *agentset.Set {
	r := h.clientRequest(ctx, new(run.Invocation), new(origin), nil)
	return h.options.Set(r, h.chain)
}

// capabilities returns the capabilities of an agent that can be called.
func (h tools) capabilities(set *agentset.Set, agent *oagent.Agent) []capability {
	all := make([]capability, 0, len(agent.Capabilities))
	for i := range agent.Capabilities {
		c := capability{Capability: &agent.Capabilities[i]}
		target, err := c.Reference.Resolve(set.Names)
		if err != nil {
			continue
		}
		if target.Remote {
			c.remote = true
			all = append(all, c)
			continue
		}
		if target.Tool == nil {
			if called := set.Agents[c.Reference.Name]; called != nil && h.Runs(called.Agent) {
				c.agent = called.Agent
				all = append(all, c)
			}
			continue
		}
		c.operation = set.Operation(target.Tool, target.Toolset)
		if c.operation != nil && slices.Contains(h.options.Toolsets, c.operation.Toolset) {
			all = append(all, c)
		}
	}
	return all
}

// Describe implements run.Tools.
func (h tools) Describe(agent *oagent.Agent) []run.Tool {
	set := h.set(h.running)
	var described []run.Tool
	for _, c := range h.capabilities(set, agent) {
		if c.remote {
			described = append(described, h.describeRemote(c.Reference))
			continue
		}
		if c.agent != nil {
			described = append(described, describeAgent(c.Reference.Name, c.agent))
			continue
		}
		t, ok := c.operation.Toolset.Filled(c.operation.Set).Tool(c.operation.Tool.Name)
		if !ok {
			continue
		}
		described = append(described, run.Tool{
			Tool:       model.Tool{Name: c.Reference.Name, Description: t.Description, Schema: t.InputSchema},
			Idempotent: t.ReadOnly(),
		})
	}
	return described
}

// Call implements run.Tools.
func (h tools) Call(ctx context.Context, i *run.Invocation) run.Result {
	set := h.set(ctx)
	all := h.capabilities(set, i.Agent)
	at := slices.IndexFunc(all, func(c capability) bool {
		return c.Reference.Name == i.Name && (c.agent != nil || c.remote) == i.IsAgent
	})
	if at < 0 {
		return run.Result{Text: "the call was not made: the tool is not available", IsError: true}
	}
	c, o, s := &all[at], readOrigin(i.Origin), h.shared().sessions.get(i.Engagement)
	if c.remote {
		return h.logAgentCall(ctx, i, c, func() run.Result { return h.callRemote(ctx, set, i, c, o, s) })
	}
	if c.agent != nil {
		return h.logAgentCall(ctx, i, c, func() run.Result { return h.callAgent(ctx, set, i, c, o, s) })
	}
	if s == nil && c.needsSession(o) {
		return needCredentials(i)
	}
	return h.callTool(ctx, i, c, o, s)
}

// needsSession reports whether a call needs the session of the user (OpenAgentSpec v1, Agent,
// user_identity). It does not if the toolset has credentials, which replace those of the user.
func (c *capability) needsSession(o *origin) bool {
	return o.Identified && c.Identity(true).User && len(c.operation.Toolset.Credentials) == 0
}

// CheckText implements run.Tools.
func (h tools) CheckText(ctx context.Context, b oagent.Binding, side engagement.Side, text string) error {
	guard, err := h.options.Guard(ctx)
	if err != nil {
		return err
	}
	checked := guardrail.Text{Input: text}
	if side == engagement.SideOutput {
		checked = guardrail.Text{Output: text}
	}
	return h.options.Guardrails.Check(ctx, guard, b, h.set(ctx).Names, side, checked)
}

// Interface guard
var _ run.Tools = tools{}
