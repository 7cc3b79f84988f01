package tokenclient

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

const (
	// requestTimeout limits one request to a token endpoint.
	requestTimeout = 10 * time.Second

	// MaxResponse limits the body of a response, in bytes.
	MaxResponse = 1 << 20

	// maxHeader limits the header of a response, in bytes.
	maxHeader = 64 << 10

	// maxConnections limits the connections to one token endpoint.
	maxConnections = 32

	// maxToken limits the length of a token, in bytes. Servers reject longer headers.
	maxToken = 16 << 10

	// maxClaims limits the length of a claims challenge, in bytes.
	maxClaims = 1 << 10
)

// NewHTTPClient returns the client for token endpoints. It does not follow redirects: they would send the gateway's
// credentials elsewhere. The transport is optional.
func NewHTTPClient(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			ForceAttemptHTTP2:      true,
			IdleConnTimeout:        time.Minute,
			MaxConnsPerHost:        maxConnections,
			MaxIdleConnsPerHost:    2,
			TLSHandshakeTimeout:    requestTimeout,
			MaxResponseHeaderBytes: maxHeader,
		}
	}
	return &http.Client{
		Transport:     Transport{Next: transport},
		Timeout:       requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// A Transport limits the responses of token endpoints. It declares a JSON object as JSON also if its server calls it plain text, because
// golang.org/x/oauth2 reads plain text as a form.
type Transport struct {
	Next http.RoundTripper // default: http.DefaultTransport
}

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := cmp.Or(t.Next, http.DefaultTransport).RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body := bufio.NewReader(io.LimitReader(response.Body, MaxResponse))
	if first, _ := body.Peek(1); string(first) == "{" {
		response.Header.Set("Content-Type", "application/json")
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{body, response.Body}
	return response, nil
}

// An Endpoint is a token endpoint, with what authenticates the gateway there. All values are resolved.
type Endpoint struct {
	URL          string
	ClientID     string
	ClientSecret string // default: none
	SecretInBody bool   // send the secret in the body, not as HTTP Basic authentication
	Key          *Key   // signs an assertion in place of the secret (private_key_jwt); default: none
	Audience     string // of the assertion; default: URL
}

// A Token is an access token or an identity assertion grant.
type Token struct {
	Value   string
	Type    string    // token_type; "" is Bearer
	Expires time.Time // zero if the server does not say
	Until   time.Time // when the subject's token expires; zero if that is unknown; set by the caller of Fetch
}

// Fetch sends one request with the parameters. An error is an *Error, or the reason why the request cannot be made.
func (e *Endpoint) Fetch(ctx context.Context, client *http.Client, form url.Values) (*Token, error) {
	config := clientcredentials.Config{
		ClientID: e.ClientID, ClientSecret: e.ClientSecret, TokenURL: e.URL, EndpointParams: form, AuthStyle: oauth2.AuthStyleInParams,
	}
	switch {
	case e.Key != nil:
		audience := cmp.Or(e.Audience, e.URL)
		config.EndpointParams = maps.Clone(form)
		if err := e.Key.addTo(config.EndpointParams, e.ClientID, audience); err != nil {
			return nil, err
		}
		config.ClientSecret = ""
	case e.ClientSecret != "" && !e.SecretInBody:
		config.AuthStyle = oauth2.AuthStyleInHeader
	}
	got, err := config.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
	if err != nil {
		return nil, e.failure(err)
	}
	if len(got.AccessToken) > maxToken {
		return nil, &Error{Endpoint: e.shown(), reason: fmt.Sprintf("its token is longer than %d bytes", maxToken)}
	}
	if strings.ContainsFunc(got.AccessToken, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, &Error{Endpoint: e.shown(), reason: "its token has characters that are not allowed in a header"}
	}
	return &Token{Value: got.AccessToken, Type: got.TokenType, Expires: got.Expiry}, nil
}

// shown returns the URL for messages, without parts that may be secret.
func (e *Endpoint) shown() string {
	u, err := url.Parse(e.URL)
	if err != nil {
		return "…"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// An Error reports that a token endpoint gave no token.
type Error struct {
	Endpoint string // the URL
	Status   int    // of the response; 0 if there is none or it has no usable token
	Code     string // error of RFC 6749, section 5.2, or of an extension; "" if there is none
	Numbers  []int  // further codes of Entra ID, as AADSTS numbers; usually none
	Claims   string // the claims that the user needs to log in with (JSON); "" if there are none

	reason string // if Code is ""
}

func (e *Error) Error() string {
	switch {
	case e.Code != "" && len(e.Numbers) > 0:
		return fmt.Sprintf("the token endpoint %s responded with status %d %s (AADSTS%d)", e.Endpoint, e.Status, e.Code, e.Numbers[0])
	case e.Code != "":
		return fmt.Sprintf("the token endpoint %s responded with status %d %s", e.Endpoint, e.Status, e.Code)
	case e.Status != 0:
		return fmt.Sprintf("the token endpoint %s responded with status %d", e.Endpoint, e.Status)
	}
	return "the token endpoint " + e.Endpoint + ": " + e.reason
}

// Temporary reports whether the server could not be reached or is overloaded.
func (e *Error) Temporary() bool {
	return e.Status == 0 || e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests
}

// isCode matches the codes that are shown. Others may be anything, such as a token.
var isCode = regexp.MustCompile(`^[a-z][a-z0-9_.:-]{0,63}$`)

// failure returns the error without the response's texts, which may repeat a token.
func (e *Endpoint) failure(err error) error {
	failed := &Error{Endpoint: e.shown(), reason: "its response is not one with a token"}
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		failed.Status = refused.Response.StatusCode
		if isCode.MatchString(refused.ErrorCode) {
			failed.Code = refused.ErrorCode
		}
		var more struct {
			Claims  string `json:"claims"`
			Numbers []int  `json:"error_codes"`
		}
		if json.Unmarshal(refused.Body, &more) == nil {
			failed.Numbers = more.Numbers
			if len(more.Claims) <= maxClaims && json.Valid([]byte(more.Claims)) && !strings.ContainsAny(more.Claims, "\r\n") {
				failed.Claims = more.Claims
			}
		}
		return failed
	}
	if broken, ok := errors.AsType[*url.Error](err); ok {
		failed.reason = broken.Err.Error() // without the URL
		if broken.Timeout() {
			failed.reason = fmt.Sprintf("no complete response within %v", requestTimeout)
		}
	}
	return failed
}
