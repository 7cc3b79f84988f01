// Package app is the section of the Caddy app `agents` that has the toolsets. It owns what the endpoints of one configuration
// share.
//
// A Toolset (toolset.go) is an OpenAPI document together with the options that select its
// operations, limit its calls and add credentials (package credential). Its Document (document.go)
// is loaded once, kept current, and shared by all toolsets and configurations that build the
// same tools from it. Overlays (overlay.go) change the document before it is built, and a lock
// (lock.go) withholds tools that no operator has approved. In place of a document, a toolset can have an MCP server, which a guest
// module makes a document of (mcp_server.go).
//
// The data flow: the configuration names toolsets; Provision opens their documents; Start loads
// and watches them; each load publishes an immutable tools.Toolset; the endpoints (packages mcp
// and otc) read it for each request.
//
// App (app.go) is a site.Section. It gets the store and the bounds of bodies from the sections of packages stores and bodies. What the
// site knows, such as its logins and events, is in package site. Guests that the section may have, such as agents, are found by
// interfaces (agents.go).
package app
