package siteroutes

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
)

// Endpoint is a tool endpoint in the routes of its server.
type Endpoint struct {
	Protocol string
	Path     string                 // without a trailing slash
	Toolsets func() string          // returns the names of the toolsets, for messages
	Responds func(path string) bool // reports whether the endpoint responds to requests for a path

	positions []position // from the outermost list of routes to the innermost; nil if they cannot be determined
	registry  *registry
}

// Check returns an error if no request can reach the endpoint that is being provisioned, or if a matcher
// after it has the same result for every request. Call it once, before the other methods.
func (e *Endpoint) Check(ctx caddy.Context, agents *app.App) error {
	e.positions, e.registry = positionsOf(ctx), registryOf(agents)
	if err := e.registry.add(e); err != nil {
		return err
	}
	return checkToolExpressions(e.positions)
}

// Warn logs a warning if no handler after the endpoint responds to tool calls, and for each handler that
// tool calls bypass.
func (e *Endpoint) Warn(ctx caddy.Context, logger *zap.Logger) {
	warnIfNoUpstream(ctx, e.Protocol, logger)
	warnIfBypassed(ctx, e.Protocol, e.Path, logger)
}

// String names the endpoint as the Caddyfile does.
func (e *Endpoint) String() string {
	return fmt.Sprintf("%s %s (toolset %s)", e.Protocol, e.Path, e.Toolsets())
}

// callPath returns the path that tool calls are sent to.
func (e *Endpoint) callPath() string {
	switch {
	case e.Protocol == "otc":
		return e.Path + "/call"
	case e.Path == "":
		return "/"
	}
	return e.Path
}
