package authserver

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Grant types of the token endpoint.
const (
	grantCode      = "authorization_code"
	grantRefresh   = "refresh_token"
	grantClient    = "client_credentials"
	grantAssertion = "urn:ietf:params:oauth:grant-type:jwt-bearer" // RFC 7523, section 4
)

// maxToken is the length of the longest access token, in bytes. Resource servers refuse longer ones.
const maxToken = 8 << 10

// A grant is what an access token says.
type grant struct {
	client    string
	user      *User    // nil if the client acts for itself
	audiences []string // at least one
	scopes    []string
	session   string // "" without a session
	expires   time.Time
	refresh   string // refresh token; "" if there is none
}

// token exchanges a grant for an access token (RFC 6749, section 3.2).
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	if f := readForm(r); f != nil {
		writeFailure(w, f)
		return
	}
	c, f := s.clients.authenticated(r)
	var g *grant
	if f == nil {
		switch r.PostForm.Get("grant_type") {
		case grantCode:
			g, f = s.byCode(r, c)
		case grantRefresh:
			g, f = s.byRefreshToken(r, c)
		case grantClient:
			g, f = s.byClient(r, c)
		case grantAssertion:
			g, f = s.byAssertion(r, c)
		default:
			f = fail(codeGrantType, "The server supports the grant types "+strings.Join([]string{grantCode, grantRefresh, grantClient, grantAssertion}, ", ")+".")
		}
	}
	if f != nil {
		writeFailure(w, f)
		return
	}
	text, err := s.accessToken(g)
	if err != nil {
		s.options.Report("an access token cannot be issued", err)
		writeFailure(w, fail(codeServer, sentence(err)))
		return
	}
	response := map[string]any{"access_token": text, "token_type": "Bearer", "expires_in": int(time.Until(g.expires).Seconds()), "scope": strings.Join(g.scopes, " ")}
	if g.refresh != "" {
		response["refresh_token"] = g.refresh
	}
	writeJSON(w, http.StatusOK, response)
}

// readForm reads a form whose parameters occur once. Only resource may occur more often (RFC 8707), which this server does not support.
func readForm(r *http.Request) *failure {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" && r.ContentLength != 0 {
		return fail(codeRequest, "The Content-Type of the request is not application/x-www-form-urlencoded; send the parameters as a form.")
	}
	if err := r.ParseForm(); err != nil {
		return fail(codeRequest, "The body is not a form, or is larger than 64 KiB.")
	}
	for name, values := range r.PostForm {
		if len(values) > 1 {
			if name == "resource" {
				return fail(codeTarget, "A token is for one resource.")
			}
			return fail(codeRequest, "A parameter is given twice.")
		}
	}
	return nil
}

// byCode is the grant of a code (RFC 6749, section 4.1.3; RFC 7636, section 4.6).
func (s *Server) byCode(r *http.Request, c *Client) (*grant, *failure) {
	verifier, redirect, resource := r.PostForm.Get("code_verifier"), r.PostForm.Get("redirect_uri"), r.PostForm.Get("resource")
	var audiences []string
	id, opened, f := s.openSession(r.Context(), r.PostForm.Get("code"), func(code *codeRecord) (f *failure) {
		sum := sha256.Sum256([]byte(verifier))
		switch asked := &code.Request; {
		case asked.Client != c.ID:
			return fail(codeGrant, "The code is for another client.")
		case redirect != "" && asked.Redirect != redirect:
			return fail(codeGrant, "The redirect_uri is not the one of the login.")
		case len(verifier) < 43 || len(verifier) > 128 || base64.RawURLEncoding.EncodeToString(sum[:]) != asked.Challenge:
			return fail(codeGrant, "The code_verifier is not the one of the login.")
		}
		audiences, f = s.targets.narrowed(code.Request.Resource, resource)
		return f
	})
	if f != nil {
		return nil, f
	}
	return s.sessionGrant(id, opened, audiences), nil
}

// byRefreshToken is the grant of a refresh token (RFC 6749, section 6).
func (s *Server) byRefreshToken(r *http.Request, c *Client) (*grant, *failure) {
	id, generation, ok := s.records.readRefreshToken(r.PostForm.Get("refresh_token"))
	if !ok {
		return nil, fail(codeGrant, "The refresh token is not one of this server.")
	}
	renewed, audiences, f := s.refresh(r.Context(), c, id, generation, r.PostForm.Get("resource"))
	if f != nil {
		return nil, f
	}
	g := s.sessionGrant(id, renewed, audiences)
	if scope := r.PostForm.Get("scope"); scope != "" {
		g.scopes = common(g.scopes, strings.Fields(scope))
	}
	return g, nil
}

// sessionGrant returns the grant of a session. It has a refresh token if the provider can be asked again.
func (s *Server) sessionGrant(id string, of *session, audiences []string) *grant {
	g := &grant{client: of.Client, user: &of.User, audiences: audiences, scopes: s.granted(of.Scopes, &of.User), session: id, expires: time.Now().Add(s.options.TokenLifetime)}
	if of.Tokens.Refresh != "" || of.Tokens.Access != "" && of.Tokens.Expires.IsZero() {
		g.refresh = s.records.keys[0].refreshToken(id, of.Generation)
	}
	return g
}

// common returns the texts of the first list that the second one has too.
func common(list, other []string) (both []string) {
	for _, text := range list {
		if slices.Contains(other, text) {
			both = append(both, text)
		}
	}
	return both
}

// byClient is the grant of a client that acts for itself (RFC 6749, section 4.4).
func (s *Server) byClient(r *http.Request, c *Client) (*grant, *failure) {
	if !c.Machine {
		return nil, fail(codeNotAllowed, "The client may not get tokens for itself.")
	}
	_, audiences, f := s.targets.of(r.PostForm.Get("resource"))
	if f != nil {
		return nil, f
	}
	scopes := c.Scopes
	if asked := r.PostForm.Get("scope"); asked != "" {
		scopes = common(c.Scopes, strings.Fields(asked))
	}
	return &grant{client: c.ID, audiences: audiences, scopes: scopes, expires: time.Now().Add(s.options.TokenLifetime)}, nil
}

// identityAssertion is an identity assertion authorization grant (ID-JAG): the provider says that a user of the client may use a resource.
type identityAssertion struct {
	jwt.Claims
	Resource string   `json:"resource"`
	ClientID string   `json:"client_id"`
	Scope    string   `json:"scope"`
	Email    string   `json:"email"`
	Verified bool     `json:"email_verified"`
	Groups   []string `json:"groups"`
}

// byAssertion is the grant of an ID-JAG of the provider (enterprise-managed authorization of MCP).
func (s *Server) byAssertion(r *http.Request, c *Client) (*grant, *failure) {
	a, f := s.readAssertion(r.Context(), r.PostForm.Get("assertion"))
	if f != nil {
		return nil, f
	}
	audiences, f := s.targets.narrowed(a.Resource, r.PostForm.Get("resource"))
	switch {
	case a.ClientID != c.ID:
		return nil, fail(codeGrant, "The assertion is for another client.")
	case f != nil || a.Resource == "":
		return nil, fail(codeGrant, "The assertion is not for a resource at "+s.origin+".")
	}
	user := &User{Subject: a.Subject, Email: a.Email, EmailVerified: a.Verified, Groups: a.Groups}
	isFirst, err := s.records.once(r.Context(), "id-jag/"+a.Issuer+"/"+a.ID, ownerOf(a.Subject), time.Until(a.Expiry.Time())+leeway)
	if err != nil {
		return nil, s.records.failed(err)
	}
	if !isFirst {
		return nil, fail(codeGrant, "The assertion was used before.")
	}
	if f := admit(r.Context(), s, user, c.ID); f != nil {
		if f.code == codeDenied {
			f = fail(codeGrant, "The user may not log in here.")
		}
		return nil, f
	}
	scopes := strings.Fields(a.Scope)
	if asked := r.PostForm.Get("scope"); asked != "" {
		scopes = common(scopes, strings.Fields(asked))
	}
	return &grant{client: c.ID, user: user, audiences: audiences, scopes: s.granted(scopes, user), expires: time.Now().Add(s.options.TokenLifetime)}, nil
}

// readAssertion verifies an ID-JAG, but for what depends on the client.
func (s *Server) readAssertion(ctx context.Context, text string) (*identityAssertion, *failure) {
	wrong := func(why string) (*identityAssertion, *failure) {
		return nil, fail(codeGrant, "The assertion is not valid: "+why+".")
	}
	if len(text) > maxToken {
		return wrong("it is longer than 8 KiB")
	}
	token, err := jwt.ParseSigned(text, signatures)
	if err != nil || len(token.Headers) != 1 || token.Headers[0].ExtraHeaders[jose.HeaderType] != "oauth-id-jag+jwt" {
		return wrong("it is not a JWT of the type oauth-id-jag+jwt with an accepted algorithm")
	}
	payload, issuer, err := s.options.Provider.VerifyJWT(ctx, text)
	switch {
	case errors.Is(err, ErrRefused):
		return wrong("its signature is not one of the identity provider")
	case err != nil:
		s.options.Report("the identity provider cannot be reached", err)
		return nil, fail(codeUnavailable, "The identity provider cannot be reached; try again.")
	}
	a := new(identityAssertion)
	if err := json.Unmarshal(payload, a); err != nil {
		return wrong("its claims are malformed")
	}
	err = a.ValidateWithLeeway(jwt.Expected{Issuer: issuer, AnyAudience: jwt.Audience{s.options.Issuer}, Time: time.Now()}, leeway)
	switch {
	case err != nil || a.Expiry == nil || len(a.Audience) != 1:
		return wrong("its iss, aud, exp or nbf is not acceptable")
	case a.ID == "" || a.Subject == "":
		return wrong("it has no jti or no sub")
	case time.Until(a.Expiry.Time()) > time.Hour:
		return wrong("it is valid for more than an hour")
	}
	return a, nil
}

// accessToken returns the signed access token of a grant (RFC 9068).
func (s *Server) accessToken(g *grant) (string, error) {
	k := s.records.keys[0]
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: k.sign, KeyID: k.public.KeyID}}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		return "", err
	}
	now := time.Now()
	var audience any = g.audiences
	if len(g.audiences) == 1 {
		audience = g.audiences[0]
	}
	claims := map[string]any{
		"iss": s.options.Issuer, "aud": audience, "client_id": g.client, "jti": random(), "iat": now.Unix(), "exp": g.expires.Unix(),
		"scope": strings.Join(g.scopes, " "), "sub": g.client,
	}
	if g.session != "" {
		claims["sid"] = g.session
	}
	if g.user != nil {
		claims["sub"] = g.user.Subject
		if g.user.Email != "" {
			claims["email"], claims["email_verified"] = g.user.Email, g.user.EmailVerified
		}
		if g.user.Name != "" {
			claims["name"] = g.user.Name
		}
		if len(g.user.Groups) > 0 {
			claims["groups"] = g.user.Groups
		}
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err == nil && len(text) > maxToken {
		err = errors.New("the access token would be longer than 8 KiB: have the identity provider send fewer groups")
	}
	return text, err
}

// revoke ends the session of a refresh token (RFC 7009). Access tokens expire soon by themselves.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	if f := readForm(r); f != nil {
		writeFailure(w, f)
		return
	}
	c, f := s.clients.authenticated(r)
	if f != nil {
		writeFailure(w, f)
		return
	}
	if id, _, ok := s.records.readRefreshToken(r.PostForm.Get("token")); ok {
		err := update(r.Context(), s.records, sessionKey(id), func(old *session) (time.Duration, error) {
			if old.Client != c.ID {
				return 0, errGone
			}
			return 0, nil
		})
		if err != nil && !errors.Is(err, errGone) {
			writeFailure(w, s.records.failed(err))
			return
		}
	}
	w.WriteHeader(http.StatusOK) // also for unknown tokens (RFC 7009, section 2.2)
}
