// Package caddymodule registers Fairway's Caddy modules. It has no code of its own:
// each directive is a package below it, with its handler in handler.go and its
// Caddyfile syntax in caddyfile.go.
//
//	directive   reads the options of blocks; the order of the directives
//	site        the app `agents`, to which packages add sections; what handlers know of their site
//	stores      the section with the store; modules redis and postgres
//	bodies      the section that bounds request bodies
//	app         the section with toolsets, documents and credentials
//	inspect     loads the inspectors of arguments and responses
//	route       one tool call through the handler chain; tools_only closes the API to everything else
//
//	auth        access tokens and API keys
//	login       the login in front of an identity provider
//	health      liveness and readiness
//	mcp, otc    serve a toolset over a tool protocol
//	ocp         Open Context Protocol headers
//	oagent      agents that are enforced
//	connections the users' own accounts at third parties
//	console     pages about tools, calls, agents and reviews
//
//	events      receives the webhooks of APIs
//	mcpdiscovery the part of mcp that serves documents about the server
//	mcpevents   the part of mcp that serves events
//	calls       the section that keeps tool calls
//	files       what callers upload for tool calls: a section, and a directive for their URLs
//	archive     the section that sends the audit to files and webhooks
//	mcpservers  the option mcp_server, and what answers the calls of such tools
//	app/credential/exchange, inspectors, embeddings, sigv4: guest modules
//	hosted      the part of oagent that runs agents on this server
//	chat        the part of oagent with guardrails on traffic to a model API
//	replay      the section that evaluates changed rules over recorded calls
//	commands    `caddy tools`, `caddy agents`, and what all commands share
//	stdio       `caddy mcp`: a toolset on standard input and output
//	internal    what several of these use: kept calls, metrics, agent documents, routes of the site
//
// Imports run from the bottom of the first part to its top: site imports directive, app imports site, stores and bodies, and route
// imports app. The directives in the second part import route if they serve or see tool calls; auth, login and health do not.
// They do not import each other. Exceptions: login and connections get the site's host from auth, and the console reads the
// agents of oagent. Packages in the third part register themselves; hosted and chat import oagent, to whose handler they
// belong. No directive but the console imports a package of the third part. Only this package links those with commands (commands,
// stdio, ocp/command, oagent/command): a directive alone has none.
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
	_ "github.com/fairwayhq/fairway/caddymodule/events"
	_ "github.com/fairwayhq/fairway/caddymodule/files"
	_ "github.com/fairwayhq/fairway/caddymodule/health"
	_ "github.com/fairwayhq/fairway/caddymodule/hosted"
	_ "github.com/fairwayhq/fairway/caddymodule/hosted/models"
	_ "github.com/fairwayhq/fairway/caddymodule/inspectors"
	_ "github.com/fairwayhq/fairway/caddymodule/login"
	_ "github.com/fairwayhq/fairway/caddymodule/mcp"
	_ "github.com/fairwayhq/fairway/caddymodule/mcpdiscovery"
	_ "github.com/fairwayhq/fairway/caddymodule/mcpevents"
	_ "github.com/fairwayhq/fairway/caddymodule/mcpservers"
	_ "github.com/fairwayhq/fairway/caddymodule/oagent"
	_ "github.com/fairwayhq/fairway/caddymodule/oagent/command"
	_ "github.com/fairwayhq/fairway/caddymodule/ocp"
	_ "github.com/fairwayhq/fairway/caddymodule/ocp/command"
	_ "github.com/fairwayhq/fairway/caddymodule/otc"
	_ "github.com/fairwayhq/fairway/caddymodule/replay"
	_ "github.com/fairwayhq/fairway/caddymodule/route"
	_ "github.com/fairwayhq/fairway/caddymodule/sigv4"
	_ "github.com/fairwayhq/fairway/caddymodule/stdio"
	_ "github.com/fairwayhq/fairway/caddymodule/stores/postgres"
	_ "github.com/fairwayhq/fairway/caddymodule/stores/redis"
)
