// Package mcpservers is the directive `mcp_servers`. It answers the inner requests of tools that come from MCP servers:
// it calls the tool at its server and responds with the MCP result (handler.go, response.go).
//
// Config (config.go) is the option mcp_server of a toolset: the guest module agents.mcp_server of package app. Server (server.go) is what a
// document keeps of it, also over reloads: the client of the server (package mcpadapter/client), and a source.Source that makes an OpenAPI
// document of the server's tools.
package mcpservers
