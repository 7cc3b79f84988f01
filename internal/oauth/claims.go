package oauth

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

// DefaultGroupClaim is the claim with the groups of a user if none is configured.
const DefaultGroupClaim = "groups"

// emailClaim is the claim that names a user only if the issuer has verified it (OpenID Connect Core,
// section 5.1).
const emailClaim = "email"

// ClaimRules say which claims of a token describe its user. Names of claims may be nested with dots, see
// FindClaim. The zero value is valid.
type ClaimRules struct {
	User     string              // names the user; default: sub, or else client_id
	Groups   []string            // the user's groups, each a string or a list; default: DefaultGroupClaim
	Scopes   []string            // further scopes, each a string with spaces or a list; default: none
	Includes map[string][]string // scopes that another scope includes
}

// Identity is the user of a token by some ClaimRules. It is immutable.
type Identity struct {
	User   string
	Groups []string
	Scopes []string // with those that others include

	// NoGroups says why the groups of the user are unknown. It is "" if they are known.
	NoGroups string
}

// identified is an Identity with the rules that it was made by.
type identified struct {
	rules *ClaimRules
	*Identity
}

// Identify returns the user of the token. The rules must not change. The token keeps the Identity for the
// latest rules. An error is an *Error with InvalidToken.
func (t *Token) Identify(rules *ClaimRules) (*Identity, error) {
	if known := t.identity.Load(); known != nil && known.rules == rules {
		return known.Identity, nil
	}
	user, err := t.user(rules.User)
	if err != nil {
		return nil, err
	}
	i := &Identity{User: user, Scopes: t.scopes(rules)}
	claims := rules.Groups
	if len(claims) == 0 {
		claims = []string{DefaultGroupClaim}
	}
	i.Groups, i.NoGroups = GroupsOf(t.Claims, claims...)
	t.identity.Store(&identified{rules, i})
	return i, nil
}

// user returns the value of the claim that names the user.
func (t *Token) user(claim string) (string, error) {
	switch claim {
	case "", "sub":
		if t.Subject == "" {
			return t.ClientID, nil
		}
		return t.Subject, nil
	case emailClaim:
		if verified := string(FindClaim(t.Claims, "email_verified")); verified != "true" && verified != `"true"` {
			return "", NewInvalidToken("the token has no email that its issuer has verified (email_verified)")
		}
	}
	value := FindClaim(t.Claims, claim)
	if user := strictjson.Text(value); value.Kind() == '"' && user != "" && !text.HasControl(user) {
		return user, nil
	}
	return "", NewInvalidToken("the token has no text in the claim %s, which names the user", QuoteShort(claim))
}

// GroupsOf returns the groups of a user in some claims, or why they are unknown. A claim that is a string is one group,
// also if it has spaces. All are the claims of the token, a JSON object.
func GroupsOf(all jsontext.Value, claims ...string) (groups []string, unknown string) {
	for _, claim := range claims {
		if omitsGroups(all, claim) {
			return nil, fmt.Sprintf("the user has too many groups for a token, so the issuer left out the claim %s (groups overage): "+
				"configure the issuer to send only groups that are assigned to the application", claim)
		}
		names, err := StringOrStrings(FindClaim(all, claim))
		if err != nil {
			return nil, fmt.Sprintf("the claim %s is neither a string nor a list of strings", claim)
		}
		groups = append(groups, names...)
	}
	return groups, ""
}

// omitsGroups reports whether the issuer has replaced the claim by a link to it. Entra ID does so for more
// than 200 groups (OpenID Connect Core, section 5.6.2; hasgroups is Entra's form for short tokens).
func omitsGroups(all jsontext.Value, claim string) bool {
	return strictjson.HasMember(strictjson.MemberOf(all, "_claim_names"), claim) ||
		claim == DefaultGroupClaim && string(strictjson.MemberOf(all, "hasgroups")) == "true"
}

// scopes returns the scopes of the token by the rules.
func (t *Token) scopes(rules *ClaimRules) []string {
	if len(rules.Scopes) == 0 && len(rules.Includes) == 0 {
		return t.Scopes
	}
	scopes := slices.Clone(t.Scopes)
	for _, claim := range rules.Scopes {
		more, err := ScopesOf(FindClaim(t.Claims, claim))
		if err == nil { // a value of another type grants nothing
			scopes = append(scopes, more...)
		}
	}
	return include(scopes, rules.Includes)
}

// include adds the scopes that the scopes include, and those that these include.
func include(scopes []string, includes map[string][]string) []string {
	var all []string
	queue := slices.Clone(scopes)
	for len(queue) > 0 {
		scope := queue[0]
		queue = queue[1:]
		if !slices.Contains(all, scope) {
			all = append(all, scope)
			queue = append(queue, includes[scope]...)
		}
	}
	return all
}

// FindClaim returns a claim of a JSON object. If there is no claim with that name, the part before a dot
// is the name of an object that has the rest: realm_access.roles. Some issuers have dots in names, so the
// longest name that exists is taken. FindClaim returns nil if there is none.
func FindClaim(claims jsontext.Value, name string) jsontext.Value {
	if value := strictjson.MemberOf(claims, name); value != nil {
		return value
	}
	for end := strings.LastIndexByte(name, '.'); end > 0; end = strings.LastIndexByte(name[:end], '.') {
		inner := strictjson.MemberOf(claims, name[:end])
		if inner == nil {
			continue // else the search takes exponential time for names with many dots
		}
		if value := FindClaim(inner, name[end+1:]); value != nil {
			return value
		}
	}
	return nil
}
