package credential

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/textproto"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"golang.org/x/net/http/httpguts"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/httpheader"
)

func init() {
	caddy.RegisterModule(new(Header))
	caddy.RegisterModule(new(Query))
	caddy.RegisterModule(new(Basic))
}

// Header is a header that authenticates a request. It replaces a header of the same name of the caller or of the
// arguments. For example, with a credential in the header Authorization the API never sees the caller's own.
//
// Placeholders are resolved for each request, so a changed file takes effect with the next one.
// Only placeholders that do not depend on a request are allowed: {env.*}, {file.*}, {system.*}
// and {time.*}. If a credential resolves to an empty value, the request is not sent.
type Header struct {
	// The name of the header. Required.
	Name string `json:"name,omitempty"`

	// The value. Use a placeholder to keep it out of the configuration, as in
	// "Bearer {env.API_TOKEN}" or "{file./run/secrets/key}". Required.
	Value string `json:"value,omitempty"`
}

// Query is a query parameter that authenticates a request. It replaces a parameter of the same name. See the module
// header for placeholders.
type Query struct {
	// The name of the query parameter. Required.
	Name string `json:"name,omitempty"`

	// The value. Use a placeholder to keep it out of the configuration, as in "{env.API_KEY}". Required.
	Value string `json:"value,omitempty"`
}

// Basic is the header Authorization with a user and a password (RFC 7617). It replaces that of the caller. See
// the module header for placeholders.
type Basic struct {
	// The user. Placeholders are allowed. Default: empty.
	Name string `json:"name,omitempty"`

	// The password. Use a placeholder to keep it out of the configuration, as in "{env.API_PASSWORD}". Default: empty. The
	// user or the password is required.
	Value string `json:"value,omitempty"`
}

// Errors of the value of a credential.
var (
	errUser     = errors.New("the user contains a colon, which basic authentication does not allow")
	errChars    = errors.New("the value has characters that are not allowed in a header")
	errEmpty    = errors.New("the value is empty")
	errScheme   = errors.New("the value ends after the name of its scheme, so the variable or file for the rest is empty")
	errNotGiven = errors.New("credential needs header, query or basic, a name and a value, as in: credential header Authorization \"Bearer {env.API_TOKEN}\"")
)

// CaddyModule returns the Caddy module information.
func (*Header) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + ".header", New: func() caddy.Module { return new(Header) }}
}

// CaddyModule returns the Caddy module information.
func (*Query) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + ".query", New: func() caddy.Module { return new(Query) }}
}

// CaddyModule returns the Caddy module information.
func (*Basic) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: Namespace + ".basic", New: func() caddy.Module { return new(Basic) }}
}

// Location implements Module.
func (c *Header) Location() Location { return Location{Name: textproto.CanonicalMIMEHeaderKey(c.Name)} }

// Location implements Module.
func (c *Query) Location() Location { return Location{Query: true, Name: c.Name} }

// Location implements Module.
func (c *Basic) Location() Location { return Location{Name: "Authorization"} }

// Secret implements Module.
func (c *Header) Secret(_ context.Context, repl *caddy.Replacer) (string, error) {
	return repl.ReplaceOrErr(c.Value, true, true)
}

// Secret implements Module.
func (c *Query) Secret(_ context.Context, repl *caddy.Replacer) (string, error) {
	return repl.ReplaceOrErr(c.Value, true, true)
}

// Secret implements Module.
func (c *Basic) Secret(_ context.Context, repl *caddy.Replacer) (string, error) {
	password, err := repl.ReplaceOrErr(c.Value, true, true)
	if err != nil {
		return "", err
	}
	user, err := repl.ReplaceOrErr(c.Name, true, true)
	if err != nil {
		return "", err
	}
	if strings.Contains(user, ":") {
		return "", errUser
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)), nil
}

// Check implements Checker.
func (c *Header) Check(repl *caddy.Replacer) error { return checkSecret(c, repl) }

// Check implements Checker.
func (c *Query) Check(repl *caddy.Replacer) error { return checkSecret(c, repl) }

// Check implements Checker.
func (c *Basic) Check(repl *caddy.Replacer) error { return checkSecret(c, repl) }

// checkSecret returns an error if the module has no usable value now.
func checkSecret(m Module, repl *caddy.Replacer) error {
	value, err := m.Secret(context.Background(), repl)
	if err != nil {
		return err
	}
	return checkValue(m.Location(), value)
}

// Provision checks the options.
func (c *Header) Provision(caddy.Context) error {
	return errors.Join(c.check(), checkPlaceholders(c.Location(), c.Value))
}

// Provision checks the options.
func (c *Query) Provision(caddy.Context) error {
	return errors.Join(c.check(), checkPlaceholders(c.Location(), c.Value))
}

// Provision checks the options.
func (c *Basic) Provision(caddy.Context) error {
	return errors.Join(c.check(), checkPlaceholders(c.Location(), c.Name), checkPlaceholders(c.Location(), c.Value))
}

// checkPlaceholders returns an error if a text has placeholders that depend on a request.
func checkPlaceholders(at Location, text string) error {
	if _, err := caddy.NewReplacer().ReplaceOrErr(text, false, true); err != nil {
		return fmt.Errorf("credential for %s: %w: placeholders of a credential are {env.*}, {file.*}, {system.*} and {time.*}; "+
			"write a literal brace as \\{", at, err)
	}
	return nil
}

// check returns an error if the credential can never be used.
func (c *Header) check() error {
	if !httpguts.ValidHeaderFieldName(c.Name) {
		return fmt.Errorf("credential header %q is not a valid header name", c.Name)
	}
	if name := textproto.CanonicalMIMEHeaderKey(c.Name); name == "Host" || !httpheader.Forwarded(name, nil) {
		return fmt.Errorf("credential header %s is not allowed for credentials; set it with header_up of reverse_proxy", name)
	}
	return checkGiven(c.Location(), c.Value)
}

func (c *Query) check() error {
	if c.Name == "" {
		return errors.New("credential query: the parameter's name is empty")
	}
	return checkGiven(c.Location(), c.Value)
}

func (c *Basic) check() error {
	if c.Name == "" && c.Value == "" {
		return errors.New("credential basic: the user and the password are empty")
	}
	if err := errors.Join(directive.CheckVariable(c.Name), directive.CheckVariable(c.Value)); err != nil {
		return fmt.Errorf("credential basic: %w", err)
	}
	return nil
}

// isScheme matches the name of an authentication scheme without a credential.
var isScheme = regexp.MustCompile(`(?i)^(bearer|basic|token|bot|apikey|api-key|oauth|dpop|digest|ssws|jwt)\s*$`)

// checkGiven returns an error if the configured value has no credential.
func checkGiven(at Location, value string) error {
	err := checkValue(at, value)
	switch {
	case err == nil && !at.Query && strings.HasSuffix(value, " ") && len(strings.Fields(value)) == 1:
		err = errScheme
	case err == nil || errors.Is(err, errChars): // a credential without a usable value is only logged
		err = directive.CheckVariable(value)
	}
	if err != nil {
		return fmt.Errorf("credential for %s: %w", at, err)
	}
	return nil
}

// UnmarshalCaddyfile parses: header <name> <value>
func (c *Header) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return unmarshal(d, &c.Name, &c.Value, c.check)
}

// UnmarshalCaddyfile parses: query <name> <value>
func (c *Query) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return unmarshal(d, &c.Name, &c.Value, c.check)
}

// UnmarshalCaddyfile parses: basic <user> <password>
func (c *Basic) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return unmarshal(d, &c.Name, &c.Value, c.check)
}

// unmarshal reads a name and a value. Errors do not contain the value.
func unmarshal(d *caddyfile.Dispenser, name, value *string, check func() error) error {
	d.Next() // the name of the module
	if !d.AllArgs(name, value) {
		return d.WrapErr(errNotGiven)
	}
	if d.NextBlock(d.Nesting()) {
		return d.Err("this credential has no options: remove the block")
	}
	if err := check(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// Interface guards
var (
	_ Module                = (*Header)(nil)
	_ Checker               = (*Header)(nil)
	_ caddy.Provisioner     = (*Header)(nil)
	_ caddyfile.Unmarshaler = (*Header)(nil)
	_ Module                = (*Query)(nil)
	_ Checker               = (*Query)(nil)
	_ caddy.Provisioner     = (*Query)(nil)
	_ caddyfile.Unmarshaler = (*Query)(nil)
	_ Module                = (*Basic)(nil)
	_ Checker               = (*Basic)(nil)
	_ caddy.Provisioner     = (*Basic)(nil)
	_ caddyfile.Unmarshaler = (*Basic)(nil)
)
