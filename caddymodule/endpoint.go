package caddymodule

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/ocp"
)

// endpoint is what the handlers of all tool protocols have in common: a path of
// the site and the toolset that is offered there.
type endpoint struct {
	protocol string
	path     string // without a slash at its end
	toolset  *toolset
	calls    callMetrics
	logger   *zap.Logger

	agent   string   // whose tools are offered; "" for all
	binding *binding // nil unless agent is set
	app     *Agents
	place   place
}

// newEndpoint provisions an endpoint. Reference is a toolset's name or the
// address of a document, config what the handler itself says of the document.
func newEndpoint(ctx caddy.Context, protocol, path, reference string, config *ToolsetConfig) (*endpoint, error) {
	if err := checkPath(path); err != nil {
		return nil, fmt.Errorf("path %q: %w", path, err)
	}
	app, err := ctx.App("agents")
	if err != nil {
		return nil, err
	}
	e := &endpoint{protocol: protocol, path: strings.TrimRight(path, "/"), logger: ctx.Logger(), app: app.(*Agents), place: placeOf(ctx)}
	if e.toolset, err = resolveToolset(ctx, e.app, reference, config); err != nil {
		return nil, err
	}
	if err := placedEndpointsOf(e.app).addReachable(ctx, e); err != nil {
		return nil, err
	}
	if err := checkToolExpressions(ctx); err != nil {
		return nil, err
	}
	e.app.offer(e.place, e.toolset)
	e.calls = collected.of(e.toolset.name, protocol)
	warnIfNothingBehind(ctx, protocol, e.logger)
	warnIfBypassed(ctx, protocol, e.path, e.logger)
	return e, nil
}

// beside returns the endpoint's twin for one more toolset that is offered at the
// same path, as config wants it.
func (e *endpoint) beside(ctx caddy.Context, reference string, config *ToolsetConfig) (*endpoint, error) {
	twin := *e
	var err error
	if twin.toolset, err = resolveToolset(ctx, e.app, reference, config); err != nil {
		return nil, err
	}
	e.app.offer(e.place, twin.toolset)
	twin.calls = collected.of(twin.toolset.name, e.protocol)
	return &twin, nil
}

// resolveToolset finds out what a handler offers. A toolset of that name comes
// first; otherwise what looks like a file, a path or a URL is a document; and a
// handler that says nothing means the only toolset there is.
func resolveToolset(ctx caddy.Context, app *Agents, reference string, config *ToolsetConfig) (*toolset, error) {
	if config == nil {
		config = new(ToolsetConfig)
	}
	if reference == "" && config.empty() && len(app.named) == 1 {
		for _, only := range app.named {
			return app.described(ctx, only, config.answers)
		}
	}
	if named, ok := app.toolset(reference); ok {
		if !config.empty() {
			return nil, fmt.Errorf("toolset %q is defined in the agents app: give its options there", reference)
		}
		return app.described(ctx, named, config.answers)
	}
	inline := *config
	switch {
	case reference == "":
	case !strings.ContainsAny(reference, `./\:{`):
		return nil, fmt.Errorf("there is no toolset %q (%s), and it is not the address of a document either: "+
			"a document has a dot, a slash or a colon in it, such as ./%s", reference, app.names(), reference)
	case inline.OpenAPI != "":
		return nil, fmt.Errorf("two documents, %q and %q: give one", reference, withoutSecrets(inline.OpenAPI))
	default:
		inline.OpenAPI = reference
	}
	if inline.OpenAPI == "" {
		return nil, fmt.Errorf("no toolset and no document: name a toolset (%s), or give an OpenAPI document", app.names())
	}
	return app.define(ctx, &inline)
}

// owns reports whether a request is for the endpoint's path or one below it, and
// is no tool call itself. Rest is the path below the endpoint's.
func (e *endpoint) owns(r *http.Request) (rest string, owned bool) {
	if rest, owned = e.below(r.URL.Path); !owned {
		return "", false
	}
	return rest, ocp.CallFromContext(r.Context()) == nil
}

// below reports whether a path is the endpoint's or one below it. Rest is what follows
// the endpoint's.
func (e *endpoint) below(path string) (rest string, below bool) {
	rest, below = strings.CutPrefix(path, e.path)
	return rest, below && (rest == "" || rest[0] == '/')
}

// passBy hands a request that is not for an endpoint to the next handler. Unless it is
// a tool call, its {http.tool.*} placeholders are empty texts: unknown placeholders
// are null in CEL, so that the expression {http.tool.name} == "" would be false.
func passBy(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if ocp.CallFromContext(r.Context()) == nil {
		if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
			for _, name := range toolPlaceholders {
				repl.Set(name, "")
			}
		}
	}
	return next.ServeHTTP(w, r)
}

// tools returns the toolset of the moment, nil if there is none yet.
func (e *endpoint) tools(r *http.Request, next caddyhttp.Handler) *ocp.Toolset {
	markToolEndpoint(r)
	return e.current(r, next)
}

// current is toolset.current, of which an agent's endpoint offers what that agent
// may use.
func (e *endpoint) current(r *http.Request, next caddyhttp.Handler) *ocp.Toolset {
	tools := currentTools(e.toolset, r, next)
	if e.agent == "" || tools == nil {
		return tools
	}
	return e.app.narrow(e.place, e.agent, e.toolset, tools)
}

// bind has the endpoint offer what the agent of that name may use.
func (e *endpoint) bind(agent string) {
	if agent == "" {
		return
	}
	e.agent = agent
	e.binding = &binding{site: e.place, agent: agent, protocol: e.protocol, path: e.path}
	e.app.bound = append(e.app.bound, e.binding)
}

// retryAfter says how long a client should wait for the tools.
func (e *endpoint) retryAfter() time.Duration {
	return e.toolset.loader.RetryAfter()
}

// unavailable answers 503 with a problem document (RFC 9457). Why the document
// could not be loaded is for the operator, and in the log.
func (e *endpoint) unavailable(w http.ResponseWriter) error {
	wait := strconv.Itoa(int(math.Ceil(e.retryAfter().Seconds())))
	detail := fmt.Sprintf("The OpenAPI document of toolset %q has not been loaded yet, so its tools are not known. "+
		"Try again in %s; the reason is in the gateway's log.", e.toolset.key.shownName(), inSeconds(wait))
	w.Header().Set("Retry-After", wait)
	writeProblem(w, http.StatusServiceUnavailable, "The tools are not loaded yet", detail)
	return nil
}

// inSeconds returns a whole number of seconds as text.
func inSeconds(wait string) string {
	if wait == "1" {
		return "1 second"
	}
	return wait + " seconds"
}

// caller returns what runs the tool calls of one request and records them in calls.
func (e *endpoint) caller(r *http.Request, next caddyhttp.Handler, tools *ocp.Toolset, calls *requestCalls) *caller {
	return newCaller(newDispatch(next, r, e.protocol, e.toolset, e.logger), tools, &e.calls, calls)
}

// streamCaller returns what runs the tool calls of one message of a stream and records them
// in calls.
func (e *endpoint) streamCaller(r *http.Request, next caddyhttp.Handler, tools *ocp.Toolset, calls *requestCalls) *caller {
	return newStreamCaller(newDispatch(next, r, e.protocol, e.toolset, e.logger), tools, &e.calls, calls)
}

// What is wrong with an endpoint's path.
var (
	errNoSlash    = errors.New("the path of an endpoint begins with a slash")
	errNotPlain   = errors.New("the path of an endpoint is plain, without *, ? or #: the handler knows what is below it")
	errIsDocument = errors.New("the endpoint's path comes before the document, as in: /mcp /openapi.json")
)

// isEndpoint reports whether there is something of the protocol at the path below
// the endpoint's.
func isEndpoint(rest string) bool {
	return slices.Contains(endpointPaths[:], rest)
}

// endpointPaths are those paths, the endpoint's own first.
var endpointPaths = [...]string{"", "/", "/sse", "/message"}
