package tokenclient

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/fairwayhq/fairway/internal/share"
)

const planted = "plantedtokenplantedtoken"

// endpointAt returns a token endpoint that responds with a status and a body.
func endpointAt(t *testing.T, status int, body string, header ...string) *Endpoint {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return &Endpoint{URL: server.URL + "/token?key=" + planted, ClientID: "gateway", ClientSecret: planted}
}

func TestEndpoint_errors_have_codes_and_nothing_else_of_the_response(t *testing.T) {
	for name, test := range map[string]struct {
		status    int
		body      string
		want      string // part of the text
		temporary bool
	}{
		"invalid_grant":        {400, `{"error":"invalid_grant","error_description":"` + planted + `"}`, "400 invalid_grant", false},
		"Entra":                {400, `{"error":"interaction_required","error_codes":[50076],"claims":"{\"access_token\":{}}"}`, "AADSTS50076", false},
		"a token as the code":  {400, `{"error":"` + strings.ToUpper(planted) + `"}`, "status 400", false},
		"text":                 {500, planted, "status 500", true},
		"overload":             {429, `{}`, "status 429", true},
		"a page":               {200, "<html>" + planted, "not one with a token", true},
		"no token":             {200, `{"token_type":"Bearer","x":"` + planted + `"}`, "not one with a token", true},
		"an error with 200":    {200, `{"error":"invalid_client"}`, "200 invalid_client", false},
		"a large token":        {200, `{"access_token":"` + strings.Repeat(planted, 1000) + `"}`, "longer", true},
		"a large response":     {200, `{"access_token":"` + strings.Repeat(planted, 100_000) + `"}`, "not one with a token", true},
		"a redirect elsewhere": {307, `{}`, "status 307", false},
	} {
		t.Run(name, func(t *testing.T) {
			e := endpointAt(t, test.status, test.body, "Location", "http://127.0.0.1:1/elsewhere")
			_, err := e.Fetch(t.Context(), NewHTTPClient(nil), url.Values{"assertion": {planted}})
			failed, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("error %v", err)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %q, want %q", err, test.want)
			}
			if failed.Temporary() != test.temporary {
				t.Errorf("temporary: %t", failed.Temporary())
			}
			if strings.Contains(strings.ToLower(fmt.Sprintf("%v %+v", err, failed)), planted) {
				t.Errorf("the error has a secret: %+v", failed)
			}
		})
	}
}

// Some servers declare their JSON as plain text, or respond with a form.
func TestEndpoint_reads_tokens_and_errors_of_each_media_type(t *testing.T) {
	for name, test := range map[string]struct{ contentType, body, want string }{
		"JSON as text":            {"text/plain; charset=utf-8", `{"access_token":"t","expires_in":"60"}`, "t"},
		"JSON as a page":          {"text/html", `{"access_token":"t","expires_in":60}`, "t"},
		"JSON as a form":          {"application/x-www-form-urlencoded", `{"access_token":"t"}`, "t"},
		"JSON without type":       {"", `{"access_token":"t"}`, "t"},
		"a form":                  {"application/x-www-form-urlencoded", "access_token=t&expires_in=60", "t"},
		"a form as text":          {"text/plain", "access_token=t&token_type=bearer", "t"},
		"an error in JSON":        {"text/plain", `{"error":"invalid_grant"}`, "invalid_grant"},
		"an error in a form":      {"text/plain", "error=invalid_grant", "invalid_grant"},
		"neither":                 {"text/plain", "planted", "not one with a token"},
		"an empty JSON object":    {"text/plain", "{}", "not one with a token"},
		"a token of another kind": {"application/json", `{"access_token":7}`, "not one with a token"},
	} {
		t.Run(name, func(t *testing.T) {
			e := endpointAt(t, http.StatusOK, test.body, "Content-Type", test.contentType)
			got, err := e.Fetch(t.Context(), NewHTTPClient(nil), url.Values{})
			text := fmt.Sprint(err)
			if got != nil {
				text = got.Value
			}
			if !strings.HasSuffix(text, test.want) {
				t.Errorf("got %s, want %s", text, test.want)
			}
		})
	}
}

func TestEndpoint_errors_of_the_connection_have_no_query(t *testing.T) {
	e := endpointAt(t, 200, "")
	e.URL = "http://127.0.0.1:1/token?key=" + planted
	if _, err := e.Fetch(t.Context(), NewHTTPClient(nil), url.Values{}); err == nil || strings.Contains(err.Error(), planted) {
		t.Errorf("error %v", err)
	}
}

func TestRequest_refuses_tokens_that_are_not_bearer_tokens(t *testing.T) {
	e := endpointAt(t, 200, `{"access_token":"a","token_type":"DPoP"}`)
	if _, err := (&Request{Grant: ClientCredentials, Endpoint: *e}).Fetch(t.Context(), NewHTTPClient(nil)); err == nil || !strings.Contains(err.Error(), "bearer") {
		t.Errorf("error %v", err)
	}
}

// keyFiles returns files with keys and a certificate, with their public keys.
func keyFiles(t *testing.T) (files map[string]string, public map[string]any) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		text := der
		if kind != "" {
			text = pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	small, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gateway"}, NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, large.Public(), large)
	if err != nil {
		t.Fatal(err)
	}
	eight, err := x509.MarshalPKCS8PrivateKey(small)
	if err != nil {
		t.Fatal(err)
	}
	jwk, err := (&jose.JSONWebKey{Key: small, KeyID: "k1"}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"rsa": write("rsa.pem", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(large)), "ec": write("ec.pem", "PRIVATE KEY", eight), "jwk": write("key.json", "", jwk),
		"certificate": write("certificate.pem", "CERTIFICATE", certificate), "text": write("text", "", []byte("secret text")),
	}, map[string]any{"rsa": large.Public(), "ec": small.Public(), "jwk": small.Public(), "certificate": certificate}
}

func TestKey_signs_assertions(t *testing.T) {
	files, public := keyFiles(t)
	for name, test := range map[string]struct {
		key       Key
		verify    string
		algorithm jose.SignatureAlgorithm
		kid       string
	}{
		"PKCS #1":     {Key{File: files["rsa"]}, "rsa", jose.RS256, ""},
		"PKCS #8":     {Key{File: files["ec"], ID: "mine"}, "ec", jose.ES256, "mine"},
		"JWK":         {Key{File: files["jwk"]}, "jwk", jose.ES256, "k1"},
		"certificate": {Key{File: files["rsa"], Certificate: files["certificate"]}, "rsa", jose.PS256, ""},
	} {
		text, err := test.key.Assertion("gateway", "https://login.example.com/token")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		token, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{test.algorithm})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var claims jwt.Claims
		if err := token.Claims(public[test.verify], &claims); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if claims.Issuer != "gateway" || claims.Subject != "gateway" {
			t.Errorf("%s: got the issuer %q and the subject %q, want gateway", name, claims.Issuer, claims.Subject)
		}
		if claims.ID == "" || len(claims.Audience) != 1 {
			t.Errorf("%s: got the id %q and the audience %q, want an id and one audience", name, claims.ID, claims.Audience)
		}
		if left := time.Until(claims.Expiry.Time()); left > 5*time.Minute {
			t.Errorf("%s: got a lifetime of %s, want at most 5m", name, left)
		}
		header := token.Headers[0]
		if header.KeyID != test.kid {
			t.Errorf("%s: kid %q, want %q", name, header.KeyID, test.kid)
		}
		if test.key.Certificate != "" {
			digest := sha256.Sum256(public["certificate"].([]byte))
			if got := header.ExtraHeaders["x5t#S256"]; got != base64.RawURLEncoding.EncodeToString(digest[:]) {
				t.Errorf("x5t#S256 %v", got)
			}
			if header.ExtraHeaders["x5t"] == nil {
				t.Error("no x5t")
			}
		}
	}
	for name, key := range map[string]Key{
		"no file": {File: "missing.pem"}, "no key": {File: files["text"]}, "another key": {File: files["ec"], Certificate: files["certificate"]}, "no key beside the certificate": {Certificate: files["certificate"]},
	} {
		if err := key.Check(); err == nil || strings.Contains(err.Error(), "secret text") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// The assertion is the only authentication, and no request has the assertion of another.
func TestEndpoint_authenticates_by_an_assertion(t *testing.T) {
	files, _ := keyFiles(t)
	seen := make(map[string]bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assertion := r.FormValue("client_assertion")
		if got := r.Header.Get("Authorization"); got != "" || r.PostForm.Has("client_secret") {
			t.Errorf("got the header %q and the form %v, want neither a header nor a secret", got, r.PostForm)
		}
		if id := r.FormValue("client_id"); id != "gateway" || seen[assertion] {
			t.Errorf("got the client %q, want gateway; the assertion was used before: %t, want false", id, seen[assertion])
		}
		seen[assertion] = true
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"access_token":"a"}`))
	}))
	defer server.Close()
	e := Endpoint{URL: server.URL, ClientID: "gateway", Key: &Key{File: files["ec"]}}
	for range 2 {
		if _, err := e.Fetch(t.Context(), NewHTTPClient(nil), url.Values{}); err != nil {
			t.Fatal(err)
		}
	}
}

func getToken(t *testing.T, c *Cache, key CacheKey, owner share.Owner, until time.Time, token Token) string {
	t.Helper()
	token.Until = until
	value, err := c.Get(t.Context(), key, owner, func(context.Context) (*Token, error) { return &token, nil })
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestCache_lifetime_is_the_shortest(t *testing.T) {
	for name, test := range map[string]struct{ expires, until, want time.Duration }{
		"of the token":   {time.Hour, 2 * time.Hour, time.Hour - margin},
		"of the subject": {time.Hour, 10 * time.Minute, 10*time.Minute - margin},
		"unknown":        {0, 0, unknownLifetime - margin},
		"almost over":    {10 * time.Second, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, now := NewCache(), time.Now()
				at := func(d time.Duration) (to time.Time) {
					if d > 0 {
						to = now.Add(d)
					}
					return to
				}
				getToken(t, c, CacheKey{}, "", at(test.until), Token{Value: "first", Expires: at(test.expires)})
				if test.want > 0 {
					time.Sleep(test.want - time.Millisecond)
					if got := getToken(t, c, CacheKey{}, "", time.Time{}, Token{Value: "second"}); got != "first" {
						t.Errorf("%s before the end", got)
					}
					time.Sleep(time.Millisecond)
				}
				if got := getToken(t, c, CacheKey{}, "", time.Time{}, Token{Value: "second"}); got != "second" {
					t.Errorf("%s after the end", got)
				}
			})
		})
	}
}

func TestCache_one_flight_survives_its_first_caller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, release := NewCache(), make(chan struct{})
		var fetches atomic.Int32
		fetch := func(ctx context.Context) (*Token, error) {
			fetches.Add(1)
			<-release
			return &Token{Value: "token"}, ctx.Err()
		}
		first, cancel := context.WithCancel(t.Context())
		var canceled error
		var all sync.WaitGroup
		all.Go(func() { _, canceled = c.Get(first, CacheKey{}, "", fetch) })
		synctest.Wait()
		for range 199 {
			all.Go(func() {
				if value, err := c.Get(t.Context(), CacheKey{}, "", fetch); value != "token" || err != nil {
					t.Errorf("%q, error %v", value, err)
				}
			})
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(release)
		all.Wait()
		if !errors.Is(canceled, context.Canceled) {
			t.Errorf("the canceled caller got the error %v", canceled)
		}
		if n := fetches.Load(); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestCache_drops_the_refused_token_only(t *testing.T) {
	c := NewCache()
	getToken(t, c, CacheKey{}, "", time.Time{}, Token{Value: "first"})
	c.Drop(CacheKey{}, "another")
	if got := getToken(t, c, CacheKey{}, "", time.Time{}, Token{Value: "second"}); got != "first" {
		t.Errorf("%s, although another was refused", got)
	}
	c.Drop(CacheKey{}, "first")
	if got := getToken(t, c, CacheKey{}, "", time.Time{}, Token{Value: "second"}); got != "second" {
		t.Errorf("%s, although it was refused", got)
	}
}

func TestCache_errors_are_not_kept(t *testing.T) {
	c := NewCache()
	if _, err := c.Get(t.Context(), CacheKey{}, "", func(context.Context) (*Token, error) { return nil, errors.New("down") }); err == nil {
		t.Error("no error")
	}
	if got := getToken(t, c, CacheKey{}, "", time.Time{}, Token{Value: "token"}); got != "token" {
		t.Error(got)
	}
}

// A user with many tokens loses his own, and not those of others.
func TestCache_room_is_shared(t *testing.T) {
	c := NewCache()
	large := strings.Repeat("a", maxToken)
	getToken(t, c, KeyOf("ann", [32]byte{}), "user ann", time.Time{}, Token{Value: "ann"})
	for i := range 2 * maxCached / maxToken {
		getToken(t, c, KeyOf(fmt.Sprint(i), [32]byte{}), "user bob", time.Time{}, Token{Value: large})
	}
	if got := getToken(t, c, KeyOf("ann", [32]byte{}), "user ann", time.Time{}, Token{Value: "other"}); got != "ann" {
		t.Errorf("%s: the token of another user was dropped", got)
	}
	if used := c.bound.Usage().Used; used > maxCached || len(c.byKey) != c.oldest.Len() {
		t.Errorf("%d bytes in use, %d and %d entries", used, len(c.byKey), c.oldest.Len())
	}
}

// FuzzEndpoint_failure checks that no response makes an error with its text.
func FuzzEndpoint_failure(f *testing.F) {
	f.Add(400, `{"error":"invalid_grant"}`)
	f.Add(200, `{"access_token":1}`)
	f.Add(302, "")
	f.Fuzz(func(t *testing.T, status int, body string) {
		e := &Endpoint{URL: "https://login.example.com/token", ClientID: "gateway"}
		client := NewHTTPClient(roundTripper(func(*http.Request) (*http.Response, error) {
			r := httptest.NewRecorder()
			r.Code = max(200, status%600)
			r.Body.WriteString(body)
			return r.Result(), nil
		}))
		_, err := e.Fetch(t.Context(), client, url.Values{})
		failed, ok := errors.AsType[*Error](err)
		if err != nil && (!ok || failed.Claims != "" && !json.Valid([]byte(failed.Claims)) || len(err.Error()) > 300) {
			t.Errorf("error %v", err)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
