package siteroutes

import (
	"net"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"
)

// warnAboutProxy logs a warning if the handler is a reverse_proxy that has no upstream, or sends calls to the site itself. Several
// endpoints before one reverse_proxy get one warning.
func (e *Endpoint) warnAboutProxy(h caddyhttp.MiddlewareHandler) {
	proxy, ok := h.(*reverseproxy.Handler)
	if !ok || proxy.DynamicUpstreams != nil || len(proxy.HandleResponse) > 0 || e.registry.warned[h] {
		return
	}
	isPart := func(p position) bool { return len(p.route().MatcherSets) > 0 && len(hostsOf(p.route())) == 0 }
	changesHost := proxy.Headers != nil && proxy.Headers.Request != nil && proxy.Headers.Request.Set["Host"] != nil
	mayLoop := e.Prefix() == "" && !slices.ContainsFunc(e.positions, isPart) && proxy.Rewrite == nil && !changesHost
	for _, upstream := range append(slices.Clip(proxy.Upstreams), new(reverseproxy.Upstream))[:max(len(proxy.Upstreams), 1)] {
		dial := caddy.NewReplacer().ReplaceKnown(upstream.Dial, "")
		isUnset := dial == "" || dial[0] == ':' && upstream.Dial != dial
		if isUnset || mayLoop && e.listensOn(dial) {
			e.registry.warned[h] = true
			e.Logger.Warn("reverse_proxy sends tool calls to no address, or to this site itself: write the address of the API, as in: reverse_proxy localhost:9000; "+
				"if it is a variable, set that", zap.String("address", upstream.Dial), zap.String("directive", e.Protocol), zap.String("path", e.Path))
		}
	}
}

// listensOn reports whether an address is one of the server of the endpoint.
func (e *Endpoint) listensOn(dial string) bool {
	_, port, _ := net.SplitHostPort(dial)
	for _, server := range e.registry.servers {
		if len(server.Routes) > 0 && &server.Routes[0] == &e.positions[0].routes[0] {
			return slices.Contains(server.Listen, dial) || !IsPublicListener(dial) && slices.Contains(server.Listen, ":"+port)
		}
	}
	return false
}

// reportPrefix logs at which path clients reach the endpoint, if handle_path strips the beginning.
func (e *Endpoint) reportPrefix() {
	if prefix := e.Prefix(); prefix != "" && e.Path != "" {
		e.Logger.Info("clients reach the endpoint at another path than its own, because handle_path strips the beginning: use that path in clients, or move the endpoint out of the block",
			zap.String("directive", e.Protocol), zap.String("path", e.Path), zap.String("reached_at", prefix+e.Path))
	}
}
