package tokenclient

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// A Grant is a way to a token.
type Grant string

// The grants.
const (
	ClientCredentials Grant = "client_credentials" // for the gateway itself (RFC 6749, section 4.4)
	TokenExchange     Grant = "token_exchange"     // for the caller (RFC 8693)
	JWTBearer         Grant = "jwt_bearer"         // for the caller (RFC 7523, section 2.1)
	IDJAG             Grant = "id_jag"             // for the caller, with an identity assertion of its identity provider
)

// Grants are all grants.
var Grants = [...]string{string(ClientCredentials), string(TokenExchange), string(JWTBearer), string(IDJAG)}

const (
	tokenTypes    = "urn:ietf:params:oauth:token-type:" //nolint:gosec // a name
	grantTypes    = "urn:ietf:params:oauth:grant-type:"
	typeAccess    = tokenTypes + "access_token"
	typeID        = tokenTypes + "id_token"
	typeIDJAG     = tokenTypes + "id-jag"
	grantExchange = grantTypes + "token-exchange"
	grantBearer   = grantTypes + "jwt-bearer"
)

// ForCaller reports whether the token is for the caller, whose own token the grant needs.
func (g Grant) ForCaller() bool { return g != ClientCredentials }

// subjectType returns the type of the caller's token: that of the form, or else the usual one of the grant.
func (g Grant) subjectType(form url.Values) string {
	switch {
	case form.Has("subject_token_type"):
		return form.Get("subject_token_type")
	case g == IDJAG:
		return typeID
	}
	return typeAccess
}

// TakesID reports whether the caller's token that a request with the form needs is an ID token, and not an access token.
func (g Grant) TakesID(form url.Values) bool { return g.subjectType(form) == typeID }

// Reserved are the parameters of token requests that a Request has fields for.
var Reserved = []string{
	"grant_type", "client_id", "client_secret", "client_assertion", "client_assertion_type", "subject_token", "assertion", "scope", "audience", "resource",
}

// A Request asks for a token.
type Request struct {
	Grant    Grant
	Endpoint Endpoint
	Identity Endpoint   // of the identity provider; for IDJAG
	Form     url.Values // audience, resource, scope and further parameters
	Subject  string     // the caller's token; "" for ClientCredentials
}

// Fetch sends the requests of the grant.
func (r *Request) Fetch(ctx context.Context, client *http.Client) (*Token, error) {
	form := maps.Clone(r.Form)
	endpoint := r.Endpoint
	switch r.Grant {
	case ClientCredentials:
	case JWTBearer:
		form.Set("grant_type", grantBearer)
		form.Set("assertion", r.Subject)
	case TokenExchange, IDJAG:
		form.Set("grant_type", grantExchange)
		form.Set("subject_token", r.Subject)
		if r.Grant == IDJAG {
			form.Set("requested_token_type", typeIDJAG)
			endpoint = r.Identity
		}
		form.Set("subject_token_type", r.Grant.subjectType(r.Form))
	}
	got, err := endpoint.Fetch(ctx, client, form)
	if err == nil && r.Grant == IDJAG {
		second := url.Values{"grant_type": {grantBearer}, "assertion": {got.Value}}
		endpoint = r.Endpoint
		got, err = endpoint.Fetch(ctx, client, second)
	}
	if err == nil && got.Type != "" && !strings.EqualFold(got.Type, "Bearer") {
		err = &Error{Endpoint: endpoint.shown(), reason: fmt.Sprintf("its token is not a bearer token (token_type %.20q)", got.Type)}
	}
	if err != nil {
		return nil, err
	}
	return got, nil
}
