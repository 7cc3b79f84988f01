package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/testkit"
)

const (
	testIssuer   = "https://auth.test/tenant"
	testAudience = "https://api.test/mcp"
)

// authServer is an authorization server that needs no network: a transport that
// answers for it.
type authServer struct {
	mu      sync.Mutex
	issuer  string
	well    string // the path of the metadata
	metaTo  string // what the metadata say is the issuer; "" for the truth
	keys    []jose.JSONWebKey
	private map[string]crypto.Signer
	answer  func(r *http.Request) (*http.Response, error) // nil: as it should
	maxAge  string
	metas   int // fetches of metadata that exist
	sets    int // fetches of the key set
}

func newAuthServer(t *testing.T) *authServer {
	t.Helper()
	s := &authServer{issuer: testIssuer, well: "/.well-known/oauth-authorization-server/tenant", private: make(map[string]crypto.Signer)}
	s.add("rsa", "", rsaKey())
	return s
}

// rsaKey is made once: it is what takes time.
var rsaKey = sync.OnceValue(func() crypto.Signer {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func ecKey(t *testing.T, curve elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func edKey(t *testing.T) crypto.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (s *authServer) add(kid, algorithm string, key crypto.Signer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, jose.JSONWebKey{Key: key.Public(), KeyID: kid, Algorithm: algorithm, Use: "sig"})
	s.private[kid] = key
}

// replace makes the key the only one that is published.
func (s *authServer) replace(kid string, key crypto.Signer) {
	s.mu.Lock()
	s.keys = nil
	s.mu.Unlock()
	s.add(kid, "", key)
}

func (s *authServer) behave(answer func(*http.Request) (*http.Response, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *authServer) counts() (metas, sets int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.metas, s.sets
}

func reply(r *http.Request, status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: make(http.Header), Body: io.NopCloser(strings.NewReader(body)), Request: r}
}

func (s *authServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		if response, err := answer(r); response != nil || err != nil {
			return response, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.URL.Path {
	case s.well:
		s.metas++
		issuer := s.metaTo
		if issuer == "" {
			issuer = s.issuer
		}
		body, _ := json.Marshal(map[string]any{"issuer": issuer, "jwks_uri": "https://keys.test/jwks", "unknown": []int{1}})
		return reply(r, 200, string(body)), nil
	case "/jwks":
		s.sets++
		body, _ := json.Marshal(jose.JSONWebKeySet{Keys: s.keys})
		response := reply(r, 200, string(body))
		if s.maxAge != "" {
			response.Header.Set("Cache-Control", "public, max-age="+s.maxAge)
		}
		return response, nil
	}
	return reply(r, 404, "no"), nil
}

var errDown = errors.New("connection refused")

func down(*http.Request) (*http.Response, error) { return nil, errDown }

// goodClaims are those of a token that is accepted.
func goodClaims() map[string]any {
	now := time.Now()
	return map[string]any{
		"iss": testIssuer, "sub": "ada", "aud": testAudience, "client_id": "inspector", "scope": "trips:read trips:write",
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
}

// with returns the claims with changes; nil removes one.
func with(claims map[string]any, changes ...any) map[string]any {
	for i := 0; i+1 < len(changes); i += 2 {
		if changes[i+1] == nil {
			delete(claims, changes[i].(string))
			continue
		}
		claims[changes[i].(string)] = changes[i+1]
	}
	return claims
}

// sign makes a token with a key of any kind and headers beside alg.
func sign(t *testing.T, algorithm string, key any, headers map[string]any, claims map[string]any) string {
	t.Helper()
	options := &jose.SignerOptions{ExtraHeaders: make(map[jose.HeaderKey]any)}
	for name, value := range headers {
		options.ExtraHeaders[jose.HeaderKey(name)] = value
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(algorithm), Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (s *authServer) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	return sign(t, "RS256", s.private["rsa"], map[string]any{"kid": "rsa", "typ": "at+jwt"}, claims)
}

// verifier returns one that fetches from the server.
func (s *authServer) verifier(t *testing.T, change func(*Options)) *Verifier {
	t.Helper()
	options := Options{Issuers: []Issuer{{URL: s.issuer}}, Transport: s}
	if change != nil {
		change(&options)
	}
	v, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// wantError fails unless err is an Error of the code whose description has text.
func wantError(t *testing.T, err error, code oauth.Code, text string) *oauth.Error {
	t.Helper()
	refusal, ok := errors.AsType[*oauth.Error](err)
	if !ok || refusal.Code != code || !testkit.ContainsAll(refusal.Description, text) {
		t.Fatalf("got %v, want %s with %q", err, code, text)
	}
	return refusal
}
