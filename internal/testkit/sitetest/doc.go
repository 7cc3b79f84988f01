// Package sitetest runs sites with a real Caddy, for tests of directives.
//
//   - site.go: a Site is a running Caddy with one site; requests to it, and its log
//   - caddyfile.go: adapts a Caddyfile, and runs the command `caddy tools`
//   - mcp.go, tasks.go: sessions, streams and tasks of MCP
//   - echo.go: APIs behind a site; documents.go: their documents
//   - issuer.go: an issuer of access tokens
//   - oagent.go, reviewer.go, chat.go, wire.go: agents, reviewers, guardrails on model traffic, requests on the wire
//   - hosted.go: a site that runs agents, with a model
//   - observe.go: access logs, metrics, spans and warnings; console.go: the pages of the console
//   - modules.go: handlers of Caddy that tests put into sites
//
// A package with site tests calls Main in its TestMain, and imports the packages of the directives that it uses.
package sitetest
