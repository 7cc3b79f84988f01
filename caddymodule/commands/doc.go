// Package commands has the commands that read documents, or that talk to a running gateway.
//
// `caddy tools` and its subcommands read the flags that select a document and the options of its toolset, or a
// Caddy configuration that has them (config.go), and build the tools as a running gateway does:
//
//   - `caddy tools` prints the tools (tools.go, format.go), the document after its overlays (document.go), or
//     what kin-openapi finds wrong in the document (lint_document.go). Fairway's own reader accepts more:
//     it skips what it cannot use. It also calls the tools with the document's own examples, without sending anything
//     (lint_examples.go), and writes an overlay that corrects the schemas (lint_mend.go).
//   - `caddy tools call` calls a tool or prints its request (call.go).
//   - `caddy tools lock` and `caddy tools diff` approve tools (lock.go).
//
// The commands of `caddy agents` talk to the admin endpoint of a running Caddy (client.go):
//
//   - `caddy agents calls` finds tool calls (calls.go), `caddy agents tail` follows them (command.go), and
//     `caddy agents top` counts them (top.go). The admin routes below /agents/calls serve them (admin.go).
//   - `caddy agents runs` lists Engagements, and `caddy agents reviews` lists and decides reviews (runs.go). Package
//     oagent of caddymodule serves their routes.
//
// A Terminal is the output of a command: it has the width, the colors, and cleans texts (terminal.go).
//
// Other commands of Fairway share RunE, RequireSubcommand, SelectorFlag and MaxWait. Package stdio registers `caddy agents`.
package commands
