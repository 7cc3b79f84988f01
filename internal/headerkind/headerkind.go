// Package headerkind classifies request headers by which servers find another
// method, path, protocol or user than the request itself has.
package headerkind

import (
	"net/http"
	"slices"
	"strings"
)

// Kind is what a header makes a server run in place of the request itself.
type Kind uint8

// The kinds of headers.
const (
	Ordinary Kind = iota

	// MethodOverride and PathOverride have the only purpose to make a server run
	// another request than the one that was sent. No proxy adds them of its own
	// accord.
	MethodOverride
	PathOverride

	// ProtocolSwitch asks for another protocol on the same connection.
	ProtocolSwitch

	// ForwardedTarget is added by proxies to report the method or the path that
	// they received. Some servers route by it.
	ForwardedTarget
)

// Of returns the kind of a header. Case does not matter, and "_" and "." count as
// "-", because CGI and its successors do not distinguish them.
func Of(name string) Kind {
	if name == "" || strings.IndexByte("xuhspm", name[0]|0x20) < 0 {
		return Ordinary // decided by the first letter, as this runs for each header of each request
	}
	switch canonical(name) {
	case "X-Http-Method", "X-Http-Method-Override", "X-Method-Override", "X-Override-Method", "Method-Override", "Http-Method-Override":
		return MethodOverride
	case "X-Original-Url", "X-Rewrite-Url", "X-Rewrite-Uri", "X-Override-Url", "X-Override-Uri", "X-Http-Path-Override",
		"X-Script-Name", "Script-Name", "Path-Info":
		return PathOverride
	case "Upgrade", "Http2-Settings":
		return ProtocolSwitch
	case "X-Forwarded-Uri", "X-Forwarded-Url", "X-Forwarded-Path", "X-Forwarded-Method",
		"X-Original-Uri", "X-Original-Path", "X-Original-Method", "X-Envoy-Original-Path", "X-Envoy-Original-Method":
		return ForwardedTarget
	}
	return Ordinary
}

func canonical(name string) string {
	if strings.ContainsAny(name, "_.") {
		name = strings.NewReplacer("_", "-", ".", "-").Replace(name)
	}
	return http.CanonicalHeaderKey(name)
}

// userHeaders are the headers that name a user, in canonical form.
var userHeaders = map[string]bool{
	"Ocp-User": true, // the user that an agent claims to work for

	// Authenticating proxies: Caddy's forward_auth, oauth2-proxy, Authelia, nginx, Envoy.
	"Remote-User": true, "Remote-Name": true, "Remote-Email": true, "Remote-Groups": true,
	"X-Remote-User": true, "X-Remote-Name": true, "X-Remote-Email": true, "X-Remote-Group": true, "X-Remote-Groups": true,
	"X-Forwarded-User": true, "X-Forwarded-Email": true, "X-Forwarded-Groups": true, "X-Forwarded-Preferred-Username": true,
	"X-Forwarded-Access-Token": true, "X-Forwarded-Client-Cert": true, "X-Forwarded-Userinfo": true,
	"X-Auth-User": true, "X-Auth-Username": true, "X-Auth-Email": true, "X-Proxy-User": true,
	"X-Authenticated-User": true, "X-Authenticated-Userid": true, "X-Authenticated-Email": true, "X-Authenticated-Groups": true,
	"X-User": true, "X-Username": true, "X-User-Id": true, "X-User-Name": true, "X-User-Email": true, "X-User-Groups": true, "X-User-Roles": true,
	"X-Userinfo": true,

	// Administrators who act for somebody else.
	"X-On-Behalf-Of": true, "X-Impersonate-User": true, "X-Act-As": true, "X-Sudo": true, "Sudo": true,
}

// userPrefixes begin the headers of one product that name a user, in canonical form.
var userPrefixes = [...]string{
	"X-Auth-Request-",           // oauth2-proxy
	"X-Authentik-",              // authentik
	"X-Webauth-",                // Grafana's auth proxy
	"X-Token-",                  // caddy-security
	"X-Consumer-",               // Kong
	"X-Remote-Extra-",           // Kubernetes, authenticating proxy
	"Impersonate-",              // Kubernetes, impersonation
	"X-Goog-Authenticated-User", // Google IAP
	"X-Goog-Iap-",
	"X-Amzn-Oidc-",                 // AWS load balancers
	"X-Ms-Client-Principal",        // Azure App Service
	"Cf-Access-",                   // Cloudflare Access
	"X-Pomerium-",                  // Pomerium
	"Tailscale-User-",              // Tailscale
	"X-Ssl-Client-", "Ssl-Client-", // client certificates, as nginx is commonly configured
}

// NamesUser reports whether a header names the user on whose behalf a request is
// made, as authenticating proxies do and as administrators do who act for others.
// It treats case, "_" and "." as Of does.
func NamesUser(name string) bool {
	name = canonical(name)
	return userHeaders[name] || slices.ContainsFunc(userPrefixes[:], func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
