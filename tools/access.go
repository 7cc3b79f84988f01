package tools

import "github.com/fairwayhq/fairway/tools/security"

// Access is what the access token of a caller allows. A nil Access allows everything.
type Access struct {
	Scopes   []string // scopes of the token
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
