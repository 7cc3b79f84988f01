package security

import "slices"

// Missing returns the scopes that an access token lacks for an operation, sorted; nil means that the call is
// allowed. Alternatives are the security requirements of the operation: the scopes by the name of
// the scheme. If there are several, Missing returns the one with the fewest missing scopes. It ignores
// alternatives without a token, such as an API key: the gateway's own API key must not replace a
// scope of the user.
func Missing[R ~map[string][]string](alternatives []R, schemes map[string]*Scheme, scopes []string) []string {
	var fewest []string
	for _, requirement := range alternatives {
		missing, needsToken := missingFor(requirement, schemes, scopes)
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
func missingFor(requirement map[string][]string, schemes map[string]*Scheme, has []string) (missing []string, needsToken bool) {
	for name, scopes := range requirement {
		if s := schemes[name]; s == nil || s.Type != "oauth2" && s.Type != "openIdConnect" {
			continue
		}
		needsToken = true
		for _, scope := range scopes {
			if !slices.Contains(has, scope) && !slices.Contains(missing, scope) {
				missing = append(missing, scope)
			}
		}
	}
	return missing, needsToken
}
