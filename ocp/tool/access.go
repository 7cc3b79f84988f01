package tool

import (
	"slices"

	"github.com/fairwayhq/fairway/ocp/security"
)

// Access is what the access token of a caller allows. A nil Access allows everything.
type Access struct {
	Scopes   []string // scopes of the token
	Metadata string   // URL of the protected resource metadata (RFC 9728); "" if there is none
}

// Missing returns the scopes that the token lacks for a call of the tool, sorted; nil means that the
// call is allowed. Set has the tool. If the document declares several alternatives, Missing returns
// the one with the fewest missing scopes. It ignores alternatives without a token, such as an API
// key: the gateway's own API key must not replace a scope of the user.
func (a *Access) Missing(tool *Tool, set *Toolset) []string {
	if a == nil || len(tool.Security) == 0 {
		return nil
	}
	schemes := set.PartOf(tool).SecuritySchemes
	var fewest []string
	for _, requirement := range tool.Security {
		missing, needsToken := a.missingFor(requirement, schemes)
		if len(requirement) > 0 && !needsToken {
			continue
		}
		if len(missing) == 0 {
			return nil
		}
		if fewest == nil || len(missing) < len(fewest) {
			fewest = missing
		}
	}
	slices.Sort(fewest)
	return fewest
}

// missingFor returns the scopes that the token lacks for one alternative, and whether the
// alternative requires a token at all.
func (a *Access) missingFor(requirement SecurityRequirement, schemes map[string]*security.Scheme) (missing []string, needsToken bool) {
	for name, scopes := range requirement {
		if s := schemes[name]; s == nil || s.Type != "oauth2" && s.Type != "openIdConnect" {
			continue
		}
		needsToken = true
		for _, scope := range scopes {
			if !slices.Contains(a.Scopes, scope) && !slices.Contains(missing, scope) {
				missing = append(missing, scope)
			}
		}
	}
	return missing, needsToken
}
