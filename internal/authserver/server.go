package authserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/seal"
	"github.com/fairwayhq/fairway/internal/share"
)

// Options configures a Server.
type Options struct {
	// Issuer identifies the server: an https URL without query, or an http URL of a loopback address. Required.
	Issuer string

	// Path is where the endpoints are, on the issuer's origin. Default: the issuer's path followed by /login.
	Path string

	// Secrets are the secrets that all keys are derived from, each with at least minSecret bytes. The first one seals and
	// signs; the others are accepted too, so that a secret can be replaced. At least one is required.
	Secrets []string

	// Provider knows the users. Required.
	Provider Provider

	// Allow says who may log in. The zero value allows every user of the provider.
	Allow Allow

	// Scopes are the scopes that tokens may have. Others that a client asks for are not granted. Default: none.
	Scopes []Scope

	// Resources returns what tokens may be for. If it is nil, or returns none, tokens may be for each address on the issuer's origin.
	Resources func() oauth.Resources

	// Clients are the clients with a fixed ID. Other clients register themselves, or have a metadata document.
	Clients []Client

	// ledger holds sessions, and what may be used once. Required.
	Ledger ledger

	// TokenLifetime is how long access tokens are valid. Default: 10 minutes.
	TokenLifetime time.Duration

	// SessionLifetime is how long a session lasts without a refresh. Default: 30 days.
	SessionLifetime time.Duration

	// Transport fetches the metadata documents of clients. Default: one that connects to public addresses only.
	Transport http.RoundTripper

	// Audit is called when a user logs in, or may not. If it returns an error, the login fails. May be nil.
	Audit func(ctx context.Context, event string, user *User, client string) error

	// Report is called with what an operator should know, such as a session that ended because a token was used twice. It
	// never contains tokens. May be nil.
	Report func(message string, err error)
}

// Scope is a scope that tokens may have.
type Scope struct {
	// The name of the scope. Required.
	Name string `json:"name,omitempty"`
	// The groups whose members get the scope. Default: every user gets it.
	Groups []string `json:"groups,omitempty"`
}

// Allow selects the users who may log in. A user needs to match one of the lists. If all lists are empty, each user may.
type Allow struct {
	// Groups of users. Default: none.
	Groups []string `json:"groups,omitempty"`
	// Verified email addresses of users. Default: none.
	Emails []string `json:"emails,omitempty"`
	// Domains of verified email addresses. Default: none.
	Domains []string `json:"domains,omitempty"`
	// Subjects: the identifiers of users at the provider. Default: none.
	Users []string `json:"users,omitempty"`
}

// IsEmpty reports whether every user may log in.
func (a *Allow) IsEmpty() bool {
	return len(a.Groups)+len(a.Emails)+len(a.Domains)+len(a.Users) == 0
}

// allows reports whether the user may log in.
func (a *Allow) allows(u *User) bool {
	if a.IsEmpty() || slices.Contains(a.Users, u.Subject) || slices.ContainsFunc(u.Groups, func(g string) bool { return slices.Contains(a.Groups, g) }) {
		return true
	}
	if u.Email == "" || !u.EmailVerified {
		return false
	}
	_, domain, _ := strings.Cut(u.Email, "@")
	isEmail := func(e string) bool { return strings.EqualFold(e, u.Email) }
	isDomain := func(d string) bool { return strings.EqualFold(d, domain) }
	return slices.ContainsFunc(a.Emails, isEmail) || slices.ContainsFunc(a.Domains, isDomain)
}

// A User is a person whom the provider has authenticated.
type User struct {
	Subject       string   `json:"sub"` // the provider's identifier, which never changes
	Email         string   `json:"email,omitempty"`
	EmailVerified bool     `json:"email_verified,omitempty"`
	Name          string   `json:"name,omitempty"`
	Groups        []string `json:"groups,omitempty"`
}

// A Ledger holds records that all nodes share. A record's value never contains anything in plain text that lets someone log in.
type ledger interface {
	// Update calls change with the record's value, which is empty if there is none, and replaces the record by what change
	// returns, for the given lifetime. An empty value deletes the record. Updates of one record are serialized. If change
	// returns an error, Update changes nothing and returns that error. A new record takes room of its owner's share.
	Update(ctx context.Context, key string, owner share.Owner, change func(old string) (value string, lifetime time.Duration, err error)) error
}

// A Server is an authorization server. It is safe for concurrent use.
type Server struct {
	options  Options
	targets  targets
	origin   string // scheme and host of the issuer
	path     string // of the endpoints
	secure   bool   // the issuer is https
	clients  *clients
	records  *records
	metadata []byte
	jwks     []byte
}

// New returns a server with the options.
func New(options Options) (*Server, error) {
	issuer, err := url.Parse(options.Issuer)
	switch {
	case err != nil || issuer.Hostname() == "" || issuer.RawQuery != "" || issuer.Fragment != "" || issuer.User != nil:
		return nil, fmt.Errorf("the issuer %q is not a URL with a host and without a query", options.Issuer)
	case issuer.Scheme != "https" && (issuer.Scheme != "http" || !isLoopback(issuer.Hostname())):
		return nil, fmt.Errorf("the issuer %q does not use https, so tokens could be read on the way", options.Issuer)
	case len(options.Secrets) == 0:
		return nil, errors.New("the login has no secret, from which its keys are derived")
	case options.Provider == nil || options.Ledger == nil:
		return nil, errors.New("the login needs a provider and a store")
	}
	s := &Server{
		options: options, origin: issuer.Scheme + "://" + issuer.Host, secure: issuer.Scheme == "https",
		path: options.Path,
	}
	s.targets.known = options.Resources
	if s.targets.origin, err = oauth.NormalResource(s.origin); err != nil {
		return nil, fmt.Errorf("the issuer %q: %w", options.Issuer, err)
	}
	if s.path == "" {
		s.path = strings.TrimSuffix(issuer.Path, "/") + "/login"
	}
	s.options.TokenLifetime = orDefault(options.TokenLifetime, 10*time.Minute)
	s.options.SessionLifetime = orDefault(options.SessionLifetime, 30*24*time.Hour)
	if s.options.Audit == nil {
		s.options.Audit = func(context.Context, string, *User, string) error { return nil }
	}
	if s.options.Report == nil {
		s.options.Report = func(string, error) {}
	}
	s.records = &records{ledger: options.Ledger, report: s.options.Report, sealer: seal.Derive(options.Secrets, "fairway login seal")}
	for _, secret := range options.Secrets {
		k, err := newKeys(secret)
		if err != nil {
			return nil, err
		}
		s.records.keys = append(s.records.keys, k)
	}
	s.clients = &clients{
		fixed: make(map[string]*Client), documents: newDocuments(options.Transport), records: s.records, limits: limits{newLimiter(20), newLimiter(120)},
		audiences: []string{options.Issuer, s.origin + s.path + "/token"},
	}
	for _, c := range options.Clients {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("client %s: %w", c.ID, err)
		}
		if s.clients.fixed[c.ID] != nil {
			return nil, fmt.Errorf("client %s is given twice", c.ID)
		}
		s.clients.fixed[c.ID] = &c
	}
	s.prepare()
	return s, nil
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// Issuer returns the issuer of the server's tokens.
func (s *Server) Issuer() string { return s.options.Issuer }

// Origin returns the scheme and host of the issuer, in the normal form of resources.
func (s *Server) Origin() string { return s.targets.origin }

// Callback returns the address to which the provider sends browsers back. The provider has to know it.
func (s *Server) Callback() string { return s.origin + s.path + "/callback" }

// Keys returns the JWK set that verifies the server's tokens.
func (s *Server) Keys() jose.JSONWebKeySet {
	var set jose.JSONWebKeySet
	for _, k := range s.records.keys {
		set.Keys = append(set.Keys, k.public)
	}
	return set
}

// prepare makes the documents that never change: the metadata (RFC 8414, section 2; OpenID Connect Discovery 1.0, section 3) and the JWK set.
func (s *Server) prepare() {
	at := func(endpoint string) string { return s.origin + s.path + endpoint }
	metadata := map[string]any{
		"issuer":                                           s.options.Issuer,
		"authorization_endpoint":                           at("/authorize"),
		"token_endpoint":                                   at("/token"),
		"registration_endpoint":                            at("/register"),
		"revocation_endpoint":                              at("/revoke"),
		"jwks_uri":                                         at("/jwks"),
		"response_types_supported":                         []string{"code"},
		"response_modes_supported":                         []string{"query"},
		"grant_types_supported":                            []string{grantCode, grantRefresh, grantClient, grantAssertion},
		"authorization_grant_profiles_supported":           []string{"urn:ietf:params:oauth:grant-profile:id-jag"},
		"code_challenge_methods_supported":                 []string{"S256"},
		"token_endpoint_auth_methods_supported":            authMethods,
		"revocation_endpoint_auth_methods_supported":       authMethods,
		"token_endpoint_auth_signing_alg_values_supported": signatureNames(),
		"authorization_response_iss_parameter_supported":   true,
		"client_id_metadata_document_supported":            true,
		// Some clients read the metadata as those of OpenID Connect, which require these.
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{string(jose.ES256)},
	}
	if len(s.options.Scopes) > 0 {
		names := make([]string, 0, len(s.options.Scopes))
		for _, scope := range s.options.Scopes {
			names = append(names, scope.Name)
		}
		metadata["scopes_supported"] = names
	}
	s.metadata, _ = json.Marshal(metadata) // cannot fail: only strings, lists and booleans
	s.jwks, _ = json.Marshal(s.Keys())     // cannot fail: the keys are public keys of a known type
}

// endpoint is a handler with the methods that it accepts.
type endpoint struct {
	methods []string
	serve   func(http.ResponseWriter, *http.Request)
	isOpen  bool // web pages of all origins may call it
}

// find returns the endpoint at a path, or nil.
func (s *Server) find(path string) *endpoint {
	read, post := []string{http.MethodGet, http.MethodHead}, []string{http.MethodPost}
	if s.isMetadata(path) {
		return &endpoint{read, s.serveDocument(s.metadata), true}
	}
	name, ok := strings.CutPrefix(path, s.path)
	if !ok {
		return nil
	}
	switch name {
	case "/authorize":
		return &endpoint{read, s.authorize, false}
	case "/consent":
		return &endpoint{post, s.consent, false}
	case "/callback":
		return &endpoint{read, s.callback, false}
	case "/token":
		return &endpoint{post, s.token, true}
	case "/register":
		return &endpoint{post, s.clients.register, true}
	case "/revoke":
		return &endpoint{post, s.revoke, true}
	case "/jwks":
		return &endpoint{read, s.serveDocument(s.jwks), true}
	}
	return nil
}

// isMetadata reports whether clients look for the server's metadata at the path. Clients differ in where they insert the well-known
// path, and some append the path of the resource.
func (s *Server) isMetadata(path string) bool {
	for _, name := range []string{"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"} {
		if rest, ok := strings.CutPrefix(path, name); ok && (rest == "" || rest[0] == '/') {
			return true
		}
		if strings.HasSuffix(path, name) && strings.TrimSuffix(path, name) == strings.TrimSuffix(strings.TrimPrefix(s.options.Issuer, s.origin), "/") {
			return true
		}
	}
	return false
}

// Serves reports whether the path is one of the server's endpoints.
func (s *Server) Serves(path string) bool { return s.find(path) != nil }

// Serve responds to a request for one of the server's endpoints, and reports whether it is for one.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request) bool {
	e := s.find(r.URL.Path)
	if e == nil {
		return false
	}
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	if e.isOpen {
		header.Set("Access-Control-Allow-Origin", "*")
	}
	switch {
	case slices.Contains(e.methods, r.Method):
		r.Body = http.MaxBytesReader(w, r.Body, MaxForm)
		e.serve(w, r)
	case e.isOpen && r.Method == http.MethodOptions:
		header.Set("Access-Control-Allow-Methods", strings.Join(e.methods, ", "))
		header.Set("Access-Control-Allow-Headers", "*, Authorization")
		header.Set("Access-Control-Max-Age", "86400")
		w.WriteHeader(http.StatusNoContent)
	default:
		header.Set("Allow", strings.Join(e.methods, ", "))
		s.showError(w, http.StatusMethodNotAllowed, "This address does not support the method "+r.Method+".")
	}
	return true
}

func (s *Server) serveDocument(document []byte) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=600")
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document) // the client may have disconnected
	}
}

// writeJSON writes a JSON object.
func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client may have disconnected
}
