package oauth

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// Token has the content of a verified access token.
type Token struct {
	Issuer   string
	Subject  string   // "" if the client acts for itself and the token has no sub
	ClientID string   // client_id, or azp if there is none
	Audience []string // the resources that the token is for
	Scopes   []string // from scope or scp
	Expires  time.Time
	Claims   jsontext.Value // all claims, a JSON object
	Session  string         // sid: the session at the issuer; "" if there is none

	NotBefore time.Time // the later of nbf and iat; zero without both

	identity atomic.Pointer[identified]
}

// MissingScopes returns the scopes that the user lacks.
func (i *Identity) MissingScopes(scopes []string) (missing []string) {
	for _, scope := range scopes {
		if !slices.Contains(i.Scopes, scope) {
			missing = append(missing, scope)
		}
	}
	return missing
}

// ErrShape reports a value of another type.
var ErrShape = errors.New("unexpected JSON type")

// StringOrStrings decodes a string or an array of strings.
func StringOrStrings(value jsontext.Value) ([]string, error) {
	switch value.Kind() {
	case '"':
		var one string
		err := strictjson.Unmarshal(value, &one)
		return []string{one}, err
	case '[':
		var several []string
		err := strictjson.Unmarshal(value, &several)
		return several, err
	case 'n', jsontext.KindInvalid:
		return nil, nil
	}
	return nil, ErrShape
}

// ScopesOf reads scope (RFC 9068) or, if it is missing, scp. Each may be a string or an array.
func ScopesOf(values ...jsontext.Value) (scopes []string, err error) {
	for _, value := range values {
		texts, err := StringOrStrings(value)
		if err != nil {
			return nil, err
		}
		for _, source := range texts {
			for scope := range strings.FieldsSeq(source) {
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

// QuoteShort quotes and shortens unverified text for a message.
func QuoteShort(source string) string {
	const limit = 40
	if len(source) > limit {
		source = source[:limit]
	}
	return strconv.QuoteToASCII(source)
}
