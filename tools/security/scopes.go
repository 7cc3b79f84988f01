package security

import "slices"

// Missing returns the scopes that an access token lacks for an operation, sorted; nil means that the call is
// allowed. Alternatives are the security requirements of the operation: the scopes by the name of
// the scheme. If there are several, Missing returns the one with the fewest missing scopes. It ignores
// alternatives without a token, such as an API key: the gateway's own API key must not replace a
// scope of the user.
func Missing[R ~map[string][]string](alternatives []R, schemes map[string]*Scheme, scopes []string) []string {
	missing, _ := closest(alternatives, schemes, scopes)
	return missing
}

// Needed returns all scopes of the alternative that Missing chooses, sorted, also those that the token has. It is nil if
// the call is allowed.
func Needed[R ~map[string][]string](alternatives []R, schemes map[string]*Scheme, scopes []string) []string {
	missing, chosen := closest(alternatives, schemes, scopes)
	if missing == nil {
		return nil
	}
	needed, _ := missingFor(chosen, schemes, nil)
	slices.Sort(needed)
	return needed
}

// NeedsLogin reports whether each alternative needs a token of the user. It ignores alternatives without a token, as Missing does.
func NeedsLogin[R ~map[string][]string](alternatives []R, schemes map[string]*Scheme) (needed bool) {
	for _, requirement := range alternatives {
		if len(requirement) == 0 {
			return false
		}
		for name := range requirement {
			needed = needed || schemes[name].IsLogin()
		}
	}
	return needed
}

// IsLogin reports whether users log in to get a token of the scheme. Other credentials, such as API keys, are added by the gateway.
func (s *Scheme) IsLogin() bool {
	return s != nil && (s.HasScopes() || s.Type == "http" && s.Scheme == "bearer")
}

// HasScopes reports whether tokens of the scheme have scopes.
func (s *Scheme) HasScopes() bool {
	return s != nil && (s.Type == "oauth2" || s.Type == "openIdConnect")
}

// closest returns the alternative with the fewest missing scopes, and these.
func closest[R ~map[string][]string](alternatives []R, schemes map[string]*Scheme, scopes []string) (fewest []string, chosen R) {
	for _, requirement := range alternatives {
		missing, needsToken := missingFor(requirement, schemes, scopes)
		if len(requirement) > 0 && !needsToken {
			continue
		}
		if len(missing) == 0 {
			return nil, requirement
		}
		if fewest == nil || len(missing) < len(fewest) {
			fewest, chosen = missing, requirement
		}
	}
	slices.Sort(fewest)
	return fewest, chosen
}

// missingFor returns the scopes that the token lacks for one alternative, and whether the
// alternative requires a token at all.
func missingFor[R ~map[string][]string](requirement R, schemes map[string]*Scheme, has []string) (missing []string, needsToken bool) {
	for name, scopes := range requirement {
		if !schemes[name].HasScopes() {
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
