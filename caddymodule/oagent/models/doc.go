// Package models has the guest modules of the namespace oagent.models: the models that agents
// use.
//
//	oagent.models.openai     any OpenAI-compatible API
//	oagent.models.anthropic  Anthropic's API
//	oagent.models.scripted   plays a script, for examples
//
// Each module implements model.Model (package github.com/fairwayhq/fairway/oagent/model), so the
// module that loads it with caddy.Context.LoadModule calls Generate. A request passes the
// retries first, then the metrics (metrics.go), then the package of the API: each request to the
// API counts, also those that are repeated.
package models
