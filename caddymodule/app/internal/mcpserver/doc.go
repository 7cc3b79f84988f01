// Package mcpserver configures the MCP servers that toolsets are made from: the option `mcp_server` of a toolset.
//
// Config (config.go) is the option. Server (server.go) is what a document keeps of it, also over reloads: the client of
// the server, and a source.Source that makes an OpenAPI document of the server's tools. The directive `mcp_servers`
// (package caddymodule/mcpservers) answers the calls.
package mcpserver
