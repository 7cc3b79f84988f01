// Package caddymodule registers Fairway's Caddy modules. It has no code of its own:
// each directive is a package below it, with its handler in handler.go and its
// Caddyfile syntax in caddyfile.go.
//
//	directive   reads the options of blocks; the order of the directives
//	inspect     inspectors of arguments and responses
//	app         the app `agents`: toolsets, documents, credentials, the store, metrics
//	auth        access tokens and API keys
//	login       the login in front of an identity provider
//	connections the users' own accounts at third parties
//	route       one tool call through the handler chain; tools_only closes the API to everything else
//	mcp, otc    serve a toolset over a tool protocol
//	mcpservers  answers the calls of toolsets that come from MCP servers
//	commands    `caddy tools`, `caddy agents`, and what all commands share
//	stdio       `caddy mcp`: a toolset on standard input and output
//	ocp         Open Context Protocol headers
//	oagent      agents that are enforced
//	hosted      runs the agents of oagent on this server
//	chat        guardrails of agents on traffic to a model API
//	internal    what several of these use: the kept calls, metrics, agent documents, routes of the site
//	sigv4       a transport of reverse_proxy that signs requests to AWS
//	console     pages about tools, calls, agents and reviews
//
// Imports run from the bottom of this list to the top: app imports directive, route imports app, and each directive
// imports route. The packages of the directives do not import each other. Exceptions: login and connections get the
// site's host from auth, stdio runs the handler of mcp, and hosted and chat are parts of the handler of oagent. Only this package links the packages
// with commands (commands, stdio, ocp/command, oagent/command): a directive alone has none.
//
// A tool call passes them in this order: the handler of mcp or otc takes the client's
// request and hands it to mcpadapter or otcadapter. The adapter calls a tool through a
// route.Caller, which builds a REST request and sends it to the next handlers of
// the site with a route.Recorder as its response writer. Handlers there (oagent,
// reverse_proxy, …) treat it as any other request.
//
// The tests of each directive, also those that run whole sites with a real Caddy, are in its package. The tests
// of this package are about all directives together.
package caddymodule

import (
	// registers the modules
	_ "github.com/fairwayhq/fairway/caddymodule/app"
	_ "github.com/fairwayhq/fairway/caddymodule/app/credential/exchange"
	_ "github.com/fairwayhq/fairway/caddymodule/archive"
	_ "github.com/fairwayhq/fairway/caddymodule/auth"
	_ "github.com/fairwayhq/fairway/caddymodule/calls"
	_ "github.com/fairwayhq/fairway/caddymodule/chat"
	_ "github.com/fairwayhq/fairway/caddymodule/commands"
	_ "github.com/fairwayhq/fairway/caddymodule/connections"
	_ "github.com/fairwayhq/fairway/caddymodule/console"
	_ "github.com/fairwayhq/fairway/caddymodule/embeddings"
	_ "github.com/fairwayhq/fairway/caddymodule/health"
	_ "github.com/fairwayhq/fairway/caddymodule/hosted"
	_ "github.com/fairwayhq/fairway/caddymodule/hosted/models"
	_ "github.com/fairwayhq/fairway/caddymodule/inspectors"
	_ "github.com/fairwayhq/fairway/caddymodule/login"
	_ "github.com/fairwayhq/fairway/caddymodule/mcp"
	_ "github.com/fairwayhq/fairway/caddymodule/mcpservers"
	_ "github.com/fairwayhq/fairway/caddymodule/oagent"
	_ "github.com/fairwayhq/fairway/caddymodule/oagent/command"
	_ "github.com/fairwayhq/fairway/caddymodule/ocp"
	_ "github.com/fairwayhq/fairway/caddymodule/ocp/command"
	_ "github.com/fairwayhq/fairway/caddymodule/otc"
	_ "github.com/fairwayhq/fairway/caddymodule/route"
	_ "github.com/fairwayhq/fairway/caddymodule/sigv4"
	_ "github.com/fairwayhq/fairway/caddymodule/stdio"
	_ "github.com/fairwayhq/fairway/caddymodule/stores/postgres"
	_ "github.com/fairwayhq/fairway/caddymodule/stores/redis"
)
