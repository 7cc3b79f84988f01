// Package mcp is the directive `mcp`: it serves a toolset with package mcpadapter.
//
// The Handler (handler.go) matches the endpoint's path, and gives the adapter what it
// needs to know of the site (site.go): the current tools, a caller, the user and its
// scopes. Resources, prompts and apps are configured in library.go, the server card and
// the catalog in card.go and discovery.go. What clients began before a reload goes on
// after it (memory.go, secret.go).
package mcp
