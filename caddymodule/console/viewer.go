package console

import (
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	"github.com/fairwayhq/fairway/caddymodule/internal/siteroutes"
	guard "github.com/fairwayhq/fairway/caddymodule/oagent"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/tools/logonly"
)

// viewer is who looks at the console.
type viewer struct {
	User     string `json:"user"`              // "" for the local operator
	Auditor  bool   `json:"auditor"`           // sees what belongs to other users
	Operator bool   `json:"operator,omitzero"` // sees the calls of other users without their arguments and results

	CanLogOut bool `json:"-"` // the user has logged in by the browser
}

// seesAll reports whether the viewer sees the calls of other users.
func (v *viewer) seesAll() bool { return v.Auditor || v.Operator }

// reduce removes from a call what the viewer may not see.
func (v *viewer) reduce(call *calllog.Call) {
	if !v.Auditor && (v.User == "" || call.User != v.User) {
		call.Arguments, call.Result = nil, ""
	}
	if !v.seesAll() {
		call.Would = logonly.Would{}
	}
}

// access decides who may look at the console, and which requests may change something.
type access struct {
	site      *siteOf
	auditors  []string // of the console
	operators []string // of the console
	loopback  bool     // the server has loopback addresses, and no other machine reaches it
	sameSites *http.CrossOriginProtection
}

// newAccess returns the rules of a console.
func newAccess(s *siteOf, auditors, operators []string) *access {
	return &access{
		site: s, auditors: auditors, operators: operators, sameSites: http.NewCrossOriginProtection(),
		loopback: s.server != nil && slices.ContainsFunc(s.server.Listen, isAddress) && !slices.ContainsFunc(s.server.Listen, siteroutes.IsPublicListener),
	}
}

// logOpen says at start who gets the pages of a console without a login.
func (a *access) logOpen() {
	if a.loopback {
		a.site.logger.Info("console is open to all users of this machine, who see everything; if that is not intended, put basic_auth or agent_auth before it",
			zap.String("path", a.site.home))
		return
	}
	a.site.logger.Warn("no handler that authenticates users was found before the console; its pages respond with 401 until there is one, such as basic_auth or agent_auth",
		zap.String("path", a.site.home))
}

// viewerOf returns who sends a request. It returns false if the console does not serve them.
func (a *access) viewerOf(r *http.Request) (viewer, bool) {
	user, isBrowser := route.UserOf(r), site.BrowserOf(r).LoggedIn()
	if user.ID == "" && isBrowser {
		user = identity.Unknown(site.BrowserOf(r).Token.Subject)
	}
	if user.ID != "" {
		return viewer{user.ID, a.isAuditor(user), user.IsIn(a.operators), isBrowser}, true
	}
	return viewer{Auditor: true}, site.BrowserOf(r) == nil && a.isLocal(r) // on a site with a login, it is for everyone
}

// isAuditor reports whether the user is an auditor of this console or of an oagent handler of the site.
func (a *access) isAuditor(user *identity.User) bool {
	return user.IsIn(a.auditors) ||
		slices.ContainsFunc(a.site.guards(), func(h *guard.Handler) bool { return h.IsAuditor(user) })
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
func (a *access) isLocal(r *http.Request) bool {
	if !a.loopback || isForwarded(r) {
		return false
	}
	client, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || !isLoopbackHost(client) {
		return false
	}
	return isLoopbackHost(httpheader.HostName(r.Host))
}

// isAddress reports whether a listener is a network address. The client of a unix socket has none, so it is not
// known to be a person at this machine: it may be a proxy that forwards requests of others.
func isAddress(listener string) bool {
	address, err := caddy.ParseNetworkAddress(listener)
	return err == nil && !address.IsUnixNetwork()
}

// isLoopbackHost reports whether a host name or address can only be of this machine.
func isLoopbackHost(host string) bool {
	return oauth.IsLoopback(strings.Trim(strings.TrimSuffix(strings.ToLower(host), "."), "[]"))
}

// checkWrite refuses requests with methods that the console does not have, and those that change
// something and come from a page of another site (CSRF). Header is that of the response.
func (a *access) checkWrite(header http.Header, q *request) error {
	if q.isRead() {
		return nil
	}
	if q.Method != http.MethodPost && q.Method != http.MethodDelete {
		header.Set("Allow", "GET, HEAD, POST, DELETE")
		return &failure{http.StatusMethodNotAllowed, "Method not allowed", "Use GET, POST or DELETE."}
	}
	if err := a.sameSites.Check(q.Request); err != nil {
		return &failure{http.StatusForbidden, "Request of another site", "Pages of other sites may not change anything here. Open the console and try again there. " +
			"If you were in the console already, a proxy before this site may have changed the header Host: let it pass that on."}
	}
	wanted := "application/x-www-form-urlencoded"
	if q.api {
		wanted = "application/json"
	}
	got := q.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(got); (got != "" || q.ContentLength != 0) && (err != nil || media != wanted) {
		return &failure{http.StatusUnsupportedMediaType, "Unsupported media type", "Send the body as " + wanted + "."}
	}
	return nil
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
