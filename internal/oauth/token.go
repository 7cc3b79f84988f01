package oauth

import (
	"encoding/base64"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// Token is what a verified access token says.
type Token struct {
	Issuer   string
	Subject  string   // "" if the client acts for itself and the issuer says so
	ClientID string   // client_id, or azp where there is none
	Audience []string // whom it is for
	Scopes   []string // of scope or scp
	Expires  time.Time

	notBefore time.Time // the later of nbf and iat, zero without both
}

// HasScopes reports whether the token has all of these scopes.
func (t *Token) HasScopes(scopes []string) bool {
	return len(t.MissingScopes(scopes)) == 0
}

// MissingScopes returns those of the scopes that the token has not.
func (t *Token) MissingScopes(scopes []string) (missing []string) {
	for _, scope := range scopes {
		if !slices.Contains(t.Scopes, scope) {
			missing = append(missing, scope)
		}
	}
	return missing
}

// joseHeader is the part of a token's header that is decided on (RFC 7515,
// section 4.1). Keys and addresses of keys that a token brings along are not.
type joseHeader struct {
	Algorithm string         `json:"alg"`
	KeyID     string         `json:"kid"`
	Type      string         `json:"typ"`
	Critical  jsontext.Value `json:"crit"`
}

// claims is the part of a token's payload that is decided on (RFC 9068, section
// 2.2, and what other issuers call the same).
type claims struct {
	Issuer       string         `json:"iss"`
	Subject      string         `json:"sub"`
	Audience     jsontext.Value `json:"aud"`
	Expires      jsontext.Value `json:"exp"`
	NotBefore    jsontext.Value `json:"nbf"`
	IssuedAt     jsontext.Value `json:"iat"`
	ClientID     string         `json:"client_id"`
	Authorized   string         `json:"azp"`
	Scope        jsontext.Value `json:"scope"`
	Scopes       jsontext.Value `json:"scp"`
	Confirmation jsontext.Value `json:"cnf"`
}

// split takes a token apart without believing it.
func split(token string) (header joseHeader, payload []byte, err error) {
	if len(token) > MaxToken {
		return header, nil, invalidToken("the token is longer than %d bytes", MaxToken)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 || !isToken68(token) {
		return header, nil, invalidToken("the token is not a signed JWT, which has three parts with dots between them")
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil || wire.Unmarshal(raw, &header) != nil {
		return header, nil, invalidToken("the token's header is not JSON in base64url")
	}
	if payload, err = base64.RawURLEncoding.DecodeString(parts[1]); err != nil {
		return header, nil, invalidToken("the token's claims are not JSON in base64url")
	}
	return header, payload, nil
}

// check refuses headers that ask for more than is understood here.
func (h *joseHeader) check(algorithms []string) error {
	if !slices.Contains(algorithms, h.Algorithm) {
		return invalidToken("the token's alg %s is not accepted; accepted are %s", shown(h.Algorithm), strings.Join(algorithms, ", "))
	}
	if h.Critical != nil {
		return invalidToken("the token's header has crit, which asks for extensions that this resource does not understand")
	}
	switch strings.ToLower(h.Type) {
	case "", "jwt", "at+jwt", "application/at+jwt", "application/jwt":
		return nil
	}
	return invalidToken("the token's typ is %s, which no access token has", shown(h.Type))
}

// readClaims decodes a payload. Its error has a description only.
func readClaims(payload []byte) (*claims, error) {
	c := new(claims)
	if err := wire.Unmarshal(payload, c); err != nil {
		return nil, invalidToken("the token's claims are not JSON of the expected types")
	}
	return c, nil
}

// token returns the claims of a token whose signature is good, in their usable
// form.
func (c *claims) token() (*Token, error) {
	t := &Token{Issuer: c.Issuer, Subject: c.Subject, ClientID: c.ClientID}
	if t.ClientID == "" {
		t.ClientID = c.Authorized
	}
	if t.Subject == "" && t.ClientID == "" {
		return nil, invalidToken("the token has neither sub nor client_id, so it says nobody")
	}
	if hasControl(t.Subject) || hasControl(t.ClientID) {
		return nil, invalidToken("the token's sub or client_id has control characters")
	}
	if c.Confirmation != nil && c.Confirmation.Kind() != 'n' {
		return nil, invalidToken("the token is bound to a key (cnf), and this resource accepts bearer tokens only")
	}
	var err error
	if t.Audience, err = stringOrStrings(c.Audience); err != nil {
		return nil, invalidToken("the token's aud is neither a string nor an array of strings")
	}
	if t.Scopes, err = scopesOf(c.Scope, c.Scopes); err != nil {
		return nil, invalidToken("the token's scope or scp is neither a string nor an array of strings")
	}
	if t.Expires, err = numericDate(c.Expires); err != nil || t.Expires.IsZero() {
		return nil, invalidToken("the token has no exp that is a number of seconds")
	}
	for _, date := range []jsontext.Value{c.NotBefore, c.IssuedAt} {
		begin, err := numericDate(date)
		if err != nil {
			return nil, invalidToken("the token's nbf or iat is not a number of seconds")
		}
		if begin.After(t.notBefore) {
			t.notBefore = begin
		}
	}
	return t, nil
}

// checkTime refuses a token that is not valid at the time.
func (t *Token) checkTime(now time.Time, leeway time.Duration) error {
	if !now.Before(t.Expires.Add(leeway)) {
		return invalidToken("the token has expired: get a new one")
	}
	if now.Add(leeway).Before(t.notBefore) {
		return invalidToken("the token is not valid yet: the clocks of issuer and resource may differ")
	}
	return nil
}

// checkAudience refuses a token that is for none of the audiences, exactly.
func (t *Token) checkAudience(audiences []string) error {
	for _, audience := range t.Audience {
		if slices.Contains(audiences, audience) {
			return nil
		}
	}
	return invalidToken("the token is not for this resource: its aud has to have %s", strings.Join(audiences, " or "))
}

var errShape = errors.New("not of the expected shape")

func stringOrStrings(value jsontext.Value) ([]string, error) {
	switch value.Kind() {
	case '"':
		var one string
		err := wire.Unmarshal(value, &one)
		return []string{one}, err
	case '[':
		var several []string
		err := wire.Unmarshal(value, &several)
		return several, err
	case 'n', jsontext.KindInvalid:
		return nil, nil
	}
	return nil, errShape
}

// scopesOf reads scope (RFC 9068), or else scp, each in both forms.
func scopesOf(values ...jsontext.Value) (scopes []string, err error) {
	for _, value := range values {
		texts, err := stringOrStrings(value)
		if err != nil {
			return nil, err
		}
		for _, text := range texts {
			for scope := range strings.FieldsSeq(text) {
				if !slices.Contains(scopes, scope) {
					scopes = append(scopes, scope)
				}
			}
		}
		if scopes != nil {
			return scopes, nil
		}
	}
	return nil, nil
}

// maxNumericDate is in the year 5138: beyond, a number is no date in seconds.
const maxNumericDate = 1e11

// numericDate reads seconds since 1970, which may have a fraction (RFC 7519,
// section 2); the zero time if there is no value.
func numericDate(value jsontext.Value) (time.Time, error) {
	switch value.Kind() {
	case 'n', jsontext.KindInvalid:
		return time.Time{}, nil
	case '0':
	default:
		return time.Time{}, errShape
	}
	seconds, err := strconv.ParseFloat(string(value), 64)
	if err != nil || seconds < 0 || seconds > maxNumericDate {
		return time.Time{}, errShape
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*1e9)), nil
}

func hasControl(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// shown quotes what a stranger wrote, cut to a length that tells enough.
func shown(text string) string {
	const most = 40
	if len(text) > most {
		text = text[:most]
	}
	return strconv.QuoteToASCII(text)
}
