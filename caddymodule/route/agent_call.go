package route

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/tools"
)

// agentWait is how long a call of an agent waits for the end of the run, if its client can neither poll
// for the outcome nor repeat the call.
const agentWait = 10 * time.Minute

// AgentCall is a call of a hosted agent as a tool. It is an ordinary request to the handlers after the
// endpoint. The handler that hosts the agent responds to it.
type AgentCall struct {
	Agent string // its name
	Input string // the message to it
	Serve string // path of the request

	// CallID is the client's id of the call. If the client does not wait for the outcome, it can repeat the
	// call with the same id. It is "" if the client cannot repeat calls.
	CallID string
	// Wait is how long the call waits for the end of the run, if the adapter cannot poll.
	Wait time.Duration

	// Reached is set by the handler that hosts the agent.
	Reached bool
	// Pending is set by that handler if the run has not ended. See tools.Result.
	Pending *tools.Pending
	// Failure is set by that handler if the call failed.
	Failure *tools.Failure
}

type agentCallKey struct{}

// AgentCallOf returns the call of an agent that a request carries, or nil for other requests.
func AgentCallOf(ctx context.Context) *AgentCall {
	call, _ := ctx.Value(agentCallKey{}).(*AgentCall)
	return call
}

// endpointAgentKey is the context key of EndpointAgent.
type endpointAgentKey struct{}

// EndpointAgent returns the agent that the endpoint of a tool call is limited to, or "".
func EndpointAgent(ctx context.Context) string {
	agent, _ := ctx.Value(endpointAgentKey{}).(string)
	return agent
}

// ExposeAgents makes the endpoint serve hosted agents of the site as tools: those with the names, or all
// if there are none. It does nothing if names is nil.
func (e *Endpoint) ExposeAgents(ctx caddy.Context, names *[]string) error {
	if names == nil {
		return nil
	}
	if e.agent.name != "" {
		return fmt.Errorf("%s %s has both agent and expose_agents: agent %s serves the tools that this agent may use, and expose_agents serves agents; remove one",
			e.Protocol, e.Path, e.agent.name)
	}
	agents, err := e.App.HostedAgents()
	if err != nil {
		return err
	}
	exposed, err := agents.Expose(e.agent.site, *names, e.Protocol, e.Path, e.Logger)
	if err != nil {
		return err
	}
	part := e.newPart(exposed)
	part.agentWait = agentWait
	if timeout := e.Parts.All[0].Toolset.Limits.Timeout; timeout > 0 {
		part.agentWait = min(timeout, agentWait)
	}
	return e.serve(ctx, append(slices.Clip(e.Parts.All), part))
}

// callAgent sends the call of an agent through the handler chain.
func (c *Caller) callAgent(ctx context.Context, call *tools.Call) (*tools.Result, error) {
	a := &AgentCall{Agent: call.Tool.Definition.OperationID, Serve: call.Tool.Plan.Path, CallID: c.CallID, Wait: agentWait}
	a.Input, _ = call.Arguments()["input"].(string)
	if c.CallID != "" {
		a.Wait = c.part.agentWait
	}
	result, err := c.dispatch.Invoke(context.WithValue(ctx, agentCallKey{}, a), call)
	switch {
	case !a.Reached && err == nil && result.Status < http.StatusBadRequest:
		result.Release()
		return nil, &tools.Failure{Kind: tools.Unanswered, Message: fmt.Sprintf("%s did not reach the agent: put oagent after the handler %s in the same routes",
			call.Tool.Operation(), c.protocol)}
	case a.Failure != nil:
		result.Release()
		return nil, a.Failure
	case a.Pending != nil && err == nil:
		result.Release()
		return &tools.Result{Status: http.StatusAccepted, Header: make(http.Header), Pending: a.Pending}, nil
	}
	return result, err
}

// gatewayKey is the context key of withGatewayRequest.
type gatewayKey struct{}

// withGatewayRequest returns the context of a request that the gateway makes for itself, for
// example to fetch a document of the site. Agent documents do not govern such requests.
func withGatewayRequest(ctx context.Context) context.Context {
	return context.WithValue(ctx, gatewayKey{}, true)
}

// IsGatewayRequest reports whether the gateway makes the request for itself.
func IsGatewayRequest(ctx context.Context) bool {
	is, _ := ctx.Value(gatewayKey{}).(bool)
	return is
}
