// Package caddymodule is the Caddy side of Fairway: the modules that a Caddyfile
// or JSON configuration names. It joins packages that know no Caddy (ocp,
// mcpadapter, otcadapter) to Caddy's routes, placeholders, logs and metrics.
//
// The app agents (agents.go) opens the toolsets that the configuration defines
// (toolset.go). Each stands for a document that is kept current over reloads and
// shared by whoever wants the same tools of it (document.go). The handlers mcp and
// otc offer a toolset at a path of the site (endpoint.go, mcp.go, otc.go) and hand
// their requests to an adapter, together with a caller (caller.go).
//
// A tool call that the adapter asks of the caller becomes a request of its own
// through the handlers that stand behind (dispatch.go). It takes along what the
// caller's request says of the caller (headers.go); its answer is recorded up to a
// limit (recorder.go), decoded (encoding.go), and becomes an ocp.Result, or an
// ocp.Failure in words fit for a model (failures.go). Nothing else of the site
// knows that it answers a tool call, unless it asks ocp.CallFromContext.
//
// The handler ocp reads what a request says of its agent's context (ocp.go), passes
// on what is good (ocp_forward.go), and is the http.ResponseWriter of the answer
// (ocp_exchange.go): it adds the reply to the header, and holds a JSON answer
// that gets further properties until its end (ocp_hold.go). Tool calls are led
// through it as well, though they begin behind it (ocp_call.go).
package caddymodule
