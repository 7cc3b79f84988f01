package authserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/fairwayhq/fairway/internal/share"
)

// Limits of what clients send.
const (
	maxForm         = 64 << 10 // bytes of a request body
	maxRedirectURIs = 10
	maxURI          = 1024 // bytes of a redirect URI, a resource or a client ID that is a URL
	maxName         = 256  // bytes of a client's name
	maxState        = 1024 // bytes

	// registrationLifetime is how long the ID of a registered client is valid.
	registrationLifetime = 180 * 24 * time.Hour
)

// Methods by which clients authenticate themselves at the token endpoint.
const (
	authNone  = "none"
	authBasic = "client_secret_basic"
	authPost  = "client_secret_post"
	authKey   = "private_key_jwt"
)

var authMethods = []string{authNone, authBasic, authPost, authKey}

// signatures are the algorithms of client assertions and of identity assertions.
var signatures = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.ES384, jose.EdDSA}

func signatureNames() (names []string) {
	for _, algorithm := range signatures {
		names = append(names, string(algorithm))
	}
	return names
}

// A Client is a program that gets tokens.
type Client struct {
	// The ID that the client sends. Required.
	ID string `json:"id,omitempty"`
	// The name that users see. Default: the ID.
	Name string `json:"name,omitempty"`
	// The addresses that codes may be sent to: https URLs, loopback addresses with any port, or private schemes of native
	// applications. Required unless the client is a machine.
	RedirectURIs []string `json:"redirects,omitempty"`
	// Secret authenticates the client. Default: none; the client is public.
	Secret string `json:"-"`
	// Keys verify the assertions of a client that authenticates itself with a private key. Default: none.
	Keys *jose.JSONWebKeySet `json:"-"`
	// Whether the client may get tokens for itself (client_credentials). It needs a secret or keys. Default: false.
	Machine bool `json:"machine,omitempty"`
	// The scopes of the tokens that a machine gets for itself. Default: none.
	Scopes []string `json:"scopes,omitempty"`

	domain  string    // verified by the metadata document; "" for other clients
	derived []byte    // SHA-256 of the secret of a registered client; nil if it is public
	expires time.Time // of a registered client
}

// check returns an error if the client cannot be used as a fixed client.
func (c *Client) check() error {
	if c.ID == "" || len(c.ID) > maxURI || strings.ContainsFunc(c.ID, func(r rune) bool { return r < ' ' || r > '~' }) {
		return errors.New("the ID is empty, too long or not printable ASCII")
	}
	if c.Machine && c.Secret == "" && c.Keys == nil {
		return errors.New("a client that acts for itself needs a secret or keys")
	}
	if !c.Machine && len(c.RedirectURIs) == 0 {
		return errors.New("the client has no redirect address, to which it could get codes")
	}
	return checkRedirects(c.RedirectURIs, "", false)
}

// name returns what the consent page calls the client.
func (c *Client) name() string {
	return cmp.Or(visible(c.Name), visible(c.ID))
}

// visible returns what people see of a name: without control and format characters, which can turn the text around it, and without letters and variations that
// have no shape.
func visible(name string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsGraphic(r), unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector), r == '\u2800':
			return -1
		}
		return r
	}, name)), " ")
}

// isPublic reports whether the client has nothing to authenticate itself with.
func (c *Client) isPublic() bool { return c.Secret == "" && c.Keys == nil && c.derived == nil }

// redirects reports whether codes may be sent to the address. It must be one of the client's addresses, byte by byte. The port of a loopback
// address may differ for a public client, because a native application listens on any free port (RFC 8252, section 7.3).
func (c *Client) redirects(uri string) bool {
	if slices.Contains(c.RedirectURIs, uri) {
		return true
	}
	if !c.isPublic() {
		return false
	}
	without := withoutPort(uri)
	return without != "" && slices.ContainsFunc(c.RedirectURIs, func(known string) bool { return withoutPort(known) == without })
}

// withoutPort returns a loopback address without its port, or "" for other URIs.
func withoutPort(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "http" || !isLoopback(u.Hostname()) || u.User != nil {
		return ""
	}
	before, after, ok := strings.Cut(uri, u.Host)
	if !ok {
		return ""
	}
	return before + u.Hostname() + after
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// dangerous are schemes that a browser runs or opens itself.
var dangerous = []string{"javascript", "data", "file", "vbscript", "about", "blob", "filesystem", "ws", "wss", "ftp"}

// knownSchemes are private schemes without a dot, of clients that docs/clients.md describes.
var knownSchemes = []string{"cursor"}

// checkRedirects returns an error if codes must not be sent to one of the addresses. application is the application_type of a registration:
// "web", "native" or "". If the client describes itself, its private schemes need a dot (RFC 8252, section 7.1): others open programs of the user's system.
func checkRedirects(uris []string, application string, byItself bool) error {
	if len(uris) > maxRedirectURIs {
		return fmt.Errorf("there are more than %d redirect addresses", maxRedirectURIs)
	}
	for _, uri := range uris {
		u, err := url.Parse(uri)
		switch {
		case len(uri) > maxURI:
			return fmt.Errorf("a redirect address is longer than %d bytes", maxURI)
		case err != nil || u.Scheme == "" || u.User != nil || strings.Contains(uri, "#") || strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }):
			return fmt.Errorf("the redirect address %q is not an absolute URI without user, fragment, spaces and backslashes", uri)
		case slices.Contains(dangerous, u.Scheme):
			return fmt.Errorf("the scheme of the redirect address %q is not allowed", uri)
		case byItself && u.Scheme != "http" && u.Scheme != "https" && !strings.Contains(u.Scheme, ".") && !slices.Contains(knownSchemes, u.Scheme):
			return fmt.Errorf("the private scheme of the redirect address %q has no dot: use one like com.example.app, a loopback address, or let the operator configure the client", uri)
		case u.Scheme == "https" && u.Host != "" && (application != "web" || !isLoopback(u.Hostname())):
		case u.Scheme == "http" && isLoopback(u.Hostname()) && application != "web":
		case u.Scheme != "http" && u.Scheme != "https" && application != "web":
		case application == "web":
			return fmt.Errorf("the redirect address %q is not https at a server, which application_type web needs; a program on the user's device registers as native", uri)
		default:
			return fmt.Errorf("the redirect address %q is neither https nor one of a native application (http on a loopback address, or a private scheme)", uri)
		}
	}
	return nil
}

// clients knows the clients, and authenticates them.
type clients struct {
	fixed     map[string]*Client // by ID
	documents *documents
	records   *records
	limits    limits
	audiences []string // of assertions: the issuer and the token endpoint
}

// client returns the client with the ID: one that is configured, registered, or described by a metadata document.
func (s *clients) client(ctx context.Context, id string, network share.Owner) (*Client, *failure) {
	if c := s.fixed[id]; c != nil {
		return c, nil
	}
	if strings.HasPrefix(id, "https://") {
		if !s.limits.fetch.allow(network) {
			return nil, fail(codeUnavailable, "Too many requests from this network; try again in a minute.")
		}
		c, err := s.documents.client(ctx, id)
		if err != nil {
			return nil, fail(codeClient, "The client's metadata document cannot be used: "+err.Error()+".")
		}
		return c, nil
	}
	var r registration
	if err := s.records.unsealed(kindClient, "", id, &r); err != nil || time.Now().After(time.Unix(r.Expires, 0)) {
		return nil, fail(codeClient, "The client is not registered, or its registration has expired; register again.")
	}
	c := &Client{ID: id, Name: r.Name, RedirectURIs: r.RedirectURIs, expires: time.Unix(r.Expires, 0)}
	if r.Method != authNone {
		c.derived = digest(s.registeredSecret(id, s.records.keys[0]))
	}
	return c, nil
}

// A registration is what the ID of a registered client contains.
type registration struct {
	Name         string   `json:"n,omitempty"`
	RedirectURIs []string `json:"r"`
	Method       string   `json:"m"` // of authentication
	Expires      int64    `json:"e"` // seconds since 1970
}

// register registers a client (RFC 7591). Its ID contains the registration, so the server stores nothing.
func (s *clients) register(w http.ResponseWriter, r *http.Request) {
	if !s.limits.register.allow(networkOf(r)) {
		writeFailure(w, fail(codeUnavailable, "Too many registrations from this network; try again in a minute."))
		return
	}
	var request struct {
		Name         string   `json:"client_name"`
		RedirectURIs []string `json:"redirect_uris"`
		Method       string   `json:"token_endpoint_auth_method"`
		Application  string   `json:"application_type"`
		Grants       []string `json:"grant_types"`
		Responses    []string `json:"response_types"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		writeFailure(w, fail("invalid_client_metadata", "The body is not a JSON object with the members of RFC 7591, or is larger than 64 KiB."))
		return
	}
	switch request.Method {
	case "", authNone:
		request.Method = authNone
	case authBasic, authPost:
		if slices.ContainsFunc(request.RedirectURIs, func(uri string) bool { return !strings.HasPrefix(uri, "https://") }) {
			request.Method = authNone // a native application cannot keep a secret
		}
	default:
		writeFailure(w, fail("invalid_client_metadata", "Registered clients authenticate with none, client_secret_basic or client_secret_post. Use a metadata document for private_key_jwt."))
		return
	}
	if len(request.RedirectURIs) == 0 {
		writeFailure(w, fail("invalid_redirect_uri", "redirect_uris is missing."))
		return
	}
	if err := checkRedirects(request.RedirectURIs, request.Application, true); err != nil {
		writeFailure(w, fail("invalid_redirect_uri", sentence(err)))
		return
	}
	if request.Name != "" && visible(request.Name) == "" {
		writeFailure(w, fail("invalid_client_metadata", "client_name has no visible character."))
		return
	}
	if len(request.Name) > maxName {
		request.Name = strings.ToValidUTF8(request.Name[:maxName], "")
	}
	now := time.Now()
	expires := now.Add(registrationLifetime)
	id, err := s.records.sealed(kindClient, "", registration{request.Name, request.RedirectURIs, request.Method, expires.Unix()})
	if err != nil {
		writeFailure(w, fail(codeServer, "The registration cannot be sealed."))
		return
	}
	response := map[string]any{
		"client_id": id, "client_id_issued_at": now.Unix(), "client_name": request.Name, "redirect_uris": request.RedirectURIs,
		"token_endpoint_auth_method": request.Method, "grant_types": []string{grantCode, grantRefresh}, "response_types": []string{"code"},
	}
	if request.Application != "" {
		response["application_type"] = request.Application
	}
	if request.Method != authNone {
		response["client_secret"], response["client_secret_expires_at"] = s.registeredSecret(id, s.records.keys[0]), expires.Unix()
	}
	writeJSON(w, http.StatusCreated, response)
}

// registeredSecret returns the secret of a registered client. It is derived from the ID, so the server stores no secrets.
func (s *clients) registeredSecret(id string, k *keys) string {
	return base64.RawURLEncoding.EncodeToString(mac(k.client, id))
}

func digest(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// authenticated returns the client of a request to the token or revocation endpoint, after it has authenticated itself.
func (s *clients) authenticated(r *http.Request) (*Client, *failure) {
	id, secret := r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	assertion := r.PostForm.Get("client_assertion")
	if user, password, ok := r.BasicAuth(); ok {
		user, errUser := url.QueryUnescape(user)
		password, errPassword := url.QueryUnescape(password)
		if errUser != nil || errPassword != nil || secret != "" || assertion != "" || id != "" && id != user {
			return nil, fail(codeClient, "The client authenticates in more than one way, or with malformed credentials.")
		}
		id, secret = user, password
	}
	if assertion != "" {
		return s.authenticatedByKey(r, id, assertion)
	}
	if id == "" {
		return nil, fail(codeClient, "client_id is missing.")
	}
	c, f := s.client(r.Context(), id, networkOf(r))
	if f != nil {
		return nil, f
	}
	switch {
	case c.isPublic() && secret == "":
		return c, nil
	case c.Keys != nil && c.Secret == "":
		return nil, fail(codeClient, "The client has to authenticate itself with private_key_jwt.")
	case c.Secret != "" && subtle.ConstantTimeCompare(digest(secret), digest(c.Secret)) == 1:
		return c, nil
	case c.derived != nil && s.isRegisteredSecret(id, secret):
		return c, nil
	}
	return nil, fail(codeClient, "The client's secret is missing or wrong.")
}

// isRegisteredSecret reports whether the secret is that of a registered client, by any of the keys.
func (s *clients) isRegisteredSecret(id, secret string) bool {
	return slices.ContainsFunc(s.records.keys, func(k *keys) bool {
		return subtle.ConstantTimeCompare(digest(secret), digest(s.registeredSecret(id, k))) == 1
	})
}

// authenticatedByKey verifies a client's assertion (RFC 7523, section 3). An assertion works once.
func (s *clients) authenticatedByKey(r *http.Request, id, assertion string) (*Client, *failure) {
	wrong := func(why string) (*Client, *failure) {
		return nil, fail(codeClient, "The client's assertion is not valid: "+why+".")
	}
	if r.PostForm.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
		return wrong("client_assertion_type is not the type of JWTs")
	}
	token, err := jwt.ParseSigned(assertion, signatures)
	if err != nil {
		return wrong("it is not a JWT with an accepted algorithm")
	}
	var claims jwt.Claims
	if err := token.UnsafeClaimsWithoutVerification(&claims); err != nil || claims.Subject == "" || claims.Issuer != claims.Subject || id != "" && id != claims.Subject {
		return wrong("its iss and sub are not the client's ID")
	}
	c, f := s.client(r.Context(), claims.Subject, networkOf(r))
	if f != nil {
		return nil, f
	}
	if c.Keys == nil {
		return wrong("the client has no keys")
	}
	isSigned := slices.ContainsFunc(c.Keys.Keys, func(key jose.JSONWebKey) bool { return token.Claims(key.Key, &claims) == nil })
	if !isSigned {
		return wrong("its signature is not that of one of the client's keys")
	}
	isOurs := slices.ContainsFunc(claims.Audience, func(a string) bool { return slices.Contains(s.audiences, a) })
	switch err := claims.ValidateWithLeeway(jwt.Expected{Time: time.Now()}, leeway); {
	case err != nil || claims.Expiry == nil || time.Until(claims.Expiry.Time()) > maxAssertion+leeway:
		return wrong("it has expired, or is valid for more than five minutes")
	case !isOurs:
		return wrong("its aud is not this server")
	case claims.ID == "":
		return wrong("it has no jti")
	}
	isFirst, err := s.records.once(r.Context(), "assertion/"+c.ID+"/"+claims.ID, ownerOf(c.ID), time.Until(claims.Expiry.Time())+leeway)
	if err != nil {
		return nil, s.records.failed(err)
	}
	if !isFirst {
		return wrong("it was used before")
	}
	return c, nil
}

const (
	leeway       = 30 * time.Second
	maxAssertion = 5 * time.Minute
)

// networkOf returns the network of a request's sender.
func networkOf(r *http.Request) share.Owner {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return share.OwnerOf("", host)
}

func ownerOf(user string) share.Owner { return share.OwnerOf(user, "") }
