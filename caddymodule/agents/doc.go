// Package agents is the Caddy app `agents`, which owns what the handlers of one
// configuration share.
//
// A Toolset (toolset.go) is a document with the options under which it is served:
// which operations, which limits, which credentials (credential.go). The Document
// behind it (document.go) is loaded once, kept current, and shared by all toolsets
// and configurations that want the same tools of it. The app also holds the store
// (store.go), the metrics of tool calls (metrics.go), the events of agents
// (events.go), and which agent belongs to which site (site.go). Handlers keep further
// state of one configuration with Share.
//
// The commands `caddy tools` and the caddyfile option `agents` are here as well.
package agents
