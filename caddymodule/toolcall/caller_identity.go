package toolcall

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/agentauth"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// AuthenticatedUser returns the request's {http.auth.user.id}. It returns "" if the caller is
// not authenticated.
func AuthenticatedUser(r *http.Request) string {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	user, _ := repl.GetString("http.auth.user.id")
	return user
}

// AccessOf returns the scopes of the request's access token. It returns nil if the request has
// no access token.
func AccessOf(r *http.Request) *tool.Access {
	scopes, ok := caddyhttp.GetVar(r.Context(), agentauth.VarScopes).([]string)
	if !ok {
		return nil
	}
	metadata, _ := caddyhttp.GetVar(r.Context(), agentauth.VarResourceMetadata).(string)
	return &tool.Access{Scopes: scopes, Metadata: metadata}
}

// Access returns what the access token of a request's caller allows at the endpoint. Nil allows
// everything.
func (e *Endpoint) Access(r *http.Request) *tool.Access {
	if e.IgnoreScopes {
		return nil
	}
	return AccessOf(r)
}

// allowed returns a function that reports whether the caller of a request can see and call a tool.
func (e *Endpoint) allowed(r *http.Request, tools *tool.Toolset) func(*tool.Tool) bool {
	access := e.Access(r)
	return func(t *tool.Tool) bool {
		return (e.Hidden == nil || !e.Hidden(t)) && access.Missing(t, tools) == nil
	}
}
