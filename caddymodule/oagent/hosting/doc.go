// Package hosting runs the agents of an oagent handler on this server. It connects package
// github.com/fairwayhq/fairway/oagent/run, which has the loop of model and tools, with the site:
//
//   - Host opens the Runner when the app starts, and closes it when the app stops (host.go). If a
//     reload replaces the configuration, the next Host goes on with the runs (handover.go).
//   - Host.Start begins a run for a user. It keeps the headers with which the user came in memory
//     (sessions.go), and what else it needs of the request with the run (origin.go).
//   - The model's tool calls come in through tools, the run.Tools of the Host (tools.go). A call
//     becomes an inner request through the handlers of the site (call.go), as the calls of mcp and
//     otc do. Its context has a Call.
//   - When the inner request reaches the oagent handler, that takes the agent and the Engagement
//     from the Call, governs the request like any other, and notes a refusal in the Call.
//
// Calls of tools and agents are in the log of recent calls with the agent's name: those of tools by their
// toolcall.Caller, and those of agents by call_log.go.
//
// The package imports neither the oagent handler nor the endpoints; both use it.
package hosting
