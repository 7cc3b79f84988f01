package caddymodule

import (
	"crypto/sha256"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// apiIdentity names what the API sees of the caller of a request: the user, or else the
// address, and the headers that go along with tool calls. Two requests have the same
// identity only if the API cannot tell their callers apart. It is a hash, so that
// credentials are not kept.
func apiIdentity(r *http.Request) string {
	sum := sha256.New()
	add := func(parts ...string) {
		for _, part := range parts {
			sum.Write([]byte(part + "\x00"))
		}
	}
	user := authenticatedUser(r)
	add(user, r.Host)
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		for _, name := range []string{"scope", "client_id", "issuer"} {
			value, _ := repl.GetString("http.auth.user." + name)
			add(value)
		}
	}
	if user == "" {
		add(clientAddress(r))
	}
	named := connectionOptions(r.Header)
	var names []string
	for name := range r.Header {
		if carried(name, named) && !slices.Contains(tracingHeaders, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		add(name, strings.Join(r.Header[name], "\x01"))
	}
	return string(sum.Sum(nil))
}

// tracingHeaders are those by which a request differs from others of the same caller.
var tracingHeaders = []string{"Traceparent", "Tracestate", "Baggage", "X-Request-Id", "X-Correlation-Id"}

// clientAddress returns the address of the client, without the port of its connection.
func clientAddress(r *http.Request) string {
	if address, ok := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string); ok && address != "" {
		return address
	}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}
