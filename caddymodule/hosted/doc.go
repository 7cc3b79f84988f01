// Package hosted runs the agents of an oagent handler on this server. It connects package
// github.com/fairwayhq/fairway/oagent/hosted/run, which has the loop of model and tools, with the site:
//
//   - Config is the part of the handler with the options (options.go). It creates a Host.
//   - Host opens the Runner when the app starts, and closes it when the app stops (host.go). If a
//     reload replaces the configuration, the next Host resumes the runs (host.go).
//   - Host.Start begins a run for a user. It keeps the headers of the user's request in memory
//     (origin.go), and stores further data of the request with the run (origin.go).
//   - The Runner passes the model's tool calls to tools, the run.Tools of the Host (tools.go). Like the
//     calls of mcp and otc, a call becomes an inner request through the handlers of the site (tools.go).
//     The context of the request has a guard.HostedCall.
//   - When the inner request reaches the oagent handler, the handler reads the agent and the Engagement
//     from it, governs the request like any other, and reports a refusal in it.
//   - Package events starts runs for webhooks through the section exposure (event_start.go).
//   - The endpoints of the handler pass requests about runs to the Host (run_endpoint.go, run_events.go), and those
//     of mcp and otc the calls of agents as tools (exposed.go, tool_call.go).
//
// Calls of tools and agents are in the log of recent calls with the agent's name: those of tools by their
// route.Caller, and those of agents by logAgentCall.
//
// Agents come from files, from users and from other servers: an acceptService checks documents that users send and
// keeps them in the store, and gives the agents to the handler on every node (accept.go).
// remoteServers are the servers whose agents may be capabilities (servers.go).
//
// The oagent handler does not know this package, which implements its interfaces Part, Host and Acceptor.
package hosted
