package docs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// identityProvider starts an issuer of access tokens, and returns its address and tokens: one
// that may read, one of the staff, and one for another API.
func identityProvider(w *workspace) []string {
	t := w.t
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}},
		(&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	issuer := httptest.NewServer(mux)
	t.Cleanup(issuer.Close)
	serve := func(path string, document any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(document)
		})
	}
	serve("/keys", jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}})
	serve("/.well-known/openid-configuration", map[string]string{"issuer": issuer.URL, "jwks_uri": issuer.URL + "/keys"})

	token := func(audience, scope string) string {
		text, err := jwt.Signed(signer).Claims(map[string]any{
			"iss": issuer.URL, "aud": audience, "sub": "ada", "scope": scope,
			"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
		}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	return []string{
		"ISSUER=" + issuer.URL,
		"TOKEN=" + token("railway", "trips:read"),
		"STAFF_TOKEN=" + token("railway", "trips:read bookings:write"),
		"OTHER_TOKEN=" + token("hotels", "trips:read"),
	}
}
