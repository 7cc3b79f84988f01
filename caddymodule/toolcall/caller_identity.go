package toolcall

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/agentauth"
	"github.com/fairwayhq/fairway/mcpadapter"
)

// AuthenticatedUser returns the {http.auth.user.id} of a request, "" if nobody is
// authenticated.
func AuthenticatedUser(r *http.Request) string {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	user, _ := repl.GetString("http.auth.user.id")
	return user
}

// AccessOf returns what the access token of a request allows, nil if it came
// without one.
func AccessOf(r *http.Request) *mcpadapter.Access {
	scopes, ok := caddyhttp.GetVar(r.Context(), agentauth.VarScopes).([]string)
	if !ok {
		return nil
	}
	metadata, _ := caddyhttp.GetVar(r.Context(), agentauth.VarResourceMetadata).(string)
	return &mcpadapter.Access{Scopes: scopes, Metadata: metadata}
}
