package siteroutes

import (
	"fmt"
	"iter"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/tools"
)

// Endpoint is a tool endpoint in the routes of its server.
type Endpoint struct {
	Protocol string
	Path     string                 // without a trailing slash
	Toolsets func() string          // returns the names of the toolsets, for messages
	Responds func(path string) bool // reports whether the endpoint responds to requests for a path
	Logger   *zap.Logger
	Below    []string // the only paths below Path at which it responds, with ""; nil if it responds at all

	// Served returns the toolsets with the tools that clients may use: nil for a toolset that is not loaded.
	Served func() iter.Seq2[*app.Toolset, *tools.Toolset]
	Agent  func() string // returns the agent that the endpoint is limited to; "" for none

	positions []position // from the outermost list of routes to the innermost; nil if they cannot be determined
	registry  *registry
}

// Check registers the endpoint that is being provisioned. It returns an error if a matcher after it has the same result for
// every request. Call it once, before the other methods.
func (e *Endpoint) Check(ctx caddy.Context, agents *app.App) error {
	e.positions, e.registry = positionsOf(ctx), registryOf(agents)
	if e.positions != nil {
		e.registry.all = append(e.registry.all, e)
		e.registry.tryLater(ctx)
	}
	return checkToolExpressions(e.positions)
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
