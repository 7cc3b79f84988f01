// Package models has the guest modules of the namespace oagent.models: the models that agents
// use.
//
//	oagent.models.openai            any OpenAI-compatible API
//	oagent.models.openai_responses  OpenAI's Responses API
//	oagent.models.anthropic         Anthropic's API
//	oagent.models.scripted          plays a script, for examples
//
// Each module implements model.Model (package github.com/fairwayhq/fairway/oagent/hosted/model). A host
// module has a field for the JSON of a model, loads it with caddy.Context.LoadModule, and calls
// Generate:
//
//	ModelRaw json.RawMessage `json:"model,omitempty" caddy:"namespace=oagent.models inline_key=provider"`
//
// In a Caddyfile, the token before the block is the name of the module. A request passes the
// fallback first, then the retries, the circuit breaker, the metrics (metrics.go), and the package of the API: each
// request to the API counts, also those that are repeated.
package models
