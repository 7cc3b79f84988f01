package mcp

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/httpheader"
)

// apiIdentity returns a hash of everything by which the API can distinguish callers. Two
// requests have the same identity only if all of these are equal:
//
//   - the user with the claims of the token or, for unauthenticated callers, the client address
//   - the URL, the client certificate and the variables, from which credentials may be derived
//   - the headers that are forwarded with tool calls
//
// A hash is used so that credentials are not kept in memory.
func apiIdentity(r *http.Request) string {
	sum := sha256.New()
	add := func(parts ...string) {
		for _, part := range parts {
			_ = binary.Write(sum, binary.BigEndian, uint64(len(part)))
			sum.Write([]byte(part))
		}
	}
	known := route.UserOf(r)
	user := known.ID
	add(string(known.Claims))
	add(user, r.Host, originalURL(r))
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		for _, name := range []string{"scope", "client_id", "issuer", "email"} {
			value, _ := repl.GetString("http.auth.user." + name)
			add(value)
		}
	}
	if user == "" {
		add(route.ClientAddress(r))
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		add("certificate", string(r.TLS.PeerCertificates[0].Raw))
	}
	vars, _ := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if value, ok := vars[name].(string); ok && name != caddyhttp.ClientIPVarKey {
			add("variable", name, value)
		}
	}
	named := httpheader.ConnectionOptions(r.Header)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if httpheader.Forwarded(name, named) && !slices.Contains(tracingHeaders, name) {
			add("header", name)
			add(r.Header[name]...)
		}
	}
	return string(sum.Sum(nil))
}

// originalURL returns the path and query that the client sent.
func originalURL(r *http.Request) string {
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok && original.URL != nil {
		return original.URL.RequestURI()
	}
	return r.URL.RequestURI()
}

// tracingHeaders differ between requests of the same caller and do not identify it.
var tracingHeaders = []string{"Traceparent", "Tracestate", "Baggage", "X-Request-Id", "X-Correlation-Id"}
