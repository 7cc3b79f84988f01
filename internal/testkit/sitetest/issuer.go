package sitetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Issuer is an authorization server that publishes one key.
type Issuer struct {
	*httptest.Server
	key     *ecdsa.PrivateKey
	Down    atomic.Bool
	Fetches atomic.Int32
}

func NewIssuer(t *testing.T) *Issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &Issuer{key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		i.Fetches.Add(1)
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Use: "sig"}}})
	})
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.Down.Load() {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(i.Close)
	return i
}

// Token returns a token for the audience; changes are names and values of claims,
// where nil removes one.
func (i *Issuer) Token(t *testing.T, audience string, changes ...any) string {
	t.Helper()
	claims := map[string]any{
		"iss": i.URL, "sub": "ada", "aud": audience, "client_id": "inspector", "scope": "trips:read",
		"exp": time.Now().Add(time.Hour).Unix(),
	}
	for n := 0; n+1 < len(changes); n += 2 {
		claims[changes[n].(string)] = changes[n+1]
		if changes[n+1] == nil {
			delete(claims, changes[n].(string))
		}
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: "k"}},
		(&jose.SignerOptions{}).WithType("at+jwt"))
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

// Ask sends a request with headers, which are names and values.
func (s *Site) Ask(method, path string, header ...string) Response {
	s.T.Helper()
	r, err := http.NewRequest(method, s.URL+path, nil)
	if err != nil {
		s.T.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	got := s.Do(r)
	got.Body = unset.ReplaceAllString(got.Body, "")
	return got
}

// unset is a placeholder that has no value.
var unset = regexp.MustCompile(`\{http\.[a-z._]+\}`)
