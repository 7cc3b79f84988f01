package siteroutes

import (
	"encoding/json"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
)

// WarnIfChanged logs a warning for each handler that changes the method, the target or a header of requests
// after the handler that is being provisioned, which checks them. Name is the module name of that handler.
// There is no warning if the routes cannot be inspected. Bases are prefixes of paths that the operations of the handler
// have only on this site, so the API does not expect them.
func WarnIfChanged(ctx caddy.Context, name string, bases []string, logger *zap.Logger) {
	visitAfter(ctx, name, func(h rawHandler) {
		if slices.Contains(bases, h.StripPathPrefix) {
			h.StripPathPrefix = ""
		}
		if h.changesRequests() {
			logger.Warn("handler changes requests after they are checked, so the API can get another request than the one that was checked; "+
				"move it before the handler that checks them", zap.String("handler", h.Handler), zap.String("directive", name))
		}
	})
}

// Signs reports whether a handler after the one that is being provisioned sends requests with a signature of the gateway, which
// is a credential: the transport aws_sigv4 of reverse_proxy signs whatever reaches it. It returns false if the routes
// cannot be inspected.
func Signs(ctx caddy.Context, name string) (signs bool) {
	visitAfter(ctx, name, func(h rawHandler) { signs = signs || h.Transport.Protocol == "aws_sigv4" })
	return signs
}

// visitAfter calls visit for each handler after the one that is being provisioned, whose module name is name.
func visitAfter(ctx caddy.Context, name string, visit func(rawHandler)) {
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
					visit(h)
					return false
				})
			}
		}
	}
}

// changesRequests reports whether the handler changes more of a request than its credentials.
func (h rawHandler) changesRequests() bool {
	switch h.Handler {
	case "rewrite":
		return h.Method != "" || h.URI != "" || h.StripPathPrefix != "" || h.StripPathSuffix != "" || h.URISubstring != nil || h.PathRegexp != nil || h.Query != nil
	case "headers":
		delete(h.Request.Add, "Authorization")
		delete(h.Request.Set, "Authorization")
		return len(h.Request.Add)+len(h.Request.Set)+len(h.Request.Replace) > 0
	case "reverse_proxy":
		return h.Rewrite != nil && h.HandleResponse == nil // else the upstream only authenticates: forward_auth
	}
	return false
}
