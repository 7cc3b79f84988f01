package console

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/app/calllog"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/caddymodule/route/siteroutes"
	"github.com/fairwayhq/fairway/tools"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// DefaultPath is the path of the console if none is configured.
const DefaultPath = "/console"

// Values of Handler.Calls.
const (
	callsViewed = "viewed"
	callsAlways = "always"
)

// Handler serves the console: pages about the tools, calls, agents and reviews of its site, and the same
// data as JSON for programs.
//
// It serves users that a handler before it has authenticated. If there are none, it serves requests from
// this machine, provided that the server listens on loopback addresses only. All others get 401.
type Handler struct {
	// The path of the console. If it is /, the first page is at / for requests that accept HTML, and all
	// others are below /console, so that they hide no paths of the API. Default: /console.
	Path string `json:"path,omitempty"`

	// The users who see the calls of all users, and what did not become a tool. The auditors of the
	// oagent handlers of the site see them, too. An entry group:NAME is for the members of a group. Default: none.
	Auditors []string `json:"auditors,omitempty"`

	// The arguments whose values the list of calls shows. Default: none.
	LogInputs []string `json:"log_inputs,omitempty"`

	// When calls are recorded: "viewed" while someone looks at the console, and for 15 minutes
	// afterwards; "always" from the start. Default: viewed.
	Calls string `json:"calls,omitempty"`

	logger    *zap.Logger
	app       *app.App
	site      app.Site
	siteName  string
	server    *caddyhttp.Server
	base      string // path of all pages but the first, without a trailing slash
	home      string // path of the first page
	loopback  bool   // the server has loopback addresses, and no other machine reaches it
	closeLog  func()
	sameSites *http.CrossOriginProtection
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.agents_console",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision finds the site of the console.
func (c *Handler) Provision(ctx caddy.Context) error {
	if c.Path == "" {
		c.Path = DefaultPath
	}
	if err := route.CheckPath(c.Path); err != nil {
		return fmt.Errorf("path %q: %w", c.Path, err)
	}
	c.base = strings.TrimRight(c.Path, "/")
	if c.home = c.base; c.base == "" {
		c.home, c.base = "/", DefaultPath
	}
	agents, err := ctx.App("agents")
	if err != nil {
		return err
	}
	c.app, c.logger, c.site, c.siteName = agents.(*app.App), ctx.Logger(), app.SiteOf(ctx), siteroutes.SiteName(ctx)
	c.server, _ = ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	c.loopback = c.server != nil && slices.ContainsFunc(c.server.Listen, isAddress) && !slices.ContainsFunc(c.server.Listen, siteroutes.IsPublicListener)
	c.sameSites = http.NewCrossOriginProtection()
	c.closeLog = c.app.Calls().Open(calllog.Options{Always: c.Calls == callsAlways, Arguments: c.LogInputs, Site: c.siteName})
	if !siteroutes.IsAuthenticatedBefore(ctx, "agents_console", c.home) {
		c.logOpen()
	}
	return nil
}

// logOpen says at start who gets the pages of a console without a login.
func (c *Handler) logOpen() {
	if c.loopback {
		c.logger.Info("console is open to all users of this machine, who see everything; if that is not intended, put basic_auth or agent_auth before it",
			zap.String("path", c.home))
		return
	}
	c.logger.Warn("no handler that authenticates users was found before the console; its pages respond with 401 until there is one, such as basic_auth or agent_auth",
		zap.String("path", c.home))
}

// Validate returns an error for invalid options.
func (c *Handler) Validate() error {
	if c.Calls != "" && c.Calls != callsViewed && c.Calls != callsAlways {
		return fmt.Errorf("calls %q: must be viewed or always", c.Calls)
	}
	return nil
}

// Cleanup stops recording calls for this console.
func (c *Handler) Cleanup() error {
	if c.closeLog != nil {
		c.closeLog()
	}
	return nil
}

// request is one request to the console.
type request struct {
	*Handler
	w      http.ResponseWriter
	r      *http.Request
	api    bool     // the response is JSON
	rest   []string // segments of the path below the console, without api
	viewer viewer
}

// ServeHTTP serves requests to the console and passes all others on.
func (c *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	rest, owned := c.owns(r)
	if !owned || tools.CallFromContext(r.Context()) != nil || route.IsGatewayRequest(r.Context()) {
		return next.ServeHTTP(w, r)
	}
	if err := c.app.AwaitStart(r.Context()); err != nil {
		return caddyhttp.Error(http.StatusServiceUnavailable, err)
	}
	q := &request{Handler: c, w: w, r: r, rest: rest}
	if len(rest) > 0 && rest[0] == "api" {
		q.api, q.rest = true, rest[1:]
	}
	secure(w.Header())
	q.serve()
	return nil
}

// owns reports whether a request is for the console, and returns the segments of its path below it.
func (c *Handler) owns(r *http.Request) (rest []string, owned bool) {
	path := r.URL.Path
	if path == c.home {
		return nil, c.home != "/" || isPageRequest(r)
	}
	below, owned := strings.CutPrefix(path, c.base+"/")
	if !owned {
		return nil, path == c.base
	}
	if below = strings.TrimRight(below, "/"); below == "" {
		return nil, true
	}
	return strings.Split(below, "/"), true
}

// isPageRequest reports whether a browser requests a page.
func isPageRequest(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// serve responds to the request.
func (q *request) serve() {
	var allowed bool
	q.viewer, allowed = q.viewerOf(q.r)
	if isAsset := len(q.rest) > 0 && q.rest[0] == "assets" && !q.api; isAsset && (allowed || q.isLoginAsset()) {
		q.serveAsset()
		return
	}
	if !allowed {
		q.fail(&failure{http.StatusUnauthorized, "Log in first", "The console is for users of this site."})
		return
	}
	if err := q.checkWrite(); err != nil {
		q.fail(err)
		return
	}
	q.app.Calls().Look()
	if q.api && len(q.rest) > 0 && q.rest[0] == "oagent" {
		recordsRequest{q}.serve()
		return
	}
	shown, err := q.view()
	if err != nil {
		q.fail(err)
		return
	}
	q.write(shown)
}

// view returns the page that the request is for.
func (q *request) view() (*page, error) {
	name := ""
	if len(q.rest) > 0 {
		name = q.rest[0]
	}
	switch name {
	case "", "tools", "endpoints":
		return q.serveTools()
	case "calls":
		return q.serveCalls()
	case "connect":
		return q.serveConnect()
	case "agents":
		return recordsRequest{q}.serveAgents()
	case "engagements":
		return recordsRequest{q}.serveEngagements()
	case "reviews":
		return recordsRequest{q}.serveReviews()
	}
	return nil, errNotFound
}

// isAddress reports whether a listener is a network address. The client of a unix socket has none, so it is not
// known to be a person at this machine: it may be a proxy that forwards requests of others.
func isAddress(listener string) bool {
	address, err := caddy.ParseNetworkAddress(listener)
	return err == nil && !address.IsUnixNetwork()
}

// isLoopbackHost reports whether a host name or address can only be of this machine.
func isLoopbackHost(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
