package console

import (
	"context"
	"net/http"
	"net/url"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/tools"
)

// agentCalls explains the calls of an agent by its document.
type agentCalls struct {
	base  string        // of the console; "" if the viewer may not see the calls
	agent *oagent.Agent // nil if the agent has no document now
	name  string
	names oagent.Names
}

// entryModel is an entry of a record with the list of such calls.
type entryModel struct {
	engagement.Entry
	Link     string
	CallLink string // to the call with the CallID, if it is kept
}

// callsOf returns what explains the calls of an agent of the n-th oagent handler.
func (p *recordPages) callsOf(n int, agent string) agentCalls {
	documents, names := p.site.guards()[n].Agents()
	c := agentCalls{base: p.site.base, name: agent, names: names}
	for _, a := range documents {
		if a.Name == agent {
			c.agent = a.Agent
		}
	}
	return c
}

// find returns a capability and what it refers to; nil if there is none.
func (c agentCalls) find(name string) (*oagent.Capability, oagent.Target) {
	if c.agent == nil {
		return nil, oagent.Target{}
	}
	capability, ok := c.agent.Capability(name)
	if !ok {
		return nil, oagent.Target{}
	}
	target, err := capability.Reference.Resolve(c.names)
	if err != nil {
		return capability, oagent.Target{}
	}
	return capability, target
}

// link returns the path of the list of calls of a capability, as the log of calls names it.
func (c agentCalls) link(name string) string {
	if name == "" || c.base == "" {
		return ""
	}
	capability, target := c.find(name)
	switch {
	case target.Tool != nil:
		name = target.Tool.Name
	case capability != nil:
		name = capability.Reference.String()
	}
	return c.base + "/calls?" + url.Values{"agent": {c.name}, "tool": {name}}.Encode()
}

// entries returns the model of entries of a record.
func (c agentCalls) entries(entries []engagement.Entry) []entryModel {
	models := make([]entryModel, len(entries))
	for i, e := range entries {
		models[i] = entryModel{Entry: e, Link: c.link(e.Name)}
		if e.CallID != "" && c.base != "" {
			models[i].CallLink = c.base + "/calls?text=" + e.CallID
		}
	}
	return models
}

// hiddenValue replaces values that the operator has fixed.
const hiddenValue = "***"

// sent returns the REST request that a call becomes, without credentials and fixed values; nil if it is not one.
func (c agentCalls) sent(ctx context.Context, name string, inputs raw) *tools.Preview {
	_, target := c.find(name)
	if target.Tool == nil {
		return nil
	}
	shown, err := tools.PreviewOf(ctx, tools.NewToolset(target.Toolset, []*tools.Tool{target.Tool}), target.Tool.Name, inputs, tools.PreviewOptions{
		Make: func(ctx context.Context, call *tools.Call) (*http.Request, error) {
			if err := call.Resolve(func(string) (string, error) { return hiddenValue, nil }); err != nil {
				return nil, err
			}
			return call.Request(ctx)
		},
		Secrets: func() []string { return nil },
	})
	if err != nil {
		return nil
	}
	return shown
}
