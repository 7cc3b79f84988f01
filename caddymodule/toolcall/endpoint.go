package toolcall

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/internal/problem"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// Endpoint is the common part of the handlers of all tool protocols: a path of the site and the
// toolsets that it serves.
type Endpoint struct {
	Protocol string
	Path     string          // without a trailing slash
	Toolset  *agents.Toolset // if there are several, it has only a name and a search mode; see Parts
	metrics  agents.CallMetrics
	Logger   *zap.Logger

	Agent      string                // the agent whose tools are served; "" for all tools
	AgentLimit *agents.AgentEndpoint // nil unless Agent is set
	App        *agents.App
	Site       agents.Site

	parts    []*Endpoint  // one for each toolset; nil if there is only one
	merger   *tool.Merger // of the tools that the endpoint serves; nil unless Merge was called for several toolsets
	declared *tool.Merger // of all tools of the documents
	routed   bool         // no warning if toolsets have requests with the same method and path

	listing listingOptions
	lists   *listings

	maxTokens int // limits the responses of tools without a limit of their own, in tokens; less than 0 means no limit

	// IgnoreScopes is true if every caller may use all tools, whatever the scopes of its token.
	IgnoreScopes bool

	// Hidden reports whether clients cannot see and call a tool, although the endpoint may. Nil means
	// that no tool is hidden.
	Hidden func(*tool.Tool) bool
}

// NewEndpoint provisions an endpoint. Reference is the name of a toolset or the address of a
// document. Config holds the toolset options that the handler itself configures.
func NewEndpoint(ctx caddy.Context, protocol, path, reference string, config *agents.ToolsetConfig) (*Endpoint, error) {
	if err := CheckPath(path); err != nil {
		return nil, fmt.Errorf("path %q: %w", path, err)
	}
	app, err := ctx.App("agents")
	if err != nil {
		return nil, err
	}
	e := &Endpoint{Protocol: protocol, Path: strings.TrimRight(path, "/"), Logger: ctx.Logger(), App: app.(*agents.App), Site: agents.SiteOf(ctx), lists: new(listings)}
	if e.Toolset, err = ResolveToolset(ctx, e.App, reference, config); err != nil {
		return nil, err
	}
	if err := endpointRegistryOf(e.App).addReachable(ctx, e); err != nil {
		return nil, err
	}
	if err := checkToolExpressions(ctx); err != nil {
		return nil, err
	}
	e.App.AddServed(e.Site, e.Toolset)
	e.metrics = agents.AllMetrics.Of(e.Toolset.Name, protocol)
	warnIfNoUpstream(ctx, protocol, e.Logger)
	warnIfBypassed(ctx, protocol, e.Path, e.Logger)
	return e, nil
}

// ResolveToolset determines the toolset that a handler serves:
//
//   - If reference names a configured toolset, that toolset.
//   - Otherwise, if reference looks like a file, a path or a URL, a toolset of that document.
//   - If the handler configures nothing, the only configured toolset.
func ResolveToolset(ctx caddy.Context, app *agents.App, reference string, config *agents.ToolsetConfig) (*agents.Toolset, error) {
	if config == nil {
		config = new(agents.ToolsetConfig)
	}
	if reference == "" && config.Empty() && len(app.ToolsetsByName) == 1 {
		for _, only := range app.ToolsetsByName {
			return app.WithResponseSchemas(ctx, only, config.ResponseSchemas)
		}
	}
	if named, ok := app.Toolset(reference); ok {
		if !config.Empty() {
			return nil, fmt.Errorf("toolset %q is defined in the agents app: give its options there", reference)
		}
		return app.WithResponseSchemas(ctx, named, config.ResponseSchemas)
	}
	inline := *config
	switch {
	case reference == "":
	case !strings.ContainsAny(reference, `./\:{`):
		if near := nearest.Name(reference, maps.Keys(app.ToolsetsByName)); near != "" {
			return nil, fmt.Errorf("unknown toolset %q; did you mean %s?", reference, near)
		}
		return nil, fmt.Errorf("unknown toolset %q (%s); to give a document instead, write an address with a dot, a slash or a colon, such as ./%s", reference, app.ListNames(), reference)
	case inline.OpenAPI != "":
		return nil, fmt.Errorf("two documents are given, %q and %q; remove one", reference, agents.RedactURL(inline.OpenAPI))
	default:
		inline.OpenAPI = reference
	}
	if inline.OpenAPI == "" {
		return nil, fmt.Errorf("no toolset and no document: give the name of a toolset (%s) or an OpenAPI document", app.ListNames())
	}
	return app.OpenInline(ctx, &inline)
}

// LimitToAgent limits the endpoint to the tools that the named agent may use.
func (e *Endpoint) LimitToAgent(agent string) {
	if agent == "" {
		return
	}
	e.Agent = agent
	e.AgentLimit = &agents.AgentEndpoint{Site: e.Site, Agent: agent, Protocol: e.Protocol, Path: e.Path}
	e.App.AgentEndpoints = append(e.App.AgentEndpoints, e.AgentLimit)
}

// RetryAfter returns how long a client should wait before it tries again to get the tools.
func (e *Endpoint) RetryAfter() (wait time.Duration) {
	for _, part := range e.Parts() {
		wait = max(wait, part.Toolset.Loader.RetryAfter())
	}
	return wait
}

// WriteUnavailable responds with 503 and a problem document (RFC 9457). The reason is for the
// operator and only in the log.
func (e *Endpoint) WriteUnavailable(w http.ResponseWriter) error {
	wait := strconv.Itoa(int(math.Ceil(e.RetryAfter().Seconds())))
	detail := fmt.Sprintf("The OpenAPI document of toolset %q has not been loaded yet, so its tools are not known. "+
		"Try again in %s; the reason is in the gateway's log.", e.ShownName(), inSeconds(wait))
	w.Header().Set("Retry-After", wait)
	problem.Write(w, http.StatusServiceUnavailable, "The tools are not loaded yet", detail)
	return nil
}

// inSeconds returns a whole number of seconds as text.
func inSeconds(wait string) string {
	if wait == "1" {
		return "1 second"
	}
	return wait + " seconds"
}

// Errors of an endpoint's path.
var (
	ErrNoSlash    = errors.New("the path of an endpoint must begin with a slash")
	errNotPlain   = errors.New("the path of an endpoint must not contain *, ? or #; the paths below it are included anyway")
	errIsDocument = errors.New("the endpoint's path must be given before the document, as in: mcp /mcp /openapi.json")
)
