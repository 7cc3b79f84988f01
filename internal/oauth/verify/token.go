package verify

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

// joseHeader is the part of a token's header that is used (RFC 7515, section 4.1). Keys in the
// token, and URLs of keys, are ignored because anyone could have set them.
type joseHeader struct {
	Algorithm string         `json:"alg"`
	KeyID     string         `json:"kid"`
	Type      string         `json:"typ"`
	Critical  jsontext.Value `json:"crit"`
}

// claims is the part of a token's payload that is used (RFC 9068, section 2.2, and equivalent
// names of other issuers).
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
	Session      jsontext.Value `json:"sid"`

	all jsontext.Value // the payload
}

// split decodes the parts of a token without verifying it.
func split(token string) (header joseHeader, payload []byte, err error) {
	if len(token) > oauth.MaxToken {
		return header, nil, oauth.NewInvalidToken("the token is longer than %d bytes", oauth.MaxToken)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 || !oauth.IsToken68(token) {
		return header, nil, oauth.NewInvalidToken("the token is not a signed JWT, which has three parts separated by dots")
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil || strictjson.Unmarshal(raw, &header) != nil {
		return header, nil, oauth.NewInvalidToken("the token's header is not JSON in base64url")
	}
	if payload, err = base64.RawURLEncoding.DecodeString(parts[1]); err != nil {
		return header, nil, oauth.NewInvalidToken("the token's claims are not JSON in base64url")
	}
	return header, payload, nil
}

// check rejects a header with an unaccepted algorithm, type or extension.
func (h *joseHeader) check(algorithms []string) error {
	if !slices.Contains(algorithms, h.Algorithm) {
		return oauth.NewInvalidToken("the token's alg %s is not accepted; accepted are %s", oauth.QuoteShort(h.Algorithm), strings.Join(algorithms, ", "))
	}
	if h.Critical != nil {
		return oauth.NewInvalidToken("the token's header has crit, which requires extensions that this resource does not support")
	}
	switch strings.ToLower(h.Type) {
	case "", "jwt", "at+jwt", "application/at+jwt", "application/jwt":
		return nil
	}
	return oauth.NewInvalidToken("the token's typ %s is not that of an access token", oauth.QuoteShort(h.Type))
}

// readClaims decodes a payload. Its error only has a description.
func readClaims(payload []byte) (*claims, error) {
	c := &claims{all: payload}
	if err := strictjson.Unmarshal(payload, c); err != nil {
		return nil, oauth.NewInvalidToken("the token's claims are not JSON of the expected types")
	}
	return c, nil
}

// token converts the claims of a token with a valid signature.
func (c *claims) token() (*oauth.Token, error) {
	t := &oauth.Token{Issuer: c.Issuer, Subject: c.Subject, ClientID: c.ClientID, Claims: c.all}
	if t.ClientID == "" {
		t.ClientID = c.Authorized
	}
	if c.Session.Kind() == '"' {
		t.Session = strictjson.Text(c.Session)
	}
	if t.Subject == "" && t.ClientID == "" {
		return nil, oauth.NewInvalidToken("the token has neither sub nor client_id")
	}
	if text.HasControl(t.Subject) || text.HasControl(t.ClientID) {
		return nil, oauth.NewInvalidToken("the token's sub or client_id has control characters")
	}
	if c.Confirmation != nil && c.Confirmation.Kind() != 'n' {
		return nil, oauth.NewInvalidToken("the token is bound to a key (cnf), and this resource accepts bearer tokens only")
	}
	var err error
	if t.Audience, err = oauth.StringOrStrings(c.Audience); err != nil {
		return nil, oauth.NewInvalidToken("the token's aud is neither a string nor an array of strings")
	}
	if t.Scopes, err = oauth.ScopesOf(c.Scope, c.Scopes); err != nil {
		return nil, oauth.NewInvalidToken("the token's scope or scp is neither a string nor an array of strings")
	}
	if t.Expires, err = numericDate(c.Expires); err != nil || t.Expires.IsZero() {
		return nil, oauth.NewInvalidToken("the token has no exp, or its exp is not a number of seconds")
	}
	for _, date := range []jsontext.Value{c.NotBefore, c.IssuedAt} {
		begin, err := numericDate(date)
		if err != nil {
			return nil, oauth.NewInvalidToken("the token's nbf or iat is not a number of seconds")
		}
		if begin.After(t.NotBefore) {
			t.NotBefore = begin
		}
	}
	return t, nil
}

// checkTime rejects a token that is expired or not valid yet.
func checkTime(t *oauth.Token, now time.Time, leeway time.Duration) error {
	if !now.Before(t.Expires.Add(leeway)) {
		return oauth.NewInvalidToken("the token has expired; request a new one")
	}
	if now.Add(leeway).Before(t.NotBefore) {
		return oauth.NewInvalidToken("the token is not valid yet; the clocks of issuer and resource may differ")
	}
	return nil
}

// checkAudience rejects a token unless it is for one of the audiences exactly.
func checkAudience(t *oauth.Token, audiences []string) error {
	for _, audience := range t.Audience {
		if slices.Contains(audiences, audience) {
			return nil
		}
	}
	return oauth.NewInvalidToken("the token is not for this resource; its aud must contain %s", strings.Join(audiences, " or "))
}

// maxNumericDate is in the year 5138. A larger number is not a time in seconds.
const maxNumericDate = 1e11

// numericDate converts seconds since 1970, which may have a fraction (RFC 7519, section 2).
// Without a value it returns the zero time.
func numericDate(value jsontext.Value) (time.Time, error) {
	switch value.Kind() {
	case 'n', jsontext.KindInvalid:
		return time.Time{}, nil
	case '0':
	default:
		return time.Time{}, oauth.ErrShape
	}
	seconds, err := strconv.ParseFloat(string(value), 64)
	if err != nil || seconds < 0 || seconds > maxNumericDate {
		return time.Time{}, oauth.ErrShape
	}
	whole, fraction := math.Modf(seconds)
	return time.Unix(int64(whole), int64(fraction*1e9)), nil
}
