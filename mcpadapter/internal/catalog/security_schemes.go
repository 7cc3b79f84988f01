package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools"
)

// securitySchemes returns how a client can authorize a call of the tool (Apps SDK, Tool Definition
// Structure), or nil if the document does not declare OAuth. Each element is either "noauth" or
// "oauth2" with the scopes of the token. If the site lets callers choose whether they log in, mixed is set: then a document
// with bearer tokens counts too.
//
// If the site requires a login, no tool is "noauth", and every token also needs the scopes of the
// login. API keys and passwords do not appear: the gateway injects them.
func securitySchemes(t *tools.Tool, toolset *tools.Toolset, login *Login, mixed bool) []byte {
	document := toolset.PartOf(t)
	if !usesTokens(document, mixed) || login != nil && !login.OAuth {
		return nil
	}
	alternatives := t.Plan.Security
	if len(alternatives) == 0 {
		alternatives = []tools.SecurityRequirement{{}} // no security requirement
	}
	var list []string
	for _, alternative := range alternatives {
		if one, ok := appendScheme(nil, alternative, document, login); ok && !slices.Contains(list, string(one)) {
			list = append(list, string(one))
		}
	}
	if list == nil && login != nil { // the gateway injects the API's own credentials
		one, _ := appendScheme(nil, nil, document, login)
		list = append(list, string(one))
	}
	if list == nil {
		return nil
	}
	return []byte("[" + strings.Join(list, ",") + "]")
}

// appendScheme appends one element of securitySchemes. It returns false if the alternative needs
// credentials that a client cannot provide, such as an API key of the gateway.
func appendScheme(dst []byte, alternative tools.SecurityRequirement, document *tools.Toolset, login *Login) ([]byte, bool) {
	if len(alternative) == 0 && login == nil {
		return append(dst, `{"type":"noauth"}`...), true
	}
	var scopes []string
	found := len(alternative) == 0
	if login != nil {
		scopes = append(scopes, login.Scopes...)
	}
	for name, needed := range alternative {
		scheme := document.SecuritySchemes[name]
		if found = found || scheme.IsLogin(); scheme.HasScopes() {
			scopes = append(scopes, needed...)
		}
	}
	if !found {
		return dst, false
	}
	dst = append(dst, `{"type":"oauth2"`...)
	if len(scopes) > 0 {
		slices.Sort(scopes)
		dst = strictjson.AppendStrings(append(dst, `,"scopes":`...), slices.Compact(scopes))
	}
	return append(dst, '}'), true
}

// usesTokens reports whether the document declares an OAuth 2.0 or OpenID Connect scheme, or if mixed is set, any scheme that needs a login.
func usesTokens(document *tools.Toolset, mixed bool) bool {
	for _, scheme := range document.SecuritySchemes {
		if scheme.HasScopes() || mixed && scheme.IsLogin() {
			return true
		}
	}
	return false
}

// Login describes the authentication that the site requires of every caller. tools/list repeats it
// in securitySchemes (Apps SDK).
type Login struct {
	OAuth  bool     // whether access tokens are accepted; if not, only other credentials such as API keys
	Scopes []string // scopes that every access token needs
}

// key returns the same string for equal logins, "" for nil.
func (l *Login) key() string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("login %t %q", l.OAuth, l.Scopes)
}

// AccessKey returns the same string for tokens with the same scopes, and for requests without a token; "" for nil.
func AccessKey(a *tools.Access) string {
	if a == nil {
		return ""
	}
	scopes := slices.Clone(a.Scopes)
	slices.Sort(scopes)
	if a.SignIn != nil {
		return "no token"
	}
	return "scopes " + strings.Join(slices.Compact(scopes), " ")
}
