package auth

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/fairwayhq/fairway/internal/oauth"
)

// Explanation says what a Handler makes of an access token. It does not contain the token. Values of a token whose
// signature does not count are those that someone has written into it.
type Explanation struct {
	Refused     string    `json:"refused,omitempty"` // why the handler rejects the token; "" if it accepts it
	Issuer      string    `json:"issuer,omitempty"`
	Signature   string    `json:"signature"` // "ok", or why it does not count
	Wanted      []string  `json:"audience_wanted"`
	Audience    []string  `json:"audience"`
	Expires     time.Time `json:"expires,omitzero"`
	User        string    `json:"user,omitempty"`
	UserClaim   string    `json:"user_claim"`
	Groups      []string  `json:"groups"`
	GroupClaims []string  `json:"group_claims"`
	NoGroups    string    `json:"no_groups,omitempty"` // why the groups are unknown
	Scopes      []string  `json:"scopes"`              // with those that others include
	ScopeClaims []string  `json:"scope_claims"`
}

// Explain verifies the token as for the request, which caddyhttp.PrepareRequest has prepared, and says why it is accepted
// or rejected. If it is accepted, the request is that of the token's user afterwards.
func (a *Handler) Explain(r *http.Request, token string) *Explanation {
	o := a.OAuth
	if o == nil {
		return &Explanation{Refused: "agent_auth accepts API keys only", Signature: "not checked"}
	}
	e := &Explanation{
		Signature: "ok", Wanted: o.audiences(r), UserClaim: cmp.Or(o.UserClaim, "sub"), GroupClaims: o.GroupClaims,
		ScopeClaims: append([]string{"scope or scp"}, o.ScopeClaims...),
	}
	if len(e.GroupClaims) == 0 {
		e.GroupClaims = []string{oauth.DefaultGroupClaim}
	}
	r.Header.Set("Authorization", "Bearer "+token)
	user, err := a.authenticate(r)
	if err != nil {
		e.Refused = descriptionOf(err)
	}
	tokens, err := o.verifier(r.Context())
	if err != nil {
		e.Signature = descriptionOf(err)
		return e
	}
	content, err := tokens.Inspect(r.Context(), token)
	if err != nil {
		e.Signature = descriptionOf(err)
	}
	if content == nil {
		return e
	}
	e.Issuer, e.Audience, e.Expires = content.Issuer, content.Audience, content.Expires
	if of, err := content.Identify(o.claims); err == nil {
		e.User, e.Groups, e.NoGroups, e.Scopes = o.user(content, of).ID, of.Groups, of.NoGroups, of.Scopes
	}
	if e.Refused == "" {
		setUser(r, user)
	}
	return e
}

// descriptionOf returns the reason of a rejection without its code.
func descriptionOf(err error) string {
	if refusal, ok := errors.AsType[*oauth.Error](err); ok {
		return refusal.Description
	}
	return err.Error()
}
