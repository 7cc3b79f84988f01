package docs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
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
	serve("/.well-known/openid-configuration", map[string]string{"issuer": issuer.URL, "jwks_uri": issuer.URL + "/keys", "authorization_endpoint": issuer.URL + "/authorize", "token_endpoint": issuer.URL + "/token"})

	// The token endpoint gives the gateway a token of its own, and ada's for another audience.
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		id, secret, _ := r.BasicAuth()
		response := map[string]any{"token_type": "Bearer", "expires_in": 300}
		switch grant := r.FormValue("grant_type"); {
		case id != "gateway" || secret != "api-secret" || r.FormValue("scope") != "trips":
			w.WriteHeader(http.StatusUnauthorized)
			response = map[string]any{"error": "invalid_client"}
		case grant == "client_credentials":
			response["access_token"] = "token-of-gateway"
		case strings.HasSuffix(grant, ":token-exchange") && r.FormValue("subject_token") != "" && r.FormValue("audience") == "trains-api":
			response["access_token"], response["issued_token_type"] = "token-of-ada-for-trains-api", "urn:ietf:params:oauth:token-type:access_token"
		default:
			w.WriteHeader(http.StatusBadRequest)
			response = map[string]any{"error": "invalid_grant"}
		}
		_ = json.NewEncoder(w).Encode(response)
	})

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
		"ISSUER=" + issuer.URL, "PROVIDER=" + issuer.URL,
		"TOKEN=" + token("railway", "trips:read"),
		"STAFF_TOKEN=" + token("railway", "trips:read bookings:write"),
		"OTHER_TOKEN=" + token("hotels", "trips:read"),
	}
}

// loginProvider starts an identity provider with a token endpoint, and returns its address and the secrets of the examples.
func loginProvider(w *workspace) []string {
	w.t.Helper()
	return append(identityProvider(w), "OIDC_SECRET=oidc-secret", "LOGIN_SECRET=a-login-secret-of-the-example",
		"NIGHTLY_SECRET=a-secret-of-nightly", "API_SECRET=api-secret", "CONNECTIONS_SECRET=a-secret-of-connections", "GITHUB_ID=github-id", "GITHUB_SECRET=github-secret")
}
