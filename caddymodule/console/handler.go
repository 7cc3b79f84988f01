package console

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/internal/siteroutes"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/tools"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// defaultPath is the path of the console if none is configured.
const defaultPath = "/console"

// Handler serves the console: pages about the tools, calls, agents and reviews of its site, and the same
// data as JSON for programs.
//
// It serves users that a handler before it has authenticated. If the site has an agent_login, browsers without
// credentials are sent to its login. If there is no user, it serves requests from this machine, provided that
// the server listens on loopback addresses only. All others get 401.
type Handler struct {
	// The path of the console. If it is /, the first page is at / for requests that accept HTML, and all
	// others are below /console, so that they hide no paths of the API. Default: /console.
	Path string `json:"path,omitempty"`

	// The users who see the calls of all users, and what did not become a tool. The auditors of the
	// oagent handlers of the site see them, too. An entry group:NAME is for the members of a group. Default: none.
	Auditors []string `json:"auditors,omitempty"`

	// Users who see the calls of all users, but not their arguments and results. An entry group:NAME is for the
	// members of a group. Default: none.
	Operators []string `json:"operators,omitempty"`

	site   *siteOf
	access *access
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
		c.Path = defaultPath
	}
	if err := route.CheckPath(c.Path); err != nil {
		return fmt.Errorf("path %q: %w", c.Path, err)
	}
	agents, err := app.Of(ctx)
	if err != nil {
		return err
	}
	if c.site, err = newSite(ctx, agents, c.Path); err != nil {
		return err
	}
	c.access = newAccess(c.site, c.Auditors, c.Operators)
	c.site.app.Site.AddPages(c.site.id, c.site.base, func(r *http.Request) bool {
		_, owned := c.site.owns(r)
		return owned
	})
	if c.site.app.Site.LoginAt(c.site.id) == nil && !siteroutes.IsAuthenticatedBefore(ctx, "agents_console", c.site.home) {
		c.access.logOpen()
	}
	return nil
}

// ServeHTTP serves requests to the console and passes all others on.
func (c *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	rest, owned := c.site.owns(r)
	if !owned || tools.CallFromContext(r.Context()) != nil || route.IsGatewayRequest(r.Context()) {
		return next.ServeHTTP(w, r)
	}
	if err := c.site.app.Site.AwaitStart(r.Context()); err != nil {
		return caddyhttp.Error(http.StatusServiceUnavailable, err)
	}
	q := &request{Request: r, rest: rest}
	if len(rest) > 0 && rest[0] == "api" {
		q.api, q.rest = true, rest[1:]
	}
	secure(w.Header())
	if !q.isRead() {
		release, err := c.site.app.Bodies.ReadAhead(w, r, maxForm, route.OwnerOf)
		if err != nil {
			return err
		}
		defer release()
	}
	c.serve(&pageWriter{w, c.site, q}, q)
	return nil
}

// serve responds to a request.
func (c *Handler) serve(w *pageWriter, q *request) {
	var allowed bool
	q.viewer, allowed = c.access.viewerOf(q.Request)
	if isAsset := q.view() == "assets" && !q.api; isAsset && (allowed || isLoginAsset(q.rest[1:])) {
		w.writeAsset(strings.Join(q.rest[1:], "/"))
		return
	}
	browser := site.BrowserOf(q.Request)
	if !allowed {
		if browser.SendToLogin(w, q.Request) {
			return
		}
		w.fail(&failure{http.StatusUnauthorized, "Log in first", "The console is for users of this site."})
		return
	}
	if err := c.access.checkWrite(w.Header(), q); err != nil {
		w.fail(err)
		return
	}
	if q.view() == "logout" && q.Method == http.MethodPost && browser.LoggedIn() {
		browser.End(w, c.site.home)
		return
	}
	c.site.calls.Look()
	if q.api && q.view() == "oagent" {
		if !(&recordPages{c.site, q}).serve(w.ResponseWriter) { // which can flush a stream
			w.fail(errNotFound)
		}
		return
	}
	if !q.isRead() {
		q.Body = http.MaxBytesReader(w, q.Body, maxForm)
	}
	shown, err := c.pageOf(q)
	if err != nil {
		w.fail(err)
		return
	}
	w.write(shown)
}

// pageOf returns the page that a request is for.
func (c *Handler) pageOf(q *request) (*page, error) {
	switch q.view() {
	case "", "overview":
		return c.serveOverview(q)
	case "tools", "endpoints":
		return (&toolPages{c.site, q}).serve()
	case "approve":
		return serveApproval(c.site, q)
	case "calls":
		return c.serveCalls(q)
	case "events":
		return serveEvents(c.site, q)
	case "report":
		return c.serveReport(q)
	case "connect":
		return serveConnect(c.site, q)
	case "agents":
		return (&recordPages{c.site, q}).serveAgents()
	case "engagements":
		return (&recordPages{c.site, q}).serveEngagements()
	case "replay":
		return (&recordPages{c.site, q}).serveReplay()
	case "reviews":
		return (&recordPages{c.site, q}).serveReviews()
	}
	return nil, errNotFound
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
