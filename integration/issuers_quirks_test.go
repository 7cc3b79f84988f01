package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// object is a JSON object.
type object = map[string]any

// An issuerQuirk is what a stand-in for an authorization server does otherwise than most do, or what its tokens have.
type issuerQuirk struct {
	path   string                              // of the issuer below its origin
	serve  func(*quirkyIssuer) respond         // responses of its own; nil for none
	claims func(*quirkyIssuer) object          // of the token, beside the usual ones; a nil value removes one
	header object                              // of the token, in the same way
	sign   func(*quirkyIssuer) jose.SigningKey // default: the issuer's first key
	opaque bool                                // the token is opaque, and introspected

	later       bool   // the status comes within seconds
	status      int    // of a request with the token
	result, log string // what the response (its body, or its challenge) and the log of the gateway must have
}

// respond responds to a request, or returns false to leave it to the plain issuer.
type respond func(w http.ResponseWriter, r *http.Request) bool

// A quirkyIssuer is an issuer with one quirk. It publishes its first key.
type quirkyIssuer struct {
	origin, url string
	first, next *ecdsa.PrivateKey
	asked       atomic.Int32 // requests for the keys
}

func newQuirkyIssuer(t *testing.T, q issuerQuirk) *quirkyIssuer {
	t.Helper()
	i := new(quirkyIssuer)
	for _, key := range []**ecdsa.PrivateKey{&i.first, &i.next} {
		var err error
		if *key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	var own respond
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		metadata := "/.well-known/oauth-authorization-server" + strings.TrimSuffix(q.path, "/")
		if r.URL.Path == "/keys" {
			i.asked.Add(1)
		}
		switch {
		case own != nil && own(w, r):
		case r.URL.Path == metadata:
			respondJSON(w, i.metadata())
		case r.URL.Path == "/keys":
			respondJSON(w, object{"keys": []object{i.jwk(i.first)}})
		case r.URL.Path == "/introspect":
			respondJSON(w, i.usual())
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	i.origin, i.url = s.URL, s.URL+q.path
	if q.serve != nil {
		own = q.serve(i)
	}
	return i
}

func respondJSON(w http.ResponseWriter, value any) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	_ = json.NewEncoder(w).Encode(value)
}

func (i *quirkyIssuer) metadata() object {
	return object{"issuer": i.url, "jwks_uri": i.origin + "/keys"}
}

// usual are the claims of a token, and the members of the response of an introspection.
func (i *quirkyIssuer) usual() object {
	return object{"active": true, "iss": i.url, "sub": "ann", "aud": "gateway", "exp": time.Now().Add(time.Hour).Unix()}
}

// jwk is a key as it is published, with changes as with returns them.
func (i *quirkyIssuer) jwk(key *ecdsa.PrivateKey, changes ...any) object {
	encoded, _ := jose.JSONWebKey{Key: key.Public(), KeyID: "k", Use: "sig", Algorithm: "ES256"}.MarshalJSON()
	var jwk object
	_ = json.Unmarshal(encoded, &jwk)
	return with(jwk, changes...)
}

// with returns an object with changes: names and values, where nil removes a member. A duration is the time after which it ends, in seconds with a fraction.
func with(of object, changes ...any) object {
	of = maps.Clone(of)
	for n := 0; n+1 < len(changes); n += 2 {
		value := changes[n+1]
		if d, isTime := value.(time.Duration); isTime {
			value = float64(time.Now().Add(d).UnixMilli()) / 1000
		}
		of[changes[n].(string)] = value
	}
	maps.DeleteFunc(of, func(_ string, value any) bool { return value == nil })
	return of
}

// token returns a token of the issuer.
func (i *quirkyIssuer) token(t *testing.T, q issuerQuirk) string {
	t.Helper()
	if q.opaque {
		return "opaque-token"
	}
	claims := with(i.usual(), "active", nil)
	if q.claims != nil {
		for name, value := range q.claims(i) {
			claims = with(claims, name, value)
		}
	}
	options := &jose.SignerOptions{ExtraHeaders: map[jose.HeaderKey]any{"kid": "k", "typ": "at+jwt"}}
	for name, value := range q.header {
		if options.ExtraHeaders[jose.HeaderKey(name)] = value; value == nil {
			delete(options.ExtraHeaders, jose.HeaderKey(name))
		}
	}
	key := jose.SigningKey{Algorithm: jose.ES256, Key: i.first}
	if q.sign != nil {
		key = q.sign(i)
	}
	signer, err := jose.NewSigner(key, options)
	if err != nil {
		t.Fatal(err)
	}
	payload, _ := json.Marshal(claims)
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

// keysAre publishes other keys.
func keysAre(keys func(i *quirkyIssuer) []object) func(*quirkyIssuer) respond {
	return at("/keys", func(i *quirkyIssuer, w http.ResponseWriter, _ *http.Request) { respondJSON(w, object{"keys": keys(i)}) })
}

// keyHas publishes the issuer's first key with changes.
func keyHas(changes ...any) func(*quirkyIssuer) respond {
	return keysAre(func(i *quirkyIssuer) []object { return []object{i.jwk(i.first, changes...)} })
}

// at responds at one path in another way.
func at(path string, serve func(i *quirkyIssuer, w http.ResponseWriter, r *http.Request)) func(*quirkyIssuer) respond {
	return func(i *quirkyIssuer) respond {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == path {
				serve(i, w, r)
			}
			return r.URL.Path == path
		}
	}
}

// metadataAt serves the metadata at one path only.
func metadataAt(path string) func(*quirkyIssuer) respond {
	return func(i *quirkyIssuer) respond {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == path {
				respondJSON(w, i.metadata())
			} else if strings.Contains(r.URL.Path, "/.well-known/") {
				http.NotFound(w, r)
			}
			return strings.Contains(r.URL.Path, "/.well-known/")
		}
	}
}

// metadataHas serves metadata with changes.
func metadataHas(changes func(i *quirkyIssuer) []any) func(*quirkyIssuer) respond {
	return at(discovery, func(i *quirkyIssuer, w http.ResponseWriter, _ *http.Request) {
		respondJSON(w, with(i.metadata(), changes(i)...))
	})
}

const discovery = "/.well-known/oauth-authorization-server"

// declared responds with a text before the usual response, and with another type.
func declared(path, contentType, before string, value func(i *quirkyIssuer) object) func(*quirkyIssuer) respond {
	return at(path, func(i *quirkyIssuer, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write([]byte(before))
		respondJSON(w, value(i))
	})
}

func (i *quirkyIssuer) keySet() object { return object{"keys": []object{i.jwk(i.first)}} }

// introspected responds to an introspection with changes of the usual members.
func introspected(changes ...any) func(*quirkyIssuer) respond {
	return at("/introspect", func(i *quirkyIssuer, w http.ResponseWriter, _ *http.Request) {
		respondJSON(w, with(i.usual(), changes...))
	})
}

// claim returns claims that do not depend on the issuer.
func claim(name string, value any) func(*quirkyIssuer) object {
	return func(*quirkyIssuer) object { return object{name: value} }
}

func redirectTo(target string) func(*quirkyIssuer) respond {
	return func(i *quirkyIssuer) respond {
		return func(w http.ResponseWriter, r *http.Request) bool {
			switch r.URL.Path {
			case discovery:
				http.Redirect(w, r, strings.Replace(target, "ISSUER", i.origin, 1), http.StatusFound)
			case "/moved":
				respondJSON(w, i.metadata())
			default:
				return false
			}
			return true
		}
	}
}

// manyKeys are keys of which the first one of the issuer is the last.
func manyKeys(i *quirkyIssuer, n int, changes ...any) (keys []object) {
	for range n - 1 {
		other, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		keys = append(keys, i.jwk(other, changes...))
	}
	return append(keys, i.jwk(i.first, changes...))
}

// rotated publishes the next key from the second request on.
func rotated(changes ...any) func(*quirkyIssuer) respond {
	return keysAre(func(i *quirkyIssuer) []object {
		if i.asked.Load() > 1 {
			return []object{i.jwk(i.next, changes...)}
		}
		return []object{i.jwk(i.first, changes...)}
	})
}

func nextKey(i *quirkyIssuer) jose.SigningKey {
	return jose.SigningKey{Algorithm: jose.ES256, Key: i.next}
}

// secretKey signs with the published key as if it was a secret.
func secretKey(i *quirkyIssuer) jose.SigningKey {
	public, _ := json.Marshal(i.jwk(i.first))
	return jose.SigningKey{Algorithm: jose.HS256, Key: public}
}

const (
	ok           = http.StatusOK
	unauthorized = http.StatusUnauthorized
	unavailable  = http.StatusServiceUnavailable
)

// issuerQuirks are the quirks of issuers, with what must come. What is harmless costs nothing. What is unsafe is refused: 401 if the token is at fault, and
// 503 with an entry in the log if the issuer is.
var issuerQuirks = map[string]issuerQuirk{
	// keys
	"certificate-of-no-base64":  {serve: keyHas("x5c", []string{"MIIB!"}), status: ok},
	"certificate-by-thumbprint": {serve: keyHas("x5t", "x", "x5t#S256", 7, "x5u", "no URL"), status: ok},
	"key-without-alg":           {serve: keyHas("alg", nil), status: ok},
	"key-without-use":           {serve: keyHas("use", nil, "key_ops", []string{"verify"}), status: ok},
	"key-of-another-alg":        {serve: keyHas("alg", "ES384"), status: unauthorized, result: "publish"},
	"key-for-encryption":        {serve: keyHas("use", "enc"), status: unavailable, log: "use is not sig"},
	"key-without-kid":           {serve: keyHas("kid", nil), status: ok},
	"token-without-kid":         {header: object{"kid": nil}, status: ok},
	"neither-has-a-kid":         {serve: keyHas("kid", nil), header: object{"kid": nil}, status: ok},
	"other-kid":                 {serve: keyHas("kid", "other"), status: unauthorized, result: "publish"},
	"one-kid-for-several-keys":  {serve: keysAre(func(i *quirkyIssuer) []object { return manyKeys(i, 3) }), status: ok},
	"several-keys-without-kid":  {serve: keysAre(func(i *quirkyIssuer) []object { return manyKeys(i, 8, "kid", nil) }), status: ok},
	"new-key-with-the-old-kid":  {serve: rotated(), sign: nextKey, later: true, status: ok},
	"new-key-without-kid":       {serve: rotated("kid", nil), sign: nextKey, later: true, status: ok},
	"unknown-kinds-of-keys": {serve: keysAre(func(i *quirkyIssuer) []object {
		return []object{{"kty": "AKP", "kid": "a", "alg": "ML-DSA-44", "pub": "AAAA"}, {"kty": "oct", "kid": "b", "k": "AAAA"}, {"kty": "RSA", "kid": "c", "n": "!", "e": "AQAB"}, {}, i.jwk(i.first)}
	}), status: ok, log: "some keys of an issuer"},
	"only-a-secret-key": {serve: keysAre(func(*quirkyIssuer) []object { return []object{{"kty": "oct", "kid": "k", "k": "AAAA"}} }), status: unavailable, log: "no public key"},
	"short-key": {serve: keysAre(func(*quirkyIssuer) []object {
		short, _ := rsa.GenerateKey(rand.Reader, 1024)
		encoded, _ := jose.JSONWebKey{Key: short.Public(), KeyID: "k"}.MarshalJSON()
		var jwk object
		_ = json.Unmarshal(encoded, &jwk)
		return []object{jwk}
	}), status: unavailable, log: "2048"},
	"keys-with-a-mark": {serve: declared("/keys", "application/jwk-set+json; charset=utf-8", "\uFEFF", (*quirkyIssuer).keySet), status: ok},
	"keys-as-text":     {serve: declared("/keys", "text/plain", "", (*quirkyIssuer).keySet), status: ok},
	"keys-as-html":     {serve: declared("/keys", "text/html", "<!doctype html>", (*quirkyIssuer).keySet), status: unavailable, log: "not a JWK set"},
	"slow-keys": {serve: at("/keys", func(i *quirkyIssuer, w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(2 * time.Second):
		}
		respondJSON(w, i.keySet())
	}), status: ok},
	"silent-keys": {serve: at("/keys", func(_ *quirkyIssuer, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), status: unavailable, log: "503"},

	// metadata
	"path-before":          {path: "/tenant", status: ok},
	"path-before-openid":   {path: "/tenant", serve: metadataAt("/.well-known/openid-configuration/tenant"), status: ok},
	"path-after-openid":    {path: "/tenant", serve: metadataAt("/tenant/.well-known/openid-configuration"), status: ok},
	"path-after":           {path: "/tenant", serve: metadataAt("/tenant/.well-known/oauth-authorization-server"), status: ok},
	"slash":                {path: "/tenant/", status: ok},
	"slash-at-the-root":    {path: "/", status: ok},
	"only-openid":          {serve: metadataAt("/.well-known/openid-configuration"), status: ok},
	"slash-in-metadata":    {serve: metadataHas(func(i *quirkyIssuer) []any { return []any{"issuer", i.url + "/"} }), status: unavailable, log: "including slashes"},
	"metadata-of-another":  {serve: metadataHas(func(*quirkyIssuer) []any { return []any{"issuer", "https://other.example"} }), status: unavailable, log: "must be equal"},
	"odd-other-members":    {serve: metadataHas(func(*quirkyIssuer) []any { return []any{"scopes_supported", nil, "token_endpoint", 7, "x", []any{}} }), status: ok},
	"keys-elsewhere-plain": {serve: metadataHas(func(*quirkyIssuer) []any { return []any{"jwks_uri", "http://keys.example/keys"} }), status: unavailable, log: "plain http"},
	"metadata-with-a-mark": {serve: declared(discovery, "text/plain; charset=utf-8", "\uFEFF", (*quirkyIssuer).metadata), status: ok},
	"page-before-openid": {serve: func(i *quirkyIssuer) respond {
		return func(w http.ResponseWriter, r *http.Request) bool {
			switch r.URL.Path {
			case discovery:
				_, _ = w.Write([]byte("<!doctype html>")) // as single-page applications respond to all paths
			case "/.well-known/openid-configuration":
				respondJSON(w, i.metadata())
			default:
				return false
			}
			return true
		}
	}, status: ok},
	"redirect":           {serve: redirectTo("/moved"), status: ok},
	"redirect-elsewhere": {serve: redirectTo("http://127.0.0.1:9/moved"), status: unavailable, log: "redirect"},

	// tokens
	"aud-in-a-list":        {claims: claim("aud", []string{"other", "gateway"}), status: ok},
	"aud-of-another":       {claims: claim("aud", []string{"other"}), status: unauthorized, result: "aud"},
	"no-aud":               {claims: claim("aud", nil), status: unauthorized, result: "aud"},
	"scope-as-text":        {claims: claim("scope", "a b"), status: ok, result: "[a b]"},
	"scope-in-a-list":      {claims: claim("scope", []string{"a", "b"}), status: ok, result: "[a b]"},
	"scp-as-text":          {claims: claim("scp", "a b"), status: ok, result: "[a b]"},
	"scp-in-a-list":        {claims: claim("scp", []string{"a", "b"}), status: ok, result: "[a b]"},
	"exp-with-a-fraction":  {claims: claim("exp", time.Hour), status: ok},
	"exp-as-text":          {claims: claim("exp", "4102444800"), status: unauthorized, result: "exp"},
	"no-exp":               {claims: claim("exp", nil), status: unauthorized, result: "exp"},
	"expired-a-moment-ago": {claims: claim("exp", -5*time.Second), status: ok},
	"expired":              {claims: claim("exp", -time.Hour), status: unauthorized, result: "expired"},
	"clock-ahead": {claims: func(*quirkyIssuer) object {
		return object{"iat": 15 * time.Second, "nbf": 15 * time.Second}
	}, status: ok},
	"clock-far-ahead":     {claims: claim("nbf", time.Hour), status: unauthorized, result: "not valid yet"},
	"iss-with-a-slash":    {claims: func(i *quirkyIssuer) object { return object{"iss": i.url + "/"} }, status: unauthorized, result: "iss"},
	"no-sub":              {claims: func(*quirkyIssuer) object { return object{"sub": nil, "client_id": "cron"} }, status: ok},
	"type-jwt":            {header: object{"typ": "jwt"}, status: ok},
	"no-type":             {header: object{"typ": nil}, status: ok},
	"type-of-an-id-token": {header: object{"typ": "id_token+jwt"}, status: unauthorized, result: "typ"},
	"key-as-secret":       {sign: secretKey, status: unauthorized, result: "alg"},
	"key-of-another":      {sign: nextKey, status: unauthorized, result: "signature"},

	// introspection
	"opaque":              {opaque: true, status: ok},
	"opaque-scopes":       {opaque: true, serve: introspected("scope", []string{"a", "b"}), status: ok, result: "[a b]"},
	"opaque-fraction":     {opaque: true, serve: introspected("exp", time.Hour, "aud", []string{"gateway"}), status: ok},
	"opaque-no-exp":       {opaque: true, serve: introspected("exp", nil, "iss", nil), status: ok},
	"opaque-no-aud":       {opaque: true, serve: introspected("aud", nil), status: unauthorized, result: "aud"},
	"opaque-inactive":     {opaque: true, serve: introspected("active", false), status: unauthorized, result: "not active"},
	"opaque-no-active":    {opaque: true, serve: introspected("active", nil), status: unauthorized, result: "not active"},
	"opaque-active-text":  {opaque: true, serve: introspected("active", "true"), status: unavailable, log: "introspecting"},
	"opaque-refresh":      {opaque: true, serve: introspected("token_type", "refresh_token"), status: unauthorized, result: "refresh_token"},
	"opaque-bearer":       {opaque: true, serve: introspected("token_type", "Bearer", "username", "ann"), status: ok},
	"opaque-id-token":     {opaque: true, serve: introspected("token_use", "id"), status: unauthorized, result: "not an access token"},
	"opaque-of-another":   {opaque: true, serve: introspected("iss", "https://other.example"), status: unauthorized, result: "iss"},
	"opaque-as-text":      {opaque: true, serve: declared("/introspect", "text/plain", "\uFEFF", (*quirkyIssuer).usual), status: ok},
	"opaque-as-html":      {opaque: true, serve: declared("/introspect", "text/html", "<!doctype html>", (*quirkyIssuer).usual), status: unavailable, log: "introspecting"},
	"opaque-unauthorized": {opaque: true, serve: at("/introspect", func(_ *quirkyIssuer, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(unauthorized) }), status: unavailable, log: "introspecting"},
}

// TestIssuers_with_quirks sends a token of each issuer in the table to one gateway.
func TestIssuers_with_quirks(t *testing.T) {
	t.Parallel() // it mostly waits
	site := freeAddress(t)
	issuers := make(map[string]*quirkyIssuer)
	var blocks strings.Builder
	for name, q := range issuerQuirks {
		i := newQuirkyIssuer(t, q)
		issuers[name] = i
		fmt.Fprintf(&blocks, "\tagent_auth /%s {\n\t\tissuer %s\n\t\taudience gateway\n", name, i.url)
		if q.opaque {
			fmt.Fprintf(&blocks, "\t\tintrospection %s/introspect\n", i.origin)
		}
		blocks.WriteString("\t}\n")
	}
	g := startGateway(t, t.TempDir(), site, fmt.Sprintf("{\n\tadmin off\n\tdefault_bind 127.0.0.1\n}\nhttp://%s {\n%s\trespond \"passed [{http.auth.user.scope}]\"\n}\n", site, &blocks))
	for name, q := range issuerQuirks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var a answer
			waitFor(t, waitTimeout, "the response", func() bool {
				a = g.send(t, http.MethodGet, "/"+name, "", nil, map[string]string{"Authorization": "Bearer " + issuers[name].token(t, q)})
				return a.status == q.status || !q.later
			})
			if got := string(a.body) + a.header.Get("Www-Authenticate"); a.status != q.status || !testkit.ContainsAll(got, q.result) {
				t.Errorf("got %d %s, want %d %s", a.status, got, q.status, q.result)
			}
			waitFor(t, waitTimeout, "an entry of the log with "+q.log, func() bool {
				for line := range strings.Lines(g.log.String()) {
					if strings.Contains(line, q.log) && (q.log == "" || strings.Contains(line, issuers[name].url) || strings.Contains(line, "introspecting")) {
						return true
					}
				}
				return false
			})
		})
	}
}
