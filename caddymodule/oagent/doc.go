// Package oagent is the directive `oagent`: it enforces agent documents
// (OpenAgentSpec) on requests to an API, with package github.com/fairwayhq/fairway/oagent.
//
// The Handler reads the documents (files.go) and links their capabilities to the tools
// of the site's toolsets (link.go). For each request it makes a passage
// (guarded_request.go), which finds the agent and the operation, asks the Guard, and
// lets the request pass or refuses it (refusal.go). A tool call's response is checked in
// its recorder (call.go); a plain request's response is held until it is checked
// (answer.go, outputs.go).
//
// Beside that it serves the pages of agents, Engagements and reviews (endpoints*.go),
// asks agents that review (reviewer*.go), and checks the traffic to model APIs
// (chat*.go). `caddy oagent` is in command.go.
package oagent
