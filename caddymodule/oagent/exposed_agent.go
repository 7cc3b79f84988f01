package oagent

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/toolcall"
)

// HostedAgents implements agents.GuardHandler.
func (o guardHandler) HostedAgents() (hosted []agents.HostedAgent) {
	if o.host == nil {
		return nil
	}
	for _, agent := range o.agents.Last().Documents() {
		if o.host.Runs(agent) {
			hosted = append(hosted, agents.HostedAgent{Name: agent.Name, Description: agent.Description, Path: strings.TrimRight(o.Serve, "/") + "/" + agent.Name})
		}
	}
	return hosted
}

// serveExposedAgent responds to a call of an agent that an endpoint serves as a tool. If another handler
// hosts the agent, it passes the call on.
func serveExposedAgent(o *Handler, call *toolcall.AgentCall, w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	called := o.agents.Current().Agents[call.Agent]
	if called == nil || !o.host.Runs(called.Agent) || strings.TrimRight(o.Serve, "/")+"/"+called.Name != call.Serve {
		return next.ServeHTTP(w, r)
	}
	o.host.ServeTool(w, r, call, called.Agent, bind(o, r, called.Agent).User)
	return nil
}
