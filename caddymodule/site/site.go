package site

import (
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Site identifies the site that a handler belongs to. It is the outermost subroute around the
// handler, which the Caddyfile adapter creates for each site with a host, or else the server.
type Site struct {
	server *caddyhttp.Server
	site   *caddyhttp.Subroute
}

// GracePeriod returns how long requests may go on when the servers of a configuration stop, or 0 if there is no limit. It
// is called after the configuration was provisioned.
func GracePeriod(ctx caddy.Context) time.Duration {
	if servers, err := ctx.AppIfConfigured("http"); err == nil {
		return time.Duration(servers.(*caddyhttp.App).GracePeriod)
	}
	return 0
}

// At returns the site of the handler that is being provisioned.
func At(ctx caddy.Context) Site {
	var p Site
	p.server, _ = ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	for _, ancestor := range ctx.Modules() {
		if subroute, ok := ancestor.(*caddyhttp.Subroute); ok {
			p.site = subroute
			break
		}
	}
	return p
}

// RouteLists returns the lists of routes around the handler that is being provisioned: that of the server, and
// those of the subroutes from the outside in.
func RouteLists(ctx caddy.Context) (lists []caddyhttp.RouteList) {
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		lists = append(lists, server.Routes)
	}
	for _, ancestor := range ctx.Modules() {
		if subroute, ok := ancestor.(*caddyhttp.Subroute); ok {
			lists = append(lists, subroute.Routes)
		}
	}
	return lists
}

// CurrentRoute returns the index of the route that is being provisioned. It returns -1 if there
// is none.
func CurrentRoute(routes caddyhttp.RouteList) int {
	return slices.IndexFunc(routes, func(r caddyhttp.Route) bool { return r.HandlersRaw != nil })
}

// SameSite reports whether both handlers belong to the same site. A site without a host has no
// subroute of its own, so subroutes in it are only blocks of routes.
func (p Site) SameSite(other Site) bool {
	return p.server == other.server && (p.site == other.site || p.site == nil || other.site == nil)
}

// publicHealth is the health of an endpoint, for callers without credentials.
type publicHealth struct {
	site  Site
	path  string
	serve http.HandlerFunc
}

// AddPublicHealth makes agent_auth handlers of the site serve the health of an endpoint to callers
// without credentials.
func (a *App) AddPublicHealth(at Site, path string, serve http.HandlerFunc) {
	a.publicHealth = append(a.publicHealth, publicHealth{at, path, serve})
}

// PublicHealth returns what AddPublicHealth has added for a path of the site, or nil.
func (a *App) PublicHealth(at Site, path string) http.HandlerFunc {
	for _, h := range a.publicHealth {
		if h.path == path && h.site.SameSite(at) {
			return h.serve
		}
	}
	return nil
}
