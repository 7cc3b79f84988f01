// Package app is the Caddy app `agents`. It owns what the handlers of one configuration
// share.
//
// A Toolset (toolset.go) is an OpenAPI document together with the options that select its
// operations, limit its calls and add credentials (package credential). Its Document (document.go)
// is loaded once, kept current, and shared by all toolsets and configurations that build the
// same tools from it. Overlays (overlay.go) change the document before it is built, and a lock
// (lock.go) withholds tools that no operator has approved.
//
// The data flow: the configuration names toolsets; Provision opens their documents; Start loads
// and watches them; each load publishes an immutable tools.Toolset; the endpoints (packages mcp
// and otc) read it for each request. The app also holds the store (store.go), which a module of
// package stores opens, the metrics of tool calls (package metrics), the events of agents (events.go), and the mapping of agents to sites
// (site.go). Handlers share further state of one configuration with Share.
//
// The package also has the Caddyfile option `agents`. Package command has the command `caddy tools`.
package app
