// Package stdio is the commands that load a configuration without listeners. `caddy mcp` serves one MCP client, such as a desktop
// application, on standard input and output.
//
// The endpoint comes from a Caddyfile, or is built from an OpenAPI document and the URL of an
// API. offline_config.go produces the configuration. offline.go loads it without listeners, the
// admin endpoint, certificates and log files. endpoint_select.go finds the mcp handler that the
// flags select. Each message on standard input then becomes an HTTP request that the site's
// server handles inside the process, so a tool call passes the same handlers as over HTTP.
//
// The command `caddy mcp server-json` (registry.go) prints the entry for the MCP registry, and `caddy mcp
// skills lint` (skills.go) checks skills. `caddy agents whoami` (whoami.go)
// explains an access token.
package stdio
