package siteroutes

import (
	"encoding/json"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
)

// WarnIfChanged logs a warning for each handler that changes the method, the target or a header of requests
// after the handler that is being provisioned, which checks them. Name is the module name of that handler.
// There is no warning if the routes cannot be inspected.
func WarnIfChanged(ctx caddy.Context, name string, logger *zap.Logger) {
	contains := func(h rawHandler) bool { return h.Handler == name }
	for _, p := range positionsOf(ctx) {
		present := p.route()
		for i, route := range p.routes[p.index:] {
			raw := route.HandlersRaw
			switch {
			case i == 0:
				raw = raw[slices.IndexFunc(raw, func(h json.RawMessage) bool { return anyRaw(h, contains) })+1:]
			case present.Terminal, route.Group != "" && route.Group == present.Group:
				continue
			}
			for _, h := range raw {
				anyRaw(h, func(h rawHandler) bool {
					if h.changesRequests() {
						logger.Warn("handler changes requests after they are checked, so the API can get another request than the one that was checked; "+
							"move it before the handler that checks them", zap.String("handler", h.Handler), zap.String("directive", name))
					}
					return false
				})
			}
		}
	}
}

// changesRequests reports whether the handler changes more of a request than a prefix of its path or its
// credentials.
func (h rawHandler) changesRequests() bool {
	switch h.Handler {
	case "rewrite":
		return h.Method != "" || h.URI != "" || h.StripPathSuffix != "" || h.URISubstring != nil || h.PathRegexp != nil || h.Query != nil
	case "headers":
		delete(h.Request.Add, "Authorization")
		delete(h.Request.Set, "Authorization")
		return len(h.Request.Add)+len(h.Request.Set)+len(h.Request.Replace) > 0
	case "reverse_proxy":
		return h.Rewrite != nil && h.HandleResponse == nil // else the upstream only authenticates: forward_auth
	}
	return false
}
