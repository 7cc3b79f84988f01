package route

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/internal/keptcall"
	"github.com/fairwayhq/fairway/caddymodule/internal/metrics"
	"github.com/fairwayhq/fairway/caddymodule/internal/siteroutes"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
)

// Endpoint is the common part of the handlers of all tool protocols: a path of the site and the
// toolsets that it serves. Parts holds the toolsets, Listings decides which of their tools clients see.
type Endpoint struct {
	Protocol string
	Path     string // without a trailing slash
	Logger   *zap.Logger
	App      *app.App
	Parts    *Parts
	Listings *listings
	SiteName string               // see siteroutes.SiteName
	Routes   *siteroutes.Endpoint // the endpoint among the handlers of its server; nil if clients cannot reach it
	calls    keptcall.Source
	uploads  Uploads // nil without uploads

	AgentLimit *app.AgentEndpoint // nil unless the endpoint is limited to the tools of an agent
	agent      *agentTools

	signs         bool // a handler after the endpoint signs requests with credentials of the gateway
	authenticated bool // handlers before the endpoint, or TLS, authenticate each caller

	// Polling is how long calls poll the Location of a 202 if the adapter cannot poll itself; 0 if they do not poll.
	Polling time.Duration

	// IgnoreScopes is true if every caller may use all tools, whatever the scopes of its token.
	IgnoreScopes bool

	// LibraryScopes returns the scopes that files and prompts of the endpoint need. Nil means none.
	LibraryScopes func() []string

	// Message returns the request of a client that calls a tool: the path below the endpoint's, and the body. Toolset
	// has the tool, and arguments is a JSON object.
	Message func(toolset *tools.Toolset, tool string, arguments []byte) (path string, body []byte)

	// Hidden reports whether clients cannot see and call a tool, although the endpoint may. Nil means
	// that no tool is hidden.
	Hidden func(*tools.Tool) bool
}

// NewEndpoint provisions an endpoint. Reference is the name of a toolset or the address of a
// document. Config holds the toolset options that the handler itself configures.
func NewEndpoint(ctx caddy.Context, protocol, path, reference string, config *app.ToolsetConfig) (*Endpoint, error) {
	if err := CheckPath(path); err != nil {
		return nil, fmt.Errorf("path %q: %w", path, err)
	}
	agents, err := app.Of(ctx)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{Protocol: protocol, Path: strings.TrimRight(path, "/"), Logger: ctx.Logger(), App: agents}
	e.App.Site.AddDigest(ctx.Module())
	e.agent = &agentTools{site: site.At(ctx)}
	t, err := ResolveToolset(ctx, e.App, reference, config)
	if err != nil {
		return nil, err
	}
	e.signs = siteroutes.Signs(ctx, protocol)
	part := e.newPart(t)
	e.Parts, e.Listings = part.listings.parts, part.listings
	e.Routes = &siteroutes.Endpoint{
		Protocol: protocol, Path: e.Path, Toolsets: func() string { return e.Parts.Name() }, Responds: e.responds, Logger: e.Logger,
		Served: e.served, Agent: func() string { return e.agent.name },
	}
	if protocol == "mcp" {
		e.Routes.Below = mcpPaths[:]
	}
	if err := e.Routes.Check(ctx, e.App); err != nil {
		return nil, err
	}
	e.addServed(ctx, t)
	e.authenticated = e.Routes.IsAuthenticated(ctx)
	e.calls, e.uploads, e.SiteName = CallsOf(e.App), uploadsOf(e.App), siteroutes.SiteName(ctx)
	addToSite(e)
	e.App.Site.Resources.AddEndpoint(e.agent.site, e.Routes.Prefix()+e.Path, e.scopes)
	return e, nil
}

// uploadsOf returns what keeps files, or nil if the configuration has no uploads.
func uploadsOf(agents *app.App) Uploads {
	if found, ok, err := site.Find[Uploads](agents.Site); ok && err == nil && found.TakesUploads() {
		return found
	}
	return nil
}

// served returns the toolsets with the tools that clients may use: nil for a toolset that is not loaded.
func (e *Endpoint) served() iter.Seq2[*app.Toolset, *tools.Toolset] {
	return func(yield func(*app.Toolset, *tools.Toolset) bool) {
		for _, part := range e.Parts.All {
			if !yield(part.Toolset, e.agent.limit(part.Toolset, loadedTools(part.Toolset))) {
				return
			}
		}
	}
}

// scopes returns the scopes that the endpoint's files, prompts and tools need, of the documents that are loaded.
func (e *Endpoint) scopes() (scopes []string) {
	if e.LibraryScopes != nil {
		scopes = append(scopes, e.LibraryScopes()...)
	}
	if e.IgnoreScopes {
		return scopes
	}
	for _, part := range e.Parts.All {
		set := part.Toolset.Loader.Toolset()
		if set == nil {
			continue
		}
		needed := part.scopes.Load()
		if needed == nil || needed.of != set {
			needed = &neededScopes{set, set.Scopes()}
			part.scopes.Store(needed)
		}
		scopes = append(scopes, needed.scopes...)
	}
	return scopes
}

// addServed registers a toolset that the endpoint serves.
func (e *Endpoint) addServed(ctx caddy.Context, t *app.Toolset) {
	e.App.AddServed(e.agent.site, t)
	if usesCredentials(t, e.signs) {
		siteroutes.WarnIfDropped(ctx, e.Protocol, PassedHeaders(t, e.signs), e.Logger.With(zap.String("toolset", t.Name)))
	}
}

// PassedHeaders returns the canonical names of the caller's headers that pass beside credentials of the gateway, besides safe
// ones. Beside a signature alone, these include the credentials of the caller, which other APIs of the site may need.
func PassedHeaders(t *app.Toolset, signs bool) []string {
	if !signs || usesCredentials(t, false) {
		return t.ForwardHeaders
	}
	names := append(slices.Clone(t.ForwardHeaders), "Authorization", "Cookie")
	if set := t.Loader.Toolset(); set != nil {
		for _, scheme := range set.SecuritySchemes {
			if scheme.Type == "apiKey" && scheme.In == "header" {
				names = append(names, textproto.CanonicalMIMEHeaderKey(scheme.ParameterName))
			}
		}
	}
	return names
}

// ResolveToolset determines the toolset that a handler serves:
//
//   - If reference names a configured toolset, that toolset.
//   - Otherwise, if reference looks like a file, a path or a URL, a toolset of that document.
//   - If the handler configures nothing, the only configured toolset.
func ResolveToolset(ctx caddy.Context, agents *app.App, reference string, config *app.ToolsetConfig) (*app.Toolset, error) {
	if config == nil {
		config = new(app.ToolsetConfig)
	}
	if reference == "" && config.Empty() && len(agents.ToolsetsByName) == 1 {
		for _, only := range agents.ToolsetsByName {
			return namedToolset(ctx, only, config)
		}
	}
	if named, ok := agents.Toolset(reference); ok {
		if !config.Empty() {
			return nil, fmt.Errorf("toolset %q is defined in the agents app: give its options there", reference)
		}
		return namedToolset(ctx, named, config)
	}
	inline := *config
	switch {
	case reference == "":
	case !app.IsAddress(reference):
		if near := text.Nearest(reference, maps.Keys(agents.ToolsetsByName)); near != "" {
			return nil, fmt.Errorf("unknown toolset %q; did you mean %s?", reference, near)
		}
		return nil, fmt.Errorf("unknown toolset %q (%s); to give a document instead, write an address with a dot, a slash or a colon, such as ./%s", reference, agents.ListNames(), reference)
	case inline.OpenAPI != "":
		return nil, fmt.Errorf("two documents are given, %q and %q; remove one", reference, text.RedactURL(inline.OpenAPI))
	default:
		inline.OpenAPI = reference
	}
	if inline.OpenAPI == "" {
		return nil, fmt.Errorf("no toolset and no document: give the name of a toolset (%s) or an OpenAPI document, as in: mcp /mcp trains.yaml; if you wrote {$NAME}, this variable is not set", agents.ListNames())
	}
	return agents.OpenInline(ctx, &inline)
}

// namedToolset returns a toolset of the agents app. If the handler lists schemas of responses, the toolset has them
// from then on.
func namedToolset(ctx caddy.Context, t *app.Toolset, config *app.ToolsetConfig) (*app.Toolset, error) {
	if !config.ResponseSchemas {
		return t, nil
	}
	return t, t.LoadResponseSchemas(ctx)
}

// newPart returns a part with a toolset. Its listing does not depend on the other parts.
func (e *Endpoint) newPart(t *app.Toolset) *Part {
	p := &Part{Toolset: t, metrics: metrics.All.Of(t.Name, e.Protocol), callers: e.App.CallerMetrics, agent: e.agent, signed: e.signs}
	p.listings = newListings(&Parts{All: []*Part{p}, whole: p, app: e.App}, e.Logger)
	return p
}

// AddToolsets adds further toolsets that are served at the same path.
func (e *Endpoint) AddToolsets(ctx caddy.Context, references []string, config *app.ToolsetConfig) error {
	if len(references) == 0 {
		return nil
	}
	if len(references) >= maxToolsets {
		return fmt.Errorf("%s %s has %d toolsets; an endpoint can have %d at most", e.Protocol, e.Path, len(references)+1, maxToolsets)
	}
	parts := slices.Clone(e.Parts.All)
	for _, reference := range references {
		t, err := ResolveToolset(ctx, e.App, reference, config)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(parts, func(other *Part) bool { return other.Toolset.Document == t.Document }) {
			return fmt.Errorf("toolset %s is given twice", t.Name)
		}
		e.addServed(ctx, t)
		parts = append(parts, e.newPart(t))
	}
	return e.serve(ctx, parts)
}

// serve replaces the parts of the endpoint by several.
func (e *Endpoint) serve(ctx caddy.Context, parts []*Part) error {
	e.Parts = &Parts{All: parts, app: e.App, path: e.Path, routed: e.Routes.DistinguishesToolsets()}
	whole := &app.Toolset{Name: strings.Join(e.Parts.names(func(t *app.Toolset) string { return t.Name }), ","), Search: e.Parts.commonSearch()}
	e.Parts.whole = &Part{Toolset: whole, metrics: metrics.All.Of(whole.Name, e.Protocol), agent: e.agent}
	e.Parts.logger = e.Logger.With(zap.String("path", e.Path), zap.String("toolsets", whole.Name))
	e.Listings = newListings(e.Parts, e.Logger)
	return errors.Join(e.App.Site.ProvisionEvents(ctx), e.Parts.merge(e.Protocol))
}

// LimitToAgent limits the endpoint to the tools that the named agent may use.
func (e *Endpoint) LimitToAgent(agent string) (err error) {
	if agent == "" {
		return nil
	}
	if e.agent.agents, err = e.App.Agents(); err != nil {
		return err
	}
	e.agent.name = agent
	e.AgentLimit = &app.AgentEndpoint{Site: e.agent.site, Agent: agent, Protocol: e.Protocol, Path: e.Path}
	e.agent.agents.AddEndpoint(e.AgentLimit)
	return nil
}

// agentTools limits tools to those that an agent of a site may use.
type agentTools struct {
	agents app.Agents // nil for all tools
	site   site.Site
	name   string // of the agent; "" for all tools
}

// limit returns the tools of a toolset that the agent may use.
func (a *agentTools) limit(t *app.Toolset, set *tools.Toolset) *tools.Toolset {
	if a.name == "" || set == nil {
		return set
	}
	return a.agents.LimitTools(a.site, a.name, t, set)
}

// WriteUnavailable responds with 503 and a problem document (RFC 9457), because a toolset is not
// loaded yet. Wait is how long the client should wait before it tries again. The reason is for the
// operator and only in the log.
func WriteUnavailable(w http.ResponseWriter, toolset string, wait time.Duration) error {
	seconds := strconv.Itoa(int(math.Ceil(wait.Seconds())))
	detail := fmt.Sprintf("The source of toolset %q, an OpenAPI document or an MCP server, has not been loaded yet, so its tools are not known. "+
		"Try again in %s; the reason is in the gateway's log.", toolset, inSeconds(seconds))
	w.Header().Set("Retry-After", seconds)
	respond.WriteProblem(w, http.StatusServiceUnavailable, "The tools are not loaded yet", detail)
	return nil
}

// inSeconds returns a whole number of seconds as text.
func inSeconds(wait string) string {
	if wait == "1" {
		return "1 second"
	}
	return wait + " seconds"
}

// ErrNoSlash is the error of a path of an endpoint.
var ErrNoSlash = errors.New("the path of an endpoint must begin with a slash")

// NewInternalEndpoint returns an endpoint through which the gateway itself calls the tools of a toolset.
// The calls pass the handlers of the chain. Clients cannot reach the endpoint. Path is for the log of recent calls.
func NewInternalEndpoint(chain *siteroutes.CallChain, agents *app.App, protocol, path string, t *app.Toolset, logger *zap.Logger) *Endpoint {
	e := &Endpoint{
		Protocol: protocol, Path: path, Logger: logger, App: agents, SiteName: chain.SiteName(), calls: CallsOf(agents), uploads: uploadsOf(agents),
		agent: &agentTools{site: chain.Site()},
	}
	part := e.newPart(t)
	part.maxTokens = -1
	e.Parts, e.Listings = part.listings.parts, part.listings
	return e
}
