package route

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/bodies"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/loader"
)

// Owns reports whether a request is for the endpoint's path or a path below it. Inner requests
// of tool calls are never owned. Rest is the part of the path after the endpoint's.
func (e *Endpoint) Owns(r *http.Request) (rest string, owned bool) {
	if rest, owned = e.relativePath(r.URL.Path); !owned {
		return "", false
	}
	return rest, tools.CallFromContext(r.Context()) == nil
}

// relativePath reports whether a path is the endpoint's or below it. Rest is the part of the path
// after the endpoint's.
func (e *Endpoint) relativePath(path string) (rest string, below bool) {
	rest, below = strings.CutPrefix(path, e.Path)
	return rest, below && (rest == "" || rest[0] == '/')
}

// responds reports whether the endpoint responds to requests for a path.
func (e *Endpoint) responds(path string) bool {
	rest, below := e.relativePath(path)
	return below && (e.Protocol == "otc" || IsMCPPath(rest))
}

// PassThrough passes a request that is not for an endpoint to the next handler. If the request is
// not a tool call, PassThrough sets its {http.tool.*} placeholders to empty strings. Otherwise they
// would be null in CEL, and the expression {http.tool.name} == "" would be false.
func PassThrough(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if tools.CallFromContext(r.Context()) == nil {
		if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
			for _, name := range toolPlaceholders {
				repl.Set(name, "")
			}
		}
	}
	return next.ServeHTTP(w, r)
}

// Tools returns the endpoint's current tools and marks the request as one to a tool endpoint.
// It returns nil if no document is loaded yet.
func (e *Endpoint) Tools(r *http.Request, next caddyhttp.Handler) *tools.Toolset {
	MarkToolEndpoint(r)
	return e.Current(r, next)
}

// Current returns the endpoint's current tools, with its built-in tools. An endpoint of an agent
// serves the tools that the agent may use.
func (e *Endpoint) Current(r *http.Request, next caddyhttp.Handler) *tools.Toolset {
	return e.Listings.current(r, next)
}

// Current returns the part's current tools, with its built-in tools.
func (p *Part) Current(r *http.Request, next caddyhttp.Handler) *tools.Toolset {
	return p.listings.current(r, next)
}

// BeginCaller prepares c, a zero Caller, to run the tool calls of one request and to record them in calls.
func (e *Endpoint) BeginCaller(c *Caller, r *http.Request, next caddyhttp.Handler, toolset *tools.Toolset, calls *RequestCalls) {
	c.init(e, e.Parts.whole, next, r, toolset, calls)
	c.begin()
}

// Caller returns the only caller of a request.
func (e *Endpoint) Caller(r *http.Request, next caddyhttp.Handler, toolset *tools.Toolset) *Caller {
	c := new(Caller)
	e.BeginPartCaller(c, e.Parts.whole, r, next, toolset)
	return c
}

// BeginPartCaller prepares c, a zero Caller, to be the only caller of a request. The tools are those of one
// part.
func (e *Endpoint) BeginPartCaller(c *Caller, part *Part, r *http.Request, next caddyhttp.Handler, toolset *tools.Toolset) {
	c.init(e, part, next, r, toolset, &c.only)
	c.begin()
}

// StreamCaller returns the caller of one message of a stream, whose messages are served concurrently. It
// records its calls in calls. The stream has no {http.tool.*} placeholders: they describe a single call.
func (e *Endpoint) StreamCaller(r *http.Request, next caddyhttp.Handler, toolset *tools.Toolset, calls *RequestCalls) *Caller {
	c := new(Caller)
	c.init(e, e.Parts.whole, next, r, toolset, calls)
	return c
}

// Await returns the endpoint's tools like Tools. It first waits until the documents are loaded, but
// not longer than limit. It returns an error if no document can be loaded.
func (e *Endpoint) Await(r *http.Request, next caddyhttp.Handler, limit time.Duration) (*tools.Toolset, error) {
	toolset := e.Tools(r, next)
	if toolset != nil && e.Parts.allLoaded() {
		return toolset, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	err := e.Parts.load(ctx)
	if toolset = e.Current(r, next); toolset != nil {
		return toolset, nil
	}
	if err == nil {
		err = errors.New("the document has no tools")
	}
	return nil, err
}

// CurrentTools returns the toolset's current tools without the arguments that its credentials
// fill. It returns nil if the document is not loaded. See DeclaredTools.
func CurrentTools(t *app.Toolset, r *http.Request, next caddyhttp.Handler) *tools.Toolset {
	toolset := DeclaredTools(t, r, next)
	if !t.ChangesList {
		return toolset
	}
	return t.Filled(toolset)
}

// DeclaredTools returns the toolset's current tools with all arguments that the document
// declares. It returns nil if the document is not loaded. A document of the site is fetched
// through next, the handlers after the one that r has reached.
func DeclaredTools(t *app.Toolset, r *http.Request, next caddyhttp.Handler) *tools.Toolset {
	if !t.FromSite {
		return t.Loader.Toolset()
	}
	toolset, err := t.Loader.Ensure(r.Context(), FetchThrough(next, r, int64(t.Key.MaxDocument)))
	if err != nil && !errors.Is(err, loader.ErrNotLoaded) {
		return nil
	}
	return toolset
}

// AuthenticatedUser returns the request's {http.auth.user.id}. It returns "" if the caller is
// not authenticated.
func AuthenticatedUser(r *http.Request) string {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	user, _ := repl.GetString("http.auth.user.id")
	return user
}

// UserOf returns the user of the request with groups and claims. If a handler has changed the user's id
// after agent_auth, the groups and claims are unknown.
func UserOf(r *http.Request) *identity.User {
	id := AuthenticatedUser(r)
	user, ok := caddyhttp.GetVar(r.Context(), identity.Var).(*identity.User)
	switch {
	case !ok:
		return &identity.User{ID: id}
	case user.ID != id:
		return identity.Unknown(id)
	}
	return user
}

// ClientAddress returns the IP address of the client, without the port. It respects trusted proxies.
func ClientAddress(r *http.Request) string {
	if address, ok := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string); ok && address != "" {
		return address
	}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// OwnerOf returns whose shares a request uses: those of the authenticated user, or of the client's network.
func OwnerOf(r *http.Request) share.Owner {
	return share.OwnerOf(AuthenticatedUser(r), ClientAddress(r))
}

// usesCredentials reports whether calls of a toolset carry credentials of the gateway, and not those of the caller: the toolset has
// some, or the gateway itself is the client of an MCP server. Signs says that a handler after the endpoint signs requests. Whatever
// depends on this asks here.
func usesCredentials(t *app.Toolset, signs bool) bool {
	return signs || len(t.Credentials) > 0 || t.HasMCPServer
}

// BoundBody is app.Bodies.Bound for the caller of a request. Most bodies are small, so only their speed is limited.
func BoundBody(a *app.App, r *http.Request) (release func()) {
	if r.ContentLength <= 0 || r.ContentLength > bodies.FreeBody {
		if r.ContentLength == 0 {
			return nil
		}
		return a.Bodies.Bound(r, OwnerOf)
	}
	if pace, _ := caddyhttp.IdleTimeoutsFromContext(r.Context()); pace != nil && pace.Deadline.MinRate == 0 {
		pace.Deadline.Start, pace.Deadline.MinRate, pace.Deadline.Timeout = time.Now(), bodies.BodyRate, min(pace.Deadline.Timeout, bodies.BodyGrace)
	}
	return nil
}

// AccessOf returns what the credentials of a request's caller allow; nil allows all tools. Authenticated is true if handlers before this one, or TLS,
// authenticate each caller.
func AccessOf(r *http.Request, authenticated bool) (access *tools.Access) {
	if scopes, ok := caddyhttp.GetVar(r.Context(), identity.VarScopes).([]string); ok {
		access = &tools.Access{Scopes: scopes}
		access.Metadata, _ = caddyhttp.GetVar(r.Context(), identity.VarResourceMetadata).(string)
		if user, ok := caddyhttp.GetVar(r.Context(), identity.Var).(*identity.User); ok {
			access.Granted = user.Scopes
		}
	}
	if signIn, ok := caddyhttp.GetVar(r.Context(), identity.VarSignIn).(func([]string) string); ok {
		if access == nil {
			access = new(tools.Access) // only keys are accepted
		}
		access.SignIn = signIn
		access.SignedIn = authenticated || AuthenticatedUser(r) != "" || r.TLS != nil && len(r.TLS.VerifiedChains) > 0
	}
	return access
}

// Access returns what the credentials of a request's caller allow at the endpoint. Nil allows
// all tools.
func (e *Endpoint) Access(r *http.Request) *tools.Access {
	access := AccessOf(r, e.authenticated)
	if access != nil {
		access.AllTools = e.IgnoreScopes
	}
	return access
}

// allowed returns a function that reports whether the caller of a request can see and call a tool.
func (e *Endpoint) allowed(r *http.Request, toolset *tools.Toolset) func(*tools.Tool) bool {
	access, listed := e.Access(r), e.Parts.listed(UserOf(r), toolset)
	return func(t *tools.Tool) bool {
		return !e.hides(t) && access.Missing(t, toolset) == nil && listed(t)
	}
}

// hides reports whether a tool does not exist for clients.
func (e *Endpoint) hides(t *tools.Tool) bool {
	return e.Hidden != nil && e.Hidden(t)
}

// MarkToolEndpoint informs an ocp handler before the endpoint, if there is one, that a tool
// endpoint responds to the request.
func MarkToolEndpoint(r *http.Request) {
	if vars, ok := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any); ok {
		if layer, ok := vars[ContextVar].(contextLayer); ok {
			layer.MarkToolEndpoint()
		}
	}
}

// IsMCPPath reports whether the MCP endpoint responds at this path below its own.
func IsMCPPath(rest string) bool {
	return slices.Contains(mcpPaths[:], rest)
}

// mcpPaths are the paths, below an MCP endpoint's own, at which it responds. The empty
// path is the endpoint's own.
var mcpPaths = [...]string{"", "/", "/sse", "/message"}

// current returns the current tools of the parts with the built-in tools, as the client of the request
// chooses. It returns nil if no document is loaded.
func (l *listings) current(r *http.Request, next caddyhttp.Handler) *tools.Toolset {
	l.parts.awaitAgents(r.Context())
	base := l.parts.served(func(t *app.Toolset) *tools.Toolset { return CurrentTools(t, r, next) })
	if base == nil {
		return nil
	}
	if l.ruled {
		return l.users.listing(l, base, UserOf(r)).chosen(r)
	}
	latest := l.latest.Load()
	if latest == nil || latest.base != base {
		latest = l.build(base)
	}
	return latest.chosen(r)
}

// awaitAgents waits for the start of the configuration if the tools of a part are agents: their names are not
// known before.
func (p *Parts) awaitAgents(ctx context.Context) {
	if slices.ContainsFunc(p.All, func(part *Part) bool { return part.agentWait > 0 }) {
		_ = p.app.Site.AwaitStart(ctx) // after an error, there are no tools
	}
}

// chosen returns what the client of the request chooses to list.
func (l *listing) chosen(r *http.Request) *tools.Toolset {
	searches := l.searches
	if r.URL.RawQuery != "" {
		if choice, err := listChoice(r.URL.RawQuery); err == nil && choice != "" {
			searches = choice == chooseSearch
		}
	}
	if searches && l.brief != nil {
		return l.brief
	}
	return l.whole
}

// served returns the tools that the endpoint serves, without built-in ones. Current returns the tools
// of a toolset.
func (p *Parts) served(current func(*app.Toolset) *tools.Toolset) *tools.Toolset {
	if p.merger == nil {
		toolset := current(p.whole.Toolset)
		if p.whole.agent.name == "" {
			return toolset
		}
		return p.whole.agent.limit(p.whole.Toolset, toolset)
	}
	var parts [maxToolsets]*tools.Toolset
	for i, part := range p.All {
		parts[i] = part.agent.limit(part.Toolset, current(part.Toolset))
	}
	return p.merger.Merge(parts[:len(p.All)]...)
}
