package caddymodule

import (
	"context"
	"net/http"
	"net/url"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// warnIfBypassed logs a warning for each handler before the endpoint that judges
// or changes requests for certain paths only, the endpoint's not among them. It
// never sees the tool calls for those paths: they begin behind the endpoint.
func warnIfBypassed(ctx caddy.Context, endpoint, path string, logger *zap.Logger) {
	var names []string
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		names = append(names, bypassed(server.Routes, path)...)
	}
	for _, ancestor := range ctx.Modules() {
		if subroute, ok := ancestor.(*caddyhttp.Subroute); ok {
			names = append(names, bypassed(subroute.Routes, path)...)
		}
	}
	for _, name := range names {
		logger.Warn("a handler with a path matcher stands before "+endpoint+" and does not see the tool calls for its path: "+
			"put it behind "+endpoint+", in a handle or route block with what answers there, if it is to hold for tool calls too",
			zap.String("handler", name), zap.String("path", path))
	}
}

// bypassed returns the names of such handlers in the routes before the present
// one, which are provisioned already and so have no raw configuration any more.
func bypassed(routes caddyhttp.RouteList, path string) (names []string) {
	for i := range routes {
		if routes[i].HandlersRaw != nil {
			break
		}
		if !forOtherPaths(routes[i].MatcherSets, path) {
			continue
		}
		for _, handler := range routes[i].Handlers {
			module, ok := handler.(caddy.Module)
			if !ok {
				continue
			}
			switch name := module.CaddyModule().ID.Name(); name {
			case "agent_auth", "authentication", "reverse_proxy", "rewrite", "request_body":
				names = append(names, name)
			}
		}
	}
	return names
}

// forOtherPaths reports whether every set has a path matcher that leaves path out.
func forOtherPaths(sets caddyhttp.MatcherSets, path string) bool {
	for _, set := range sets {
		if !leavesOut(set, path) {
			return false
		}
	}
	return len(sets) > 0
}

func leavesOut(set caddyhttp.MatcherSet, path string) bool {
	ctx := context.WithValue(context.Background(), caddy.ReplacerCtxKey, caddy.NewReplacer())
	r := (&http.Request{Method: http.MethodPost, URL: &url.URL{Path: path}}).WithContext(ctx)
	for _, matcher := range set {
		if paths, ok := matcher.(*caddyhttp.MatchPath); ok {
			if matches, err := paths.MatchWithError(r); err == nil && !matches {
				return true
			}
		}
	}
	return false
}
