package oagent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/internal/siteroutes"
)

// Try implements siteroutes.Guard: it decides as identify and readOperation do.
func (o *Handler) Try(call *siteroutes.Call) *siteroutes.Refusal {
	agents := o.Loader.Current()
	name := call.Replace(o.Guard)
	if strings.Contains(name, "{") {
		return nil // the caller names the agent
	}
	if agents.Agents[call.Agent] != nil {
		if name != "" && name != call.Agent {
			return &siteroutes.Refusal{
				Always: true, Reason: fmt.Sprintf("the endpoint is for agent %s, and the option guard of oagent names agent %s", call.Agent, name),
				Write: "use the same agent, or remove guard",
			}
		}
		name = call.Agent
	}
	agent := agents.Agents[name]
	switch {
	case name == "" && agents.Only == nil:
		return &siteroutes.Refusal{
			Always: true, Reason: "oagent does not know its agent, because there are several: " + agents.ListAgents(),
			Write: fmt.Sprintf("write %q in %s, or limit oagent to other paths with a matcher", "agent "+agents.Documents()[0].Name, call.Protocol),
		}
	case name == "":
		agent = agents.Only
	case agent == nil && o.Acceptor != nil:
		return nil // users can add it
	case agent == nil:
		return &siteroutes.Refusal{Always: true, Reason: fmt.Sprintf("oagent has no agent %q; its agents are %s", name, agents.ListAgents()), Write: "write another name in guard"}
	}
	op := agents.Operation(call.Tool, call.Toolset.Name)
	switch {
	case op == nil && agents.Loaded:
		return &siteroutes.Refusal{
			Always: true, Reason: "oagent does not have the toolset",
			Write: fmt.Sprintf("write %q in oagent, or limit oagent to other paths with a matcher", "toolset "+call.Toolset.Name),
		}
	case op != nil && agent.Capabilities[op] == nil:
		return &siteroutes.Refusal{
			OfTool: true, Always: !slices.Contains(o.Matched, op.Toolset), Reason: "agent " + agent.Name + " may use none of the tools",
			Write: "write the tools in the capabilities of the agent, or limit oagent to other paths with a matcher",
		}
	}
	return nil
}
