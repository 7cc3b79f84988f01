// Package mcp is the directive `mcp`. It serves one or more toolsets to MCP clients with package
// mcpadapter.
//
// The Handler (handler.go) recognizes requests for the endpoint's path and passes others on.
// For each of its requests it builds an mcpadapter.Site (serve.go): the current tools, a caller
// that runs tool calls through the next handlers (package route), and the user and scopes
// that earlier handlers have authenticated. The adapter then handles the MCP message and writes
// the response.
//
// options.go translates the configuration for the adapter. library.go provides resources,
// prompts and apps, and watches their files. skills.go does so for skills. memory.go and
// secret.go keep sessions valid across reloads and on other nodes.
// stdio_client.go serves a client on standard input for the command `caddy mcp`.
package mcp
