// Package caddymodule registers Fairway's Caddy modules. It has no code of its own:
// each directive is a package below it, with its handler in handler.go and its
// Caddyfile syntax in caddyfile.go.
//
//	directive   reads the options of blocks; the order of the directives
//	agents      the app `agents`: toolsets, documents, credentials, the store, metrics; agents/command is `caddy tools`
//	toolcall    one tool call through the handler chain
//	mcp, otc    serve a toolset over a tool protocol
//	stdio       `caddy mcp`: a toolset on standard input and output
//	ocp         Open Context Protocol headers
//	oagent      agents that are enforced; oagent/command is `caddy oagent`
//	agentauth   access tokens and API keys
//	console     pages about tools, calls, agents and reviews
//	toolsonly   closes the API to everything but tool calls
//
// Imports run from the bottom of this list to the top: agents knows directive,
// toolcall knows agents, and each directive knows toolcall. The packages of the
// directives do not import each other, with two exceptions: toolcall and mcp read what
// agentauth says of a request, and stdio runs the handler of mcp.
//
// A tool call passes them in this order: the handler of mcp or otc takes the client's
// request and hands it to mcpadapter or otcadapter. The adapter calls a tool through a
// toolcall.Caller, which builds a REST request and sends it to the next handlers of
// the site with a toolcall.Recorder as its response writer. Handlers there (oagent,
// reverse_proxy, …) treat it as any other request.
//
// The tests of this package run whole sites with a real Caddy.
package caddymodule

import (
	// registers the modules
	_ "github.com/fairwayhq/fairway/caddymodule/agentauth"
	_ "github.com/fairwayhq/fairway/caddymodule/agents"
	_ "github.com/fairwayhq/fairway/caddymodule/agents/command"
	_ "github.com/fairwayhq/fairway/caddymodule/agents/tail"
	_ "github.com/fairwayhq/fairway/caddymodule/console"
	_ "github.com/fairwayhq/fairway/caddymodule/mcp"
	_ "github.com/fairwayhq/fairway/caddymodule/oagent"
	_ "github.com/fairwayhq/fairway/caddymodule/oagent/command"
	_ "github.com/fairwayhq/fairway/caddymodule/oagent/models"
	_ "github.com/fairwayhq/fairway/caddymodule/ocp"
	_ "github.com/fairwayhq/fairway/caddymodule/otc"
	_ "github.com/fairwayhq/fairway/caddymodule/stdio"
	_ "github.com/fairwayhq/fairway/caddymodule/toolsonly"
)
