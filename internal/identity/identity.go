// Package identity describes the authenticated user of a request: the id, and the groups and claims that
// a token has. Package caddymodule/auth makes Users. Rules over users and lists of users read them.
package identity

import (
	"errors"
	"slices"
	"strings"

	"cel.dev/cel-go/common/types"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/celenv"
)

// Request variables that agent_auth sets for the next handlers (caddyhttp.GetVar). VarScopes is set for every request whose
// access depends on scopes. It is empty for a request without a token.
const (
	Var                 = "agents.user"              // *User of a verified access token
	VarResourceMetadata = "agents.resource_metadata" // string, a URL
	VarScopes           = "agents.scopes"            // []string

	// VarSignIn is set for a request without credentials that agent_auth lets through. It returns the WWW-Authenticate challenge for a token with
	// these scopes.
	VarSignIn = "agents.sign_in" // func(scopes []string) string

	// VarLogin describes the credentials that every request needs. It is not set if requests
	// without credentials are allowed.
	VarLogin = "agents.login" // *Login

	// VarExpires is when the credentials of a request expire. It is not set if they do not
	// expire.
	VarExpires = "agents.expires" // time.Time
)

// Login describes the credentials that every request needs.
type Login struct {
	OAuth  bool     // whether access tokens are accepted; if not, only other credentials such as API keys
	Scopes []string // scopes that every access token needs
}

// User is an authenticated user, or a caller without a name. It is immutable.
type User struct {
	ID       string         `json:"id,omitempty"` // "" if the caller is not authenticated
	Groups   []string       `json:"groups,omitempty"`
	NoGroups string         `json:"no_groups,omitempty"` // why the groups are unknown; "" if they are known
	Claims   jsontext.Value `json:"claims,omitempty"`    // a JSON object; nil for none
	Scopes   []string       `json:"-"`                   // that the issuer has granted, without those that others include
}

// ErrUnknown is the error of a rule that reads groups or claims that are unknown.
var ErrUnknown = errors.New("the groups and claims of the user are not known here")

// Unknown returns a User whose groups and claims are unknown. Rules that read them fail.
func Unknown(id string) *User {
	return &User{ID: id, NoGroups: ErrUnknown.Error(), Claims: jsontext.Value("null")}
}

// groupPrefix begins the entries of lists of users that name a group.
const groupPrefix = "group:"

// IsIn reports whether a list has the user. Its entries are ids of users, and group:NAME for the members of a
// group.
func (u *User) IsIn(list []string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		if group, isGroup := strings.CutPrefix(entry, groupPrefix); isGroup {
			return slices.Contains(u.Groups, group)
		}
		return u.ID != "" && entry == u.ID
	})
}

// CheckEntry returns an error for an entry of a list that IsIn never finds.
func CheckEntry(entry string) error {
	if entry == groupPrefix {
		return errors.New("the name of the group is missing: write it as group:engineering")
	}
	return nil
}

// Fields returns the groups and claims as expressions see them. Groups or claims that are unknown are
// errors, so that a rule that reads them fails.
func (u *User) Fields() map[string]any {
	fields := map[string]any{"groups": u.Groups, "claims": &celenv.Node{Raw: jsontext.Value("{}")}}
	if u.NoGroups != "" {
		fields["groups"] = types.NewErr("%s", u.NoGroups)
		if u.NoGroups == ErrUnknown.Error() {
			fields["groups"] = types.WrapErr(ErrUnknown)
		}
	}
	switch {
	case u.Claims.Kind() == '{':
		fields["claims"] = &celenv.Node{Raw: u.Claims, Exact: true}
	case u.Claims != nil || u.NoGroups == ErrUnknown.Error(): // JSON omits claims that are null
		fields["claims"] = types.WrapErr(ErrUnknown)
	}
	return fields
}
