package agents

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/fairwayhq/fairway/internal/headerkind"
	"github.com/fairwayhq/fairway/ocp"
)

// Where a credential goes in the request.
const (
	InHeader = "header"
	inQuery  = "query"
	inBasic  = "basic"
)

// Credential is what the gateway shows to the API with each tool call of a
// toolset. It takes the place of what the caller or the call's arguments put
// there: with one in the header Authorization, the API never sees the caller's.
// Requests that are no tool calls do not get it; header_up of reverse_proxy is
// for those.
//
// An argument of that name is not offered to clients: the gateway fills it. That
// is a query parameter or header of the credential's own place. Where the document
// does not declare the credential as an API key (securitySchemes), it is also a
// query parameter, header or form field of the name in another place, which then
// gets the value too.
//
// Placeholders are resolved for each call, so that a file is read anew when its
// content has changed, but only those that speak of no request: {env.*},
// {file.*}, {system.*} and {time.*}. A call whose credential comes to nothing
// fails and is not sent.
type Credential struct {
	// "header", "query", or "basic" for the header Authorization with a user and
	// a password.
	In string `json:"in,omitempty"`

	// The name of the header or query parameter, or the user, in which there may
	// be placeholders.
	Name string `json:"name,omitempty"`

	// The value, or the password. Placeholders keep it out of the configuration,
	// as in "Bearer {env.API_TOKEN}" or "{file./run/secrets/key}".
	Value string `json:"value,omitempty"`
}

// What is wrong with a credential.
var (
	errCredentialUser  = errors.New("the user has a colon, which basic authentication cannot say")
	errCredentialChars = errors.New("the value has characters that may not stand in a header")
)

// Credentials are those of one toolset, checked.
type Credentials []Credential

// NewCredentials checks what is configured.
func NewCredentials(configured []Credential, logger *zap.Logger) (Credentials, error) {
	repl := caddy.NewReplacer()
	checked := make(Credentials, len(configured))
	taken := make(map[string]bool, len(configured))
	for i, c := range configured {
		if err := c.Check(); err != nil {
			return nil, err
		}
		if taken[c.Place()] {
			return nil, fmt.Errorf("two credentials for %s: give one", c.Place())
		}
		taken[c.Place()] = true
		for _, text := range []string{c.Name, c.Value} {
			if _, err := repl.ReplaceOrErr(text, false, true); err != nil {
				return nil, fmt.Errorf("credential for %s: %w: placeholders of a credential are {env.*}, {file.*}, {system.*} and {time.*}, "+
					"and a brace that is none is written as \\{", c.Place(), err)
			}
		}
		if _, err := c.resolve(repl); err != nil {
			logger.Warn("tool calls will fail as long as a credential for the API has no usable value",
				zap.String("credential", c.Place()), zap.Error(err))
		}
		checked[i] = c
	}
	return checked, nil
}

// Check refuses what can be no credential.
func (c *Credential) Check() error {
	switch c.In {
	case InHeader:
		if !httpguts.ValidHeaderFieldName(c.Name) {
			return fmt.Errorf("credential header %q: that cannot be the name of a header", c.Name)
		}
		if name := textproto.CanonicalMIMEHeaderKey(c.Name); name == "Host" || !headerkind.Forwarded(name, nil) {
			return fmt.Errorf("credential header %s: that header is not a credential's; use header_up of reverse_proxy", name)
		}
	case inQuery:
		if c.Name == "" {
			return errors.New("credential query: the parameter's name is empty")
		}
	case inBasic:
		if c.Name == "" {
			return errors.New("credential basic: the user is empty")
		}
	default:
		return fmt.Errorf("unknown credential %q: a credential goes into a header or query, or is basic", c.In)
	}
	if c.Value == "" {
		return fmt.Errorf("credential for %s: the value is empty", c.Place())
	}
	return nil
}

// Place says where the credential goes, for a message.
func (c *Credential) Place() string {
	switch c.In {
	case inQuery:
		return "the query parameter " + c.Name
	case inBasic:
		return "the header Authorization"
	}
	return "the header " + textproto.CanonicalMIMEHeaderKey(c.Name)
}

// resolve returns the credential with the values of the moment. Its errors name
// placeholders, not what they stand for.
func (c Credential) resolve(repl *caddy.Replacer) (Credential, error) {
	value, err := repl.ReplaceOrErr(c.Value, true, true)
	if err != nil {
		return c, err
	}
	c.Value = value
	if c.In == inQuery {
		return c, nil
	}
	if c.In == inBasic {
		if c.Name, err = repl.ReplaceOrErr(c.Name, true, true); err != nil {
			return c, err
		}
		if strings.Contains(c.Name, ":") {
			return c, errCredentialUser
		}
		c.Value = "Basic " + base64.StdEncoding.EncodeToString([]byte(c.Name+":"+c.Value))
		c.Name = "Authorization"
	}
	if !httpguts.ValidHeaderFieldValue(c.Value) {
		return c, errCredentialChars
	}
	return c, nil
}

// MissingCredentialError reports a credential that has no usable value.
type MissingCredentialError struct {
	Place string
	err   error
}

func (e *MissingCredentialError) Error() string {
	return "credential for " + e.Place + ": " + e.err.Error()
}
func (e *MissingCredentialError) Unwrap() error { return e.err }

// Apply puts the credentials into the request. Repl knows of no request: what a
// caller says must not become a part of the gateway's credential. An error is a
// *missingCredentialError, and the request must not be sent then.
func (cs Credentials) Apply(r *http.Request, repl *caddy.Replacer) error {
	s, err := cs.Supplement(repl)
	if err != nil {
		return err
	}
	s.Apply(r)
	return nil
}

// Current returns the supplement of the moment, nil for nothing.
func (cs Credentials) Current() (*ocp.Supplement, error) {
	if len(cs) == 0 {
		return nil, nil
	}
	return cs.Supplement(caddy.NewReplacer())
}

// Supplement returns what apply puts into a request, nil for nothing.
func (cs Credentials) Supplement(repl *caddy.Replacer) (*ocp.Supplement, error) {
	if len(cs) == 0 {
		return nil, nil
	}
	s := &ocp.Supplement{Header: make(http.Header, len(cs)), Query: make(url.Values), Credentials: true}
	for _, c := range cs {
		resolved, err := c.resolve(repl)
		if err != nil {
			return nil, &MissingCredentialError{Place: c.Place(), err: err}
		}
		if resolved.In == inQuery {
			s.Query.Set(resolved.Name, resolved.Value)
		} else {
			s.Header.Set(resolved.Name, resolved.Value)
		}
	}
	return s, nil
}
