package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/singleflight"

	"github.com/fairwayhq/fairway/internal/fetch"
	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

const (
	// maxIntrospection limits the response of an introspection endpoint, in bytes.
	maxIntrospection = 64 << 10

	// keepActive and keepInactive are how long a response is used again. A revoked token stays valid for
	// keepActive at most.
	keepActive, keepInactive = time.Minute, 10 * time.Second

	// maxIntrospections limits the introspections at a time. A network that has used its share waits up to introspectionWait.
	maxIntrospections = 64
	introspectionWait = time.Second

	// unknownLifetime is the lifetime of a token whose response has no exp.
	unknownLifetime = time.Hour
)

// Introspection is an endpoint that says whether a token is active (RFC 7662). It receives the token, so its
// URL must use TLS.
type Introspection struct {
	URL                    string
	ClientID, ClientSecret string // sent with HTTP Basic authentication

	// Issuer is that of the tokens. Default: the only issuer of the Verifier.
	Issuer string
}

// CheckIntrospection returns an error if tokens must not be sent to the address.
func CheckIntrospection(address string) error {
	_, err := oauth.ParseAddress(address)
	return err
}

// introspector verifies tokens at an introspection endpoint. Concurrent checks of a token share one request.
type introspector struct {
	*Introspection
	options *Options
	client  *fetch.Client
	ctx     context.Context // ends when the Verifier is closed
	known   cache           // active tokens
	refused cache           // others; of its own, so that invented tokens do not displace active ones
	flights singleflight.Group
	slots   *share.Bound // by network, because the user is not known before
}

// newIntrospector returns nil if no introspection is configured.
func newIntrospector(ctx context.Context, options *Options) (*introspector, error) {
	if options.Introspection == nil {
		return nil, nil
	}
	endpoint := *options.Introspection
	if err := CheckIntrospection(endpoint.URL); err != nil {
		return nil, fmt.Errorf("introspection %.200q: %w", redacted(endpoint.URL), err)
	}
	if endpoint.Issuer == "" && len(options.Issuers) == 1 {
		endpoint.Issuer = options.Issuers[0].URL
	}
	if !slices.ContainsFunc(options.Issuers, func(i Issuer) bool { return i.URL == endpoint.Issuer }) {
		return nil, errors.New("introspection needs the issuer of its tokens, which must be one of the configured issuers")
	}
	return &introspector{
		Introspection: &endpoint, options: options, ctx: ctx, slots: share.NewBound(share.Options{Name: "introspections", Limit: maxIntrospections}),
		client: fetch.New(fetch.Options{MaxSize: maxIntrospection, SameHost: true, Timeout: documentTimeout, Transport: options.Transport}),
	}, nil
}

// isJWT reports whether a token is a signed JWT.
func isJWT(token string) bool {
	_, _, err := split(token)
	return err == nil
}

// check returns the token if the endpoint says that it is active. Address is that of the client.
func (i *introspector) check(ctx context.Context, address, token string, hash [sha256.Size]byte) (*oauth.Token, error) {
	for _, kept := range []*cache{&i.known, &i.refused} {
		if known, ok := kept.get(hash); ok {
			if time.Now().Before(known.until) {
				return i.result(known.token)
			}
			kept.forget(hash)
		}
	}
	flight := i.flights.DoChan(string(hash[:]), func() (any, error) {
		found, err := i.fetch(share.OwnerOf("", address), token)
		if err != nil {
			return nil, err
		}
		kept, until := &i.refused, time.Now().Add(keepInactive)
		if found != nil {
			kept, until = &i.known, time.Now().Add(keepActive)
			if end := found.Expires.Add(i.options.Leeway); end.Before(until) {
				until = end
			}
		}
		kept.put(hash, remembered{token: found, until: until})
		return found, nil
	})
	select {
	case <-ctx.Done():
		return nil, unavailable()
	case done := <-flight:
		if done.Err != nil {
			return nil, done.Err
		}
		return i.result(done.Val.(*oauth.Token))
	}
}

// result returns the result of a check. Token is nil if it is not active.
func (i *introspector) result(token *oauth.Token) (*oauth.Token, error) {
	if token == nil {
		return nil, oauth.NewInvalidToken("the token is not active: it has expired, was revoked, or is not of this issuer")
	}
	return token, checkTime(token, time.Now(), i.options.Leeway)
}

// introspectionResponse has the members of a response that say what the token is. The standard has token_type only (RFC 7662, section 2.2); Ory
// Hydra and Cognito have token_use, and Keycloak has typ.
type introspectionResponse struct {
	Active bool           `json:"active"`
	Type   jsontext.Value `json:"token_type"`
	Use    jsontext.Value `json:"token_use"`
	Typ    jsontext.Value `json:"typ"`
}

// otherKind returns the kind of a token that is not an access token, such as refresh_token. It returns "" for an access token.
func (r *introspectionResponse) otherKind() string {
	for _, member := range []jsontext.Value{r.Type, r.Use, r.Typ} {
		kind := strings.ToLower(strictjson.Text(member))
		name := strings.TrimSuffix(strings.TrimPrefix(kind, "urn:ietf:params:oauth:token-type:"), "_token")
		if slices.Contains([]string{"refresh", "offline", "id"}, name) {
			return kind
		}
	}
	return ""
}

// fetch asks the endpoint about a token. It returns nil if the token is not active. A failure to find out is
// reported, and never accepts the token.
func (i *introspector) fetch(network share.Owner, token string) (*oauth.Token, error) {
	if i.slots.Await(i.ctx, network, 1, introspectionWait) != nil {
		return nil, unavailable()
	}
	defer i.slots.Give(network, 1)
	body, err := i.post(token)
	if err == nil {
		var response introspectionResponse
		if err = strictjson.Unmarshal(body, &response); err == nil && !response.Active {
			return nil, nil
		}
		if kind := response.otherKind(); err == nil && kind != "" {
			return nil, oauth.NewInvalidToken("the token is not an access token: its issuer says that it is of the kind %s", oauth.QuoteShort(kind))
		}
	}
	if err != nil {
		if i.options.Observer.Introspected != nil && i.ctx.Err() == nil {
			i.options.Observer.Introspected(err)
		}
		return nil, unavailable()
	}
	return i.token(body)
}

// post sends a token to the endpoint and returns the body of the response. Its errors do not contain the token.
func (i *introspector) post(token string) ([]byte, error) {
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	header := http.Header{"Accept": {"application/json"}, "Content-Type": {"application/x-www-form-urlencoded"}}
	if i.ClientID != "" {
		login := url.QueryEscape(i.ClientID) + ":" + url.QueryEscape(i.ClientSecret) // RFC 6749, section 2.3.1
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(login)))
	}
	response, err := i.client.Post(i.ctx, i.URL, header, []byte(form.Encode()))
	switch {
	case errors.Is(err, fetch.ErrTooLarge):
		return nil, fmt.Errorf("the response is larger than %d bytes", maxIntrospection)
	case err != nil:
		return nil, err
	case response.Status != http.StatusOK:
		return nil, fmt.Errorf("the endpoint responded with status %s", text.StatusLine(response.Status))
	}
	return bytes.TrimPrefix(response.Body, byteOrderMark), nil
}

// token reads the response for an active token.
func (i *introspector) token(body []byte) (*oauth.Token, error) {
	c, err := readClaims(body)
	if err != nil {
		return nil, err
	}
	if c.Issuer == "" {
		c.Issuer = i.Issuer
	}
	if c.Issuer != i.Issuer {
		return nil, oauth.NewInvalidToken("the token's iss %s is not the issuer of introspected tokens", oauth.QuoteShort(c.Issuer))
	}
	if c.Expires == nil {
		c.Expires = jsontext.Value(strconv.FormatInt(time.Now().Add(unknownLifetime).Unix(), 10))
	}
	return c.token()
}

// unavailable returns an Error with Unavailable.
func unavailable() error {
	return &oauth.Error{
		Code:        oauth.Unavailable,
		Description: "the token cannot be verified at the moment, because the introspection endpoint of its issuer gave no usable response; try again",
		RetryAfter:  time.Second,
	}
}
