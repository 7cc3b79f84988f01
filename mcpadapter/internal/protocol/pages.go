package protocol

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/fairwayhq/fairway/internal/text"
)

// PageRules say which web pages may call the server.
type PageRules struct {
	origins map[string]bool
	hosts   map[string]bool
}

// NewPageRules returns the rules for the given web origins and Host names. "*" allows all.
func NewPageRules(origins, hosts []string) PageRules {
	p := PageRules{origins: make(map[string]bool, len(origins)), hosts: make(map[string]bool, len(hosts))}
	for _, origin := range origins {
		p.origins[normalOrigin(origin)] = true
	}
	for _, host := range hosts {
		p.hosts[hostname(host)] = true
	}
	return p
}

// check checks the Host and Origin headers of a request that a web page makes.
func (p *PageRules) check(r *http.Request) *Fault {
	if f := p.checkHost(r); f != nil {
		return f
	}
	return p.checkOrigin(r)
}

// checkHost protects servers on loopback addresses against DNS rebinding: an attacker's page
// resolves its own host name to 127.0.0.1 and calls a server on the user's machine. Origin and Host
// then agree, so only the host name itself reveals the attack. The check applies to requests with an
// Origin header, which browsers send with every POST. A request without it does not come from a
// page; it may come from a reverse proxy on this machine that forwards the public host name.
func (p *PageRules) checkHost(r *http.Request) *Fault {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !loopback(local.String()) || loopback(r.Host) {
		return nil
	}
	if p.hosts["*"] || p.hosts[hostname(r.Host)] {
		return nil
	}
	f := Faultf(http.StatusForbidden, InvalidRequest,
		"pages of host %q are not served on a loopback address: use localhost, or add this host to the option hosts of the server's configuration",
		text.Cut(r.Host, text.MaxQuoted))
	return f.WithoutID()
}

// checkOrigin rejects requests from pages of other sites. A request without an Origin header does
// not come from a page.
func (p *PageRules) checkOrigin(r *http.Request) *Fault {
	origins := r.Header["Origin"]
	if p.origins["*"] {
		return nil
	}
	if len(origins) == 1 {
		origin := normalOrigin(origins[0])
		if p.origins[origin] || sameHost(origin, r.Host) {
			return nil
		}
	}
	return Faultf(http.StatusForbidden, InvalidRequest,
		"origin %q may not call this server: add it to the option origins of the server's configuration", text.Cut(origins[0], text.MaxQuoted)).WithoutID()
}

// sameHost reports whether an origin has the host that the request names. It ignores the scheme,
// because a proxy may terminate TLS in front of this server, and it treats the default ports 80 and
// 443 as no port.
func sameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	return withoutDefaultPort(u.Host) == withoutDefaultPort(strings.ToLower(host))
}

func withoutDefaultPort(host string) string {
	if h, port, err := net.SplitHostPort(host); err == nil && (port == "80" || port == "443") {
		host = h
	}
	return strings.Trim(host, "[]")
}

// normalOrigin returns an origin in lower case, without a trailing slash.
func normalOrigin(origin string) string {
	return strings.ToLower(strings.TrimSuffix(strings.TrimSpace(origin), "/"))
}

// hostname returns the name in a Host header in lower case, without the port.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// loopback reports whether an address or a Host header refers to this machine.
func loopback(host string) bool {
	name := hostname(host)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	address, err := netip.ParseAddr(name)
	return err == nil && address.Unmap().IsLoopback()
}
