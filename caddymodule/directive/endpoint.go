package directive

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// endpointHandler is a handler that has a path of its own.
type endpointHandler interface {
	caddyhttp.MiddlewareHandler
	caddyfile.Unmarshaler
}

// ParseEndpoint sets up a handler and its route. In other handler directives a first argument
// with a slash is a path matcher. Here it is the endpoint's path, because the handler itself
// decides which requests are for it. The argument * and named matchers work as usual.
func ParseEndpoint(h httpcaddyfile.Helper, handler endpointHandler) ([]httpcaddyfile.ConfigValue, error) {
	h.Next() // consume directive name
	isPath := h.NextArg() && strings.HasPrefix(h.Val(), "/")
	h.Reset()
	var matchers caddy.ModuleMap
	if !isPath {
		h.Next()
		var err error
		if matchers, err = h.ExtractMatcherSet(); err != nil {
			return nil, h.WrapErr(err)
		}
	}
	if err := handler.UnmarshalCaddyfile(h.Dispenser); err != nil {
		return nil, err
	}
	return h.NewRoute(matchers, handler), nil
}
