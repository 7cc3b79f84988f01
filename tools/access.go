package tools

import (
	"slices"

	"github.com/fairwayhq/fairway/tools/security"
)

// Access is what the access token of a caller allows. A nil Access allows all tools.
type Access struct {
	Scopes   []string // scopes of the token, and those that they include
	Granted  []string // scopes that the issuer has granted; default: Scopes
	AllTools bool     // tools need no scopes, whatever their documents require
	Metadata string   // URL of the protected resource metadata (RFC 9728); "" if there is none

	// SignIn is set if the request has no token. It returns the WWW-Authenticate challenge for one with these scopes.
	SignIn   func(scopes []string) string
	SignedIn bool // the site has authenticated the caller in another way than by a token
}

// Missing returns the scopes that the token lacks for a call of the tool, sorted; nil means that a token allows the call. Without a token, there
// is nothing that it lacks: see Login. Set has the tool. See security.Missing.
func (a *Access) Missing(tool *Tool, set *Toolset) []string {
	if a == nil || a.AllTools || a.SignIn != nil || len(tool.Plan.Security) == 0 {
		return nil
	}
	return security.Missing(tool.Plan.Security, set.PartOf(tool).SecuritySchemes, a.Scopes)
}

// Login reports whether a call of the tool needs a token, and the request has none. It returns the challenge for one. For a caller whom the site has
// authenticated in another way, only tools with scopes need a token.
func (a *Access) Login(tool *Tool, set *Toolset) (challenge string, needed bool) {
	if a == nil || a.SignIn == nil || len(tool.Plan.Security) == 0 {
		return "", false
	}
	schemes := set.PartOf(tool).SecuritySchemes
	var scopes []string
	if !a.AllTools {
		scopes = security.Needed(tool.Plan.Security, schemes, nil)
	}
	if scopes == nil && (a.SignedIn || !security.NeedsLogin(tool.Plan.Security, schemes)) {
		return "", false
	}
	return a.SignIn(scopes), true
}

// Lacks returns the scopes of needed that the token does not have. Only access tokens have scopes, so a nil
// Access lacks all of them.
func (a *Access) Lacks(needed []string) (missing []string) {
	for _, scope := range needed {
		if a == nil || !slices.Contains(a.Scopes, scope) {
			missing = append(missing, scope)
		}
	}
	return missing
}

// Challenge returns the scopes that a client must request to be allowed a call of the tool. See Request.
func (a *Access) Challenge(tool *Tool, set *Toolset) []string {
	return a.Request(security.Needed(tool.Plan.Security, set.PartOf(tool).SecuritySchemes, a.Scopes))
}

// Request returns the scopes that a client must request if something needs scopes that its token lacks: all
// that are needed, and then those that the token has already been granted, so that the new token keeps them
// (MCP 2026-07-28, Authorization, Runtime Insufficient Scope Errors).
func (a *Access) Request(needed []string) []string {
	scopes := slices.Clone(needed)
	if a == nil {
		return scopes
	}
	granted := a.Granted
	if granted == nil {
		granted = a.Scopes
	}
	for _, scope := range granted {
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}
