package console

import (
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/identity"
)

// viewer is who looks at the console.
type viewer struct {
	User    string `json:"user"`    // "" for the local operator
	Auditor bool   `json:"auditor"` // sees what belongs to other users
}

// viewerOf returns who sends a request. It returns false if the console does not serve them.
func (c *Handler) viewerOf(r *http.Request) (viewer, bool) {
	if user := route.UserOf(r); user.ID != "" {
		return viewer{User: user.ID, Auditor: c.isAuditor(user)}, true
	}
	return viewer{Auditor: true}, c.isLocal(r)
}

// isAuditor reports whether the user is an auditor of this console or of an oagent handler of the site.
func (c *Handler) isAuditor(user *identity.User) bool {
	return user.IsIn(c.Auditors) ||
		slices.ContainsFunc(c.app.GuardsAt(c.site), func(h app.GuardHandler) bool { return h.IsAuditor(user) })
}

// proxyHeaders are headers that proxies and tunnels add. A proxy on this machine may forward requests of
// others. Headers that begin with one of proxyPrefixes count as well.
var (
	proxyHeaders  = []string{"Forwarded", "Via", "True-Client-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "Fastly-Client-Ip", "Fly-Client-Ip"}
	proxyPrefixes = []string{"X-Forwarded", "X-Real-", "X-Original-", "X-Envoy-", "Cf-", "Tailscale-"}
)

// isForwarded reports whether a proxy has forwarded a request. A proxy that adds no header may still be
// recognized by HTTP/1.0, which nginx speaks by default, and no browser does.
func isForwarded(r *http.Request) bool {
	if !r.ProtoAtLeast(1, 1) {
		return true
	}
	for name := range r.Header {
		if slices.Contains(proxyHeaders, name) || slices.ContainsFunc(proxyPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			return true
		}
	}
	return false
}

// isLocal reports whether a request comes from a person at this machine: the server listens on loopback
// addresses only, the client has such an address, the request names such a host (a page of another host
// whose name leads here, DNS rebinding, does not), and no proxy has forwarded it.
func (c *Handler) isLocal(r *http.Request) bool {
	if !c.loopback || isForwarded(r) {
		return false
	}
	client, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || !isLoopbackHost(client) {
		return false
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	return isLoopbackHost(host)
}

// checkWrite refuses requests with methods that the console does not have, and those that change
// something and come from a page of another site (CSRF).
func (q *request) checkWrite() error {
	switch q.r.Method {
	case http.MethodGet, http.MethodHead:
		return nil
	case http.MethodPost, http.MethodDelete:
	default:
		q.w.Header().Set("Allow", "GET, HEAD, POST, DELETE")
		return &failure{http.StatusMethodNotAllowed, "Method not allowed", "Use GET, POST or DELETE."}
	}
	if err := q.sameSites.Check(q.r); err != nil {
		return &failure{http.StatusForbidden, "Request of another site", "Pages of other sites may not change anything here. Open the console and try again there. " +
			"If you were in the console already, a proxy before this site may have changed the header Host: let it pass that on."}
	}
	wanted := "application/x-www-form-urlencoded"
	if q.api {
		wanted = "application/json"
	}
	got := q.r.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(got); (got != "" || q.r.ContentLength != 0) && (err != nil || media != wanted) {
		return &failure{http.StatusUnsupportedMediaType, "Unsupported media type", "Send the body as " + wanted + "."}
	}
	return nil
}

// placeholder returns the value of a placeholder of the request.
func (q *request) placeholder(name string) string {
	repl, ok := q.r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	value, _ := repl.GetString(name)
	return value
}

// secure sets the headers that every response of the console has. They permit nothing but scripts and
// styles of the console itself, and no page may show it in a frame.
func secure(header http.Header) {
	header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	header.Set("X-Frame-Options", "DENY")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}
