// Package command has the commands that read documents, or that talk to a running gateway.
//
// `caddy tools` and its subcommands read the flags that select a document and the options of its toolset, or a
// Caddy configuration that has them (config.go), and build the tools as a running gateway does:
//
//   - `caddy tools` prints the tools (tools.go, format.go), the document after its overlays (document.go), or
//     what kin-openapi finds wrong in the document (lint_document.go). Fairway's own reader accepts more:
//     it skips what it cannot use.
//   - `caddy tools call` calls a tool or prints its request (call.go).
//   - `caddy tools lock` and `caddy tools diff` approve tools (lock.go).
//
// `caddy agents tail` follows the tool calls of a running Caddy, through the admin route GET /agents/calls
// (admin.go).
//
// Other commands of Fairway share RequireSubcommand, SelectorFlag and MaxWait. Package stdio registers `caddy agents`.
package command
