package login

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/authserver"
	"github.com/fairwayhq/fairway/internal/oauth/verify"
	"github.com/fairwayhq/fairway/internal/tokenclient"
)

// Provider is an identity provider.
type Provider struct {
	// The kind: oidc, entra, okta, auth0, keycloak, google or github. Default: oidc.
	Kind string `json:"kind,omitempty"`

	// Where the provider is: the issuer (oidc, keycloak), the tenant (entra), or the domain, followed by the path of the authorization server if it is not the default one (okta, auth0).
	// google and github have none. Required for the others.
	Address string `json:"address,omitempty"`

	// The gateway's client ID at the provider. Required.
	ClientID string `json:"client_id,omitempty"`

	// The gateway's client secret at the provider. Use a placeholder such as {env.OIDC_SECRET}. Default: none.
	ClientSecret string `json:"client_secret,omitempty"`

	// A file with the private key that authenticates the gateway at the provider in place of a secret (private_key_jwt): PEM or a JWK. Not for github. Default: none.
	PrivateKey string `json:"private_key,omitempty"`

	// The ID (kid) of the private key. Default: that of a JWK.
	KeyID string `json:"key_id,omitempty"`

	// A PEM file with the certificate of the private key, as Entra ID needs it. The file may also have the key. Default: none.
	Certificate string `json:"certificate,omitempty"`

	// The scopes that the gateway asks the provider for. Default: what it needs to know the user and to refresh the login.
	Scopes []string `json:"scopes,omitempty"`

	// Parameters that are added to the address of the provider's login page. Default: what the kind of provider needs.
	Params map[string]string `json:"params,omitempty"`

	// The claim of the ID token that lists the user's groups. Dots lead into objects, as in realm_access.roles. Default: groups.
	GroupClaim string `json:"group_claim,omitempty"`
}

// kinds are the kinds of providers, each with what precedes and follows the address in the issuer.
var kinds = map[string]struct{ before, after, example string }{
	"oidc":     {"", "", "https://login.example.com"},
	"keycloak": {"", "", "https://login.example.com/realms/staff"},
	"entra":    {"https://login.microsoftonline.com/", "/v2.0", "contoso.com"},
	"okta":     {"https://", "", "example.okta.com/oauth2/default"},
	"auth0":    {"https://", "/", "example.eu.auth0.com"},
	"google":   {"https://accounts.google.com", "", ""},
	"github":   {"", "", ""},
}

// kindNames are the keys of kinds, in the order in which messages list them.
var kindNames = []string{"oidc", "entra", "okta", "auth0", "keycloak", "google", "github"}

// isPublic reports whether everyone can have an account at the provider.
func (p *Provider) isPublic() bool { return p.Kind == "google" || p.Kind == "github" }

// describe returns the provider for logs.
func (p *Provider) describe() string {
	return strings.TrimSpace(p.Kind + " " + p.Address)
}

// check returns an error if the kind or the address is not valid.
func (p *Provider) check() error {
	kind, ok := kinds[p.Kind]
	switch {
	case !ok:
		return fmt.Errorf("unknown kind of identity provider %q; known are %s", p.Kind, strings.Join(kindNames, ", "))
	case kind.example == "" && p.Address != "":
		return fmt.Errorf("the provider %s takes no address", p.Kind)
	case kind.example != "" && p.Address == "":
		return fmt.Errorf("the provider %s needs an address, as in: provider %[1]s %s", p.Kind, kind.example)
	case p.Kind == "entra" && (p.Address == "common" || p.Address == "organizations" || p.Address == "consumers"):
		return fmt.Errorf("entra %s are the users of all companies: write the tenant of yours, as in: provider entra contoso.com", p.Address)
	}
	return verify.CheckNotMetadata(p.Address)
}

// open returns the provider.
func (p *Provider) open() (authserver.Provider, error) {
	if p.Kind == "" {
		p.Kind = "oidc"
	}
	repl := caddy.NewReplacer()
	var address, id, secret string
	for _, value := range []struct {
		name, source string
		to           *string
	}{{"address", p.Address, &address}, {"client_id", p.ClientID, &id}, {"client_secret", p.ClientSecret, &secret}} {
		if value.source == "" {
			continue
		}
		var err error
		if *value.to, err = repl.ReplaceOrErr(value.source, true, true); err != nil {
			return nil, fmt.Errorf("the %s of the identity provider: %w", value.name, err)
		}
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	if id == "" {
		return nil, errors.New("agent_login needs the client_id that the identity provider has given to the gateway")
	}
	key, err := p.key()
	if err != nil {
		return nil, err
	}
	if p.Kind == "github" {
		return &authserver.GitHub{ClientID: id, ClientSecret: secret, Scopes: p.Scopes}, nil
	}
	kind := kinds[p.Kind]
	provider := &authserver.OIDC{
		Issuer: kind.before + strings.TrimSuffix(address, kind.after) + kind.after, ClientID: id, ClientSecret: secret, Key: key,
		Scopes: p.Scopes, GroupClaim: p.GroupClaim, Params: map[string]string{},
	}
	if p.Kind == "google" && p.Scopes == nil {
		// Google gives a refresh token by these parameters, and not by a scope.
		provider.Params["access_type"], provider.Params["prompt"] = "offline", "consent"
	}
	maps.Copy(provider.Params, p.Params)
	return provider, nil
}

// key returns the key that authenticates the gateway, or nil.
func (p *Provider) key() (*tokenclient.Key, error) {
	if p.PrivateKey == "" && p.Certificate == "" {
		if p.KeyID != "" {
			return nil, errors.New("key_id of the identity provider needs private_key or certificate")
		}
		return nil, nil
	}
	if p.Kind == "github" || p.ClientSecret != "" {
		return nil, errors.New("private_key replaces client_secret: give one of them; github supports only client_secret")
	}
	repl := caddy.NewReplacer()
	key := &tokenclient.Key{File: repl.ReplaceKnown(p.PrivateKey, ""), ID: p.KeyID, Certificate: repl.ReplaceKnown(p.Certificate, "")}
	return key, key.Check()
}
