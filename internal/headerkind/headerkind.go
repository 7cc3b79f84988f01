// Package headerkind classifies request headers that make servers see another method,
// path, protocol or user than the request itself has.
package headerkind

import (
	"net/http"
	"slices"
	"strings"
)

// Kind is the part of a request that a header overrides.
type Kind uint8

// The kinds of headers.
const (
	Ordinary Kind = iota

	// The only purpose of MethodOverride and PathOverride headers is to make a server
	// run another request than the one that was sent. Proxies do not add them by default.
	MethodOverride
	PathOverride

	// ProtocolSwitch headers request another protocol on the same connection.
	ProtocolSwitch

	// ForwardedTarget headers are added by proxies to report the method or the path
	// that they received. Some servers route by them.
	ForwardedTarget
)

// Of returns the kind of a header. It compares names in the form of Canonical.
func Of(name string) Kind {
	if !beginsWith(name, "xuhspm") {
		return Ordinary
	}
	return ofCanonical(Canonical(name))
}

// beginsWith reports whether a name begins with one of these lower-case letters, in any case. Most names
// do not, and the functions of this package run for each header of each request.
func beginsWith(name, letters string) bool {
	return name != "" && strings.IndexByte(letters, name[0]|0x20) >= 0
}

// ofCanonical is Of for a name in the form of Canonical.
func ofCanonical(name string) Kind {
	switch name {
	case "X-Http-Method", "X-Http-Method-Override", "X-Method-Override", "X-Override-Method", "Method-Override", "Http-Method-Override":
		return MethodOverride
	case "X-Original-Url", "X-Rewrite-Url", "X-Rewrite-Uri", "X-Rewrite-Path", "X-Override-Url", "X-Override-Uri", "X-Override-Path",
		"X-Http-Path-Override", "X-Path-Override", "X-Url-Override", "X-Uri-Override",
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

// Canonical returns the name of a header in canonical form, with "-" in place of all
// characters that are neither letters nor digits. Servers that pass headers on as
// variables, such as CGI, do not distinguish these characters.
func Canonical(name string) string {
	for i := range len(name) {
		if isSeparator(rune(name[i])) {
			name = strings.Map(func(c rune) rune {
				if isSeparator(c) {
					return '-'
				}
				return c
			}, name)
			break
		}
	}
	return http.CanonicalHeaderKey(name)
}

// isSeparator reports whether servers may treat a character as "-".
func isSeparator(c rune) bool {
	return c != '-' && (c < '0' || '9' < c && c < 'A' || 'Z' < c && c < 'a' || 'z' < c)
}

// userHeaders are the headers that identify a user, in canonical form.
var userHeaders = map[string]bool{
	"Ocp-User": true, // the user on whose behalf an agent claims to act

	// Authenticating proxies: Caddy's forward_auth, oauth2-proxy, Authelia, nginx, Envoy.
	"X-Forwarded-Name": true, "X-Forwarded-Email": true, "X-Forwarded-Preferred-Username": true,
	"X-Forwarded-Access-Token": true, "X-Forwarded-Client-Cert": true,
	"X-User": true, "X-Username": true, "X-Userinfo": true, "X-User-Id": true, "X-User-Name": true, "X-User-Email": true,

	// Impersonation of other users by administrators.
	"X-On-Behalf-Of": true, "X-Impersonate-User": true, "X-Act-As": true, "X-Sudo": true, "Sudo": true,
}

// userPrefixes are the prefixes of headers that identify a user, in canonical form.
var userPrefixes = [...]string{
	// Caddy's forward_auth, oauth2-proxy, Authelia, nginx, Envoy; see userHeaders.
	"Remote-User", "Remote-Name", "Remote-Email", "Remote-Group", "Remote-Role",
	"X-Remote-User", "X-Remote-Name", "X-Remote-Email", "X-Remote-Group", "X-Remote-Role",
	"X-Forwarded-User", "X-Forwarded-Group", "X-Forwarded-Role",
	"X-Auth-User", "X-Auth-Name", "X-Auth-Email", "X-Auth-Group", "X-Auth-Role",
	"X-User-Group", "X-User-Role", "X-Proxy-User", "X-Authenticated-",

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

// NamesUser reports whether a header identifies the user on whose behalf a request is
// made. Authenticating proxies and administrators who act for others send such headers.
// It compares names as Of does.
func NamesUser(name string) bool {
	if !beginsWith(name, "xsortic") {
		return false
	}
	name = Canonical(name)
	return userHeaders[name] || slices.ContainsFunc(userPrefixes[:], func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// ConnectionOptions returns the additional hop-by-hop headers that the Connection header
// lists (RFC 9110, section 7.6.1). Usually there are none and the result is nil.
func ConnectionOptions(header http.Header) (names []string) {
	for _, value := range header["Connection"] {
		for option := range strings.SplitSeq(value, ",") {
			option = http.CanonicalHeaderKey(strings.TrimSpace(option))
			if option != "" && option != "Keep-Alive" && option != "Close" {
				names = append(names, option)
			}
		}
	}
	return names
}

// Forwarded reports whether a header of the client's request is copied to the inner
// request of a tool call. The name must be in canonical form.
func Forwarded(name string, connection []string) bool {
	if slices.Contains(connection, name) {
		return false
	}
	if name == "" || name[0] == ':' {
		return false
	}
	name = Canonical(name)
	switch name {
	case "Alt-Svc", "Connection", "Http2-Settings", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade": // describe the connection
		return false
	case "Dnt", "Expect", "Host", "Last-Event-Id", "Origin", "Range", "Referer", "Upgrade-Insecure-Requests": // describe the client's message
		return false
	}
	if ofCanonical(name) != Ordinary {
		return false // would make some servers run another operation than the one that was checked
	}
	switch name[0] {
	case 'A':
		return !strings.HasPrefix(name, "Accept")
	case 'C':
		return !strings.HasPrefix(name, "Content-")
	case 'I':
		return !strings.HasPrefix(name, "If-")
	case 'M':
		return !strings.HasPrefix(name, "Mcp-")
	case 'S':
		return !strings.HasPrefix(name, "Sec-")
	}
	return true
}
