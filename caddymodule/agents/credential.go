package agents

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/fairwayhq/fairway/internal/headerkind"
	"github.com/fairwayhq/fairway/ocp/preview"
	"github.com/fairwayhq/fairway/ocp/security"
)

// Values of Credential.In.
const (
	InHeader = "header"
	inQuery  = "query"
	inBasic  = "basic"
)

// Credential is what the gateway sends to the API to authenticate each tool call of a toolset.
// It replaces a header or parameter of the same name from the caller or from the arguments. For
// example, with a credential in the header Authorization the API never sees the caller's own
// Authorization header. Requests that are not tool calls do not get the credential; use
// header_up of reverse_proxy for those.
//
// The gateway fills the credential's argument, so the argument is not listed to clients:
//
//   - a query parameter or header with the credential's location and name;
//   - unless the document declares the credential as an API key (securitySchemes), also a query
//     parameter, header or form field with this name in another location.
//
// Placeholders are resolved for each call, so a changed file takes effect with the next call.
// Only placeholders that do not depend on a request are allowed: {env.*}, {file.*}, {system.*}
// and {time.*}. If a credential resolves to an empty value, the call fails and is not sent.
type Credential struct {
	// Where the credential goes: "header", "query", or "basic" (the header Authorization with a
	// user and a password). Required.
	In string `json:"in,omitempty"`

	// The name of the header or query parameter, or the user. Placeholders are allowed in the
	// user. Required.
	Name string `json:"name,omitempty"`

	// The value, or the password. Use a placeholder to keep it out of the configuration, as in
	// "Bearer {env.API_TOKEN}" or "{file./run/secrets/key}". Required.
	Value string `json:"value,omitempty"`
}

// Errors of a credential's resolved value.
var (
	errCredentialUser  = errors.New("the user contains a colon, which basic authentication does not allow")
	errCredentialChars = errors.New("the value has characters that are not allowed in a header")
)

// Credentials are the validated credentials of one toolset.
type Credentials []Credential

// NewCredentials validates the configured credentials. A value that cannot be resolved yet is
// only logged, since it may become available later.
func NewCredentials(configured []Credential, logger *zap.Logger) (Credentials, error) {
	repl := caddy.NewReplacer()
	checked := make(Credentials, len(configured))
	taken := make(map[string]bool, len(configured))
	for i, c := range configured {
		if err := c.Check(); err != nil {
			return nil, err
		}
		if taken[c.Location()] {
			return nil, fmt.Errorf("two credentials are given for %s; remove one", c.Location())
		}
		taken[c.Location()] = true
		for _, text := range []string{c.Name, c.Value} {
			if _, err := repl.ReplaceOrErr(text, false, true); err != nil {
				return nil, fmt.Errorf("credential for %s: %w: placeholders of a credential are {env.*}, {file.*}, {system.*} and {time.*}; "+
					"write a literal brace as \\{", c.Location(), err)
			}
		}
		if _, err := c.resolve(repl); err != nil {
			logger.Warn("credential has no usable value; tool calls fail until it has one",
				zap.String("credential", c.Location()), zap.Error(err))
		}
		checked[i] = c
	}
	return checked, nil
}

// Check returns an error if the credential can never be used.
func (c *Credential) Check() error {
	switch c.In {
	case InHeader:
		if !httpguts.ValidHeaderFieldName(c.Name) {
			return fmt.Errorf("credential header %q is not a valid header name", c.Name)
		}
		if name := textproto.CanonicalMIMEHeaderKey(c.Name); name == "Host" || !headerkind.Forwarded(name, nil) {
			return fmt.Errorf("credential header %s is not allowed for credentials; set it with header_up of reverse_proxy", name)
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
		return fmt.Errorf("unknown kind of credential %q; use header, query or basic", c.In)
	}
	if c.Value == "" {
		return fmt.Errorf("credential for %s: the value is empty", c.Location())
	}
	return nil
}

// Location describes where the credential goes, for messages.
func (c *Credential) Location() string {
	switch c.In {
	case inQuery:
		return "the query parameter " + c.Name
	case inBasic:
		return "the header Authorization"
	}
	return "the header " + textproto.CanonicalMIMEHeaderKey(c.Name)
}

// resolve returns the credential with its placeholders replaced. Errors name the placeholders,
// never their values.
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

// MissingCredentialError reports a credential without a usable value.
type MissingCredentialError struct {
	Location string
	err      error
}

func (e *MissingCredentialError) Error() string {
	return "credential for " + e.Location + ": " + e.err.Error()
}
func (e *MissingCredentialError) Unwrap() error { return e.err }

// Apply sets the credentials in the request. Pass a replacer without request placeholders, so
// that nothing from the caller becomes part of a gateway credential. An error is a
// *MissingCredentialError; the request must not be sent then.
func (cs Credentials) Apply(r *http.Request, repl *caddy.Replacer) error {
	s, err := cs.Supplement(repl)
	if err != nil {
		return err
	}
	s.Apply(r)
	return nil
}

// Current returns the credentials with the values they have now. It returns nil if there are
// none.
func (cs Credentials) Current() (*security.Supplement, error) {
	if len(cs) == 0 {
		return nil, nil
	}
	return cs.Supplement(caddy.NewReplacer())
}

// Hidden returns what Current returns, with preview.Hidden in place of all values. The values need not be
// known. It is never nil.
func (cs Credentials) Hidden() (*security.Supplement, error) {
	hidden := slices.Clone(cs)
	for i := range hidden {
		hidden[i].Value = preview.Hidden
	}
	s, err := hidden.Current()
	if err != nil || s == nil {
		return new(security.Supplement), err
	}
	for name := range s.Header {
		s.Header[name] = []string{preview.Hidden} // a basic one is encoded by now
	}
	return s, nil
}

// Supplement returns the headers and query parameters that Apply sets. It returns nil if there
// are none.
func (cs Credentials) Supplement(repl *caddy.Replacer) (*security.Supplement, error) {
	if len(cs) == 0 {
		return nil, nil
	}
	s := &security.Supplement{Header: make(http.Header, len(cs)), Query: make(url.Values), Credentials: true}
	for _, c := range cs {
		resolved, err := c.resolve(repl)
		if err != nil {
			return nil, &MissingCredentialError{Location: c.Location(), err: err}
		}
		if resolved.In == inQuery {
			s.Query.Set(resolved.Name, resolved.Value)
		} else {
			s.Header.Set(resolved.Name, resolved.Value)
		}
	}
	return s, nil
}
