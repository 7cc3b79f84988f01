// Package mcpservers is the directive `mcp_servers`. It answers the inner requests of tools that come from MCP servers:
// it calls the tool at its server and responds with the MCP result (handler.go, response.go).
//
// The servers are configured with the toolsets (package caddymodule/app/internal/mcpserver), and called by package
// mcpadapter/client.
package mcpservers
