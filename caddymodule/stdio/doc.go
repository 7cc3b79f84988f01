// Package stdio is the command `caddy mcp`: it serves the mcp endpoint of a Caddyfile, or
// of a document, on standard input and output.
//
// offline_config.go loads the configuration without its listeners, endpoint_select.go
// finds the endpoint that is meant, and offline.go runs its handler. `caddy mcp
// server-json` (registry.go) prints the entry for the MCP registry.
package stdio
