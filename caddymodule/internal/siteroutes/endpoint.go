package siteroutes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
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

// CheckMCPServers returns an error if no handler after the endpoint answers the calls of a toolset with mcp_server. If the
// routes do not show whether this is so, there is no error.
func (e *Endpoint) CheckMCPServers(toolset string) error {
	answers := func(h rawHandler) bool { return h.Handler == "mcp_servers" || h.Handler == "invoke" }
	reached := func(route *caddyhttp.Route, raw json.RawMessage) bool {
		isAlternative := slices.ContainsFunc(e.positions, func(p position) bool {
			return p.route() != route && route.Group != "" && p.route().Group == route.Group
		})
		return !isAlternative && anyRaw(raw, answers)
	}
	if e.positions == nil || e.anyAfter(reached) {
		return nil
	}
	return fmt.Errorf("%s: toolset %s has the option mcp_server, and no mcp_servers after the endpoint answers its calls: add the directive mcp_servers to the same block",
		e, toolset)
}

// Warn logs a warning if no handler after the endpoint responds to tool calls, and for each handler that
// tool calls bypass.
func (e *Endpoint) Warn(ctx caddy.Context, logger *zap.Logger) {
	warnIfNoUpstream(ctx, e.Protocol, logger)
	warnIfBypassed(ctx, e.Protocol, e.Path, logger)
	e.warnAboutProxies(ctx, logger)
	if prefix := e.Prefix(); prefix != "" && e.Path != "" {
		logger.Warn("clients reach the endpoint at another path than its own, because handle_path strips the beginning: use that path in clients, or move the endpoint out of the block",
			zap.String("directive", e.Protocol), zap.String("path", e.Path), zap.String("reached_at", prefix+e.Path))
	}
}

// Prefix returns what handlers before the endpoint, such as those of handle_path, strip from the paths of clients. It returns "" if it is not known.
func (e *Endpoint) Prefix() (prefix string) {
	for _, p := range e.positions {
		for i := range p.routes[:p.index] {
			for _, h := range p.routes[i].Handlers {
				if strip, ok := h.(*rewrite.Rewrite); ok && len(p.routes[i].MatcherSets) == 0 {
					prefix += strings.TrimRight(strip.StripPathPrefix, "/")
				}
			}
		}
	}
	return prefix
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
