package siteroutes

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/httpheader"
)

// WarnIfDropped logs a warning if handlers before the one that is being provisioned set headers that it does not
// send beside credentials that are not the caller's. Name is its module name. Forwarded are the canonical names of
// the headers that it forwards.
func WarnIfDropped(ctx caddy.Context, name string, forwarded []string, logger *zap.Logger) {
	set := make(map[string]bool)
	anyBefore(ctx, name, func(p position, before []json.RawMessage) bool {
		for _, route := range p.earlier(before) {
			addRequestHeaders(set, route)
		}
		return false
	})
	var dropped []string
	for _, header := range slices.Sorted(maps.Keys(set)) {
		if httpheader.Forwarded(header, nil) && !httpheader.MayAccompany(header, forwarded) {
			dropped = append(dropped, header)
		}
	}
	if len(dropped) > 0 {
		logger.Warn("headers that handlers set before this one do not reach the API beside credentials of the gateway; "+
			"list them in forward_headers, or set them with header_up of reverse_proxy",
			zap.String("directive", name), zap.Strings("headers", dropped))
	}
}

// addRequestHeaders adds the canonical names of the request headers that the handlers of a route set.
func addRequestHeaders(set map[string]bool, route *caddyhttp.Route) {
	handlers := make([]any, 0, len(route.Handlers)+len(route.HandlersRaw))
	for _, handler := range route.Handlers {
		handlers = append(handlers, handler)
	}
	for _, raw := range route.HandlersRaw {
		handlers = append(handlers, decodeHandler(raw))
	}
	for _, handler := range handlers {
		var inside caddyhttp.RouteList
		switch h := handler.(type) {
		case *headers.Handler:
			if h.Request != nil {
				for _, name := range slices.AppendSeq(slices.Collect(maps.Keys(h.Request.Set)), maps.Keys(h.Request.Add)) {
					set[http.CanonicalHeaderKey(name)] = true
				}
			}
		case *caddyhttp.Subroute:
			inside = h.Routes
		case *reverseproxy.Handler: // copy_headers of forward_auth
			for _, response := range h.HandleResponse {
				inside = append(inside, response.Routes...)
			}
		}
		for i := range inside {
			addRequestHeaders(set, &inside[i])
		}
	}
}
