package credential

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/security"
)

// Set has the credentials of one toolset, identity or server. At most one goes to each location.
type Set []located

// located is a credential with its location, which does not change.
type located struct {
	Module
	at Location
}

// Load loads the modules of credentials that are the same for all users. A credential without a usable value is only logged, since it
// may get one later.
func Load(ctx caddy.Context, raw []json.RawMessage, logger *zap.Logger) (Set, error) {
	set, err := LoadForToolset(ctx, raw, logger)
	if err == nil && set.IsPersonal() {
		return nil, errPersonal
	}
	return set, err
}

// LoadForToolset is Load for the credentials of a toolset, which may be Personal.
func LoadForToolset(ctx caddy.Context, raw []json.RawMessage, logger *zap.Logger) (Set, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	// A copy, because LoadModule clears the field.
	host := struct {
		Raw []json.RawMessage `caddy:"namespace=agents.credentials inline_key=in"`
	}{slices.Clone(raw)}
	loaded, err := ctx.LoadModule(&host, "Raw")
	if err != nil {
		return nil, fmt.Errorf("credential: %w", err)
	}
	modules := make([]Module, 0, len(raw))
	for _, each := range loaded.([]any) {
		module, ok := each.(Module)
		if !ok {
			return nil, fmt.Errorf("credential: the module %T is not a credential", each)
		}
		modules = append(modules, module)
	}
	return NewSet(modules, logger)
}

// NewSet returns the set of credentials whose modules are provisioned.
func NewSet(modules []Module, logger *zap.Logger) (Set, error) {
	repl := caddy.NewReplacer()
	set := make(Set, 0, len(modules))
	for _, module := range modules {
		at := module.Location()
		if !at.Query {
			at.Name = http.CanonicalHeaderKey(at.Name)
		}
		if slices.ContainsFunc(set, func(c located) bool { return c.at == at }) {
			return nil, fmt.Errorf("two credentials are given for %s; remove one", at)
		}
		if checker, ok := module.(Checker); ok {
			if err := checker.Check(repl); err != nil {
				logger.Warn("credential has no usable value; tool calls fail until it has one",
					zap.String("credential", at.String()), zap.Error(err))
			}
		}
		set = append(set, located{module, at})
	}
	return set, nil
}

// With returns a set that has further credentials.
func (s Set) With(modules []Module) (Set, error) {
	all := make([]Module, 0, len(s)+len(modules))
	for _, c := range s {
		all = append(all, c.Module)
	}
	return NewSet(append(all, modules...), zap.NewNop())
}

// Forwarded returns the canonical names of the headers that the option forward_headers lists. They may accompany the
// credentials.
func Forwarded(names []string) ([]string, error) {
	canonical := make([]string, len(names))
	for i, name := range names {
		if err := httpheader.CheckForwarded(name); err != nil {
			return nil, fmt.Errorf("forward_headers: %w", err)
		}
		canonical[i] = http.CanonicalHeaderKey(name)
	}
	return canonical, nil
}

// MissingError reports a credential without a usable value.
type MissingError struct {
	Location string
	err      error
}

func (e *MissingError) Error() string { return "credential for " + e.Location + ": " + e.err.Error() }
func (e *MissingError) Unwrap() error { return e.err }

// Apply sets the credentials in the request. An error is a *MissingError; the request must not be sent
// then.
func (s Set) Apply(r *http.Request) error {
	supplement, err := s.Current(r.Context())
	if err != nil {
		return err
	}
	supplement.Apply(r)
	return nil
}

// Current returns the credentials with the values they have now. It returns nil if there are
// none. An error is a *MissingError. If the set IsPersonal, the context needs a Caller.
func (s Set) Current(ctx context.Context) (*security.Supplement, error) {
	if len(s) == 0 {
		return nil, nil
	}
	repl := caddy.NewReplacer() // without placeholders of a request: nothing of the caller becomes part of a credential
	var rejected []func()
	current, err := s.supplement(func(c *located) (string, error) {
		value, err := c.Secret(ctx, repl)
		if err == nil {
			err = checkValue(c.at, value)
		}
		if renewer, ok := c.Module.(Renewer); ok && err == nil {
			rejected = append(rejected, func() { renewer.Rejected(ctx, repl, value) })
		}
		return value, err
	})
	if err == nil {
		current.Rejected = rejected
	}
	return current, err
}

// ForCaller reports whether a credential depends on the access token of the caller.
func (s Set) ForCaller() bool {
	return slices.ContainsFunc(s, func(c located) bool {
		bound, ok := c.Module.(CallerBound)
		return ok && bound.ForCaller()
	})
}

// Hidden returns what Current returns, with tools.HiddenValue in place of all values. The values need not be
// known. It is never nil.
func (s Set) Hidden() *security.Supplement {
	if len(s) == 0 {
		return new(security.Supplement)
	}
	hidden, _ := s.supplement(func(*located) (string, error) { return tools.HiddenValue, nil })
	return hidden
}

// supplement returns the headers and query parameters with their values.
func (s Set) supplement(value func(*located) (string, error)) (*security.Supplement, error) {
	to := &security.Supplement{Header: make(http.Header, len(s)), Query: make(url.Values), Credentials: true}
	for i := range s {
		c := &s[i]
		text, err := value(c)
		switch {
		case err != nil:
			return nil, &MissingError{Location: c.at.String(), err: err}
		case c.at.Query:
			to.Query.Set(c.at.Name, text)
		default:
			to.Header.Set(c.at.Name, text)
		}
	}
	return to, nil
}

// checkValue returns an error if a value cannot be sent.
func checkValue(at Location, value string) error {
	switch {
	case value == "":
		return errEmpty
	case !at.Query && isScheme.MatchString(value):
		return errScheme
	case !at.Query && !httpguts.ValidHeaderFieldValue(value):
		return errChars
	}
	return nil
}
