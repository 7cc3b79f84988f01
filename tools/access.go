package tools

import (
	"slices"

	"github.com/fairwayhq/fairway/tools/security"
)

// Access is what the access token of a caller allows. A nil Access allows everything.
type Access struct {
	Scopes   []string // scopes of the token, and those that they include
	Granted  []string // scopes that the issuer has granted; default: Scopes
	Metadata string   // URL of the protected resource metadata (RFC 9728); "" if there is none
}

// Missing returns the scopes that the token lacks for a call of the tool, sorted; nil means that the
// call is allowed. Set has the tool. See security.Missing.
func (a *Access) Missing(tool *Tool, set *Toolset) []string {
	if a == nil || len(tool.Plan.Security) == 0 {
		return nil
	}
	return security.Missing(tool.Plan.Security, set.PartOf(tool).SecuritySchemes, a.Scopes)
}

// Challenge returns the scopes that a client must request to be allowed a call of the tool: all that the
// operation needs, and then those that the token has already been granted, so that the new token keeps them
// (MCP 2026-07-28, Authorization, Runtime Insufficient Scope Errors).
func (a *Access) Challenge(tool *Tool, set *Toolset) []string {
	scopes := security.Needed(tool.Plan.Security, set.PartOf(tool).SecuritySchemes, a.Scopes)
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
