package verify

import (
	"crypto/elliptic"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/fairwayhq/fairway/internal/oauth"
	"github.com/fairwayhq/fairway/internal/testkit"
)

// TestRotation wants a token with a new key to be accepted at once, and those of
// a key that is gone no more, though they were remembered.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAuthServer(t)
		v := s.verifier(t, nil)
		old := s.token(t, goodClaims())
		if _, err := v.Verify(t.Context(), old, testAudience); err != nil {
			t.Fatal(err)
		}
		time.Sleep(defaultMinRefetch)
		key := ecKey(t, elliptic.P256())
		s.replace("new", key)
		fresh := sign(t, "ES256", key, map[string]any{"kid": "new"}, goodClaims())
		if _, err := v.Verify(t.Context(), fresh, testAudience); err != nil {
			t.Fatal(err)
		}
		_, err := v.Verify(t.Context(), old, testAudience)
		wantError(t, err, oauth.InvalidToken, "publish")
	})
}

// TestNoStorm sends a hundred tokens with keys that do not exist, at once and one
// after the other.
func TestNoStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAuthServer(t)
		v := s.verifier(t, nil)
		good := s.token(t, goodClaims())
		if _, err := v.Verify(t.Context(), good, testAudience); err != nil {
			t.Fatal(err)
		}
		bad := func(i int) string {
			return sign(t, "RS256", rsaKey(), map[string]any{"kid": "none" + string(rune('0'+i%10))}, with(goodClaims(), "jti", i))
		}
		time.Sleep(defaultMinRefetch)
		var all sync.WaitGroup
		for i := range 50 {
			token := bad(i)
			all.Go(func() {
				if _, err := v.Verify(t.Context(), token, testAudience); err == nil {
					t.Error("accepted")
				}
			})
		}
		all.Wait()
		for i := range 50 {
			if _, err := v.Verify(t.Context(), bad(i), testAudience); err == nil {
				t.Error("accepted")
			}
		}
		if metas, sets := s.counts(); metas != 2 || sets != 2 {
			t.Errorf("%d fetches of metadata and %d of keys, want 2 of each: at start, and for the first bad kid", metas, sets)
		}
		if _, err := v.Verify(t.Context(), good, testAudience); err != nil {
			t.Error(err)
		}
	})
}

// TestDown_at_start wants tokens to be neither accepted nor refused, with a time to
// try again, and the server to be asked less and less often.
func TestDown_at_start(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAuthServer(t)
		s.behave(down)
		var failures atomic.Int32
		v := s.verifier(t, func(o *Options) {
			o.Observer.Failed = func(issuer string, err error, haveKeys bool) {
				failures.Add(1)
				if issuer != testIssuer || haveKeys || !strings.Contains(err.Error(), errDown.Error()) {
					t.Errorf("got %s, %v, %t", issuer, err, haveKeys)
				}
			}
		})
		token := s.token(t, with(goodClaims(), "exp", time.Now().Add(5*time.Hour).Unix()))
		for range 100 {
			_, err := v.Verify(t.Context(), token, testAudience)
			if refusal := wantError(t, err, oauth.Unavailable, "again"); refusal.RetryAfter < time.Second || refusal.RetryAfter > lastRetry {
				t.Errorf("retry after %s", refusal.RetryAfter)
			}
		}
		if n := failures.Load(); n != 1 {
			t.Errorf("%d fetches for 100 tokens", n)
		}
		time.Sleep(time.Hour)
		if n := failures.Load(); n < 55 || n > 70 {
			t.Errorf("%d fetches in an hour", n)
		}
		s.behave(nil)
		time.Sleep(lastRetry + time.Second)
		if _, err := v.Verify(t.Context(), token, testAudience); err != nil {
			t.Error("not good after the server came back:", err)
		}
	})
}

// TestDownLater wants the last keys to be good for as long as is promised.
func TestDownLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAuthServer(t)
		v := s.verifier(t, func(o *Options) { o.Algorithms = []string{"RS256"} })
		token := s.token(t, with(goodClaims(), "exp", time.Now().Add(100*24*time.Hour).Unix()))
		if _, err := v.Verify(t.Context(), token, testAudience); err != nil {
			t.Fatal(err)
		}
		s.behave(down)
		time.Sleep(DefaultMaxStale - time.Minute)
		if _, err := v.Verify(t.Context(), token, testAudience); err != nil {
			t.Error("not good while the server is down:", err)
		}
		unknown := sign(t, "RS256", rsaKey(), map[string]any{"kid": "x"}, goodClaims())
		if _, err := v.Verify(t.Context(), unknown, testAudience); err == nil {
			t.Error("accepted an unknown key")
		}
		time.Sleep(5 * time.Minute)
		_, err := v.Verify(t.Context(), token, testAudience)
		wantError(t, err, oauth.Unavailable, "")
		s.behave(nil)
		time.Sleep(lastRetry + time.Second)
		if _, err := v.Verify(t.Context(), token, testAudience); err != nil {
			t.Error(err)
		}
	})
}

// TestRefresh wants keys to be fetched before a caller waits for them, as often as
// their server says within bounds.
func TestRefresh(t *testing.T) {
	for rule, test := range map[string]struct {
		maxAge string
		want   int // fetches in six hours after the first
	}{
		"unsaid":     {"", 6},
		"half hour":  {"1800", 12},
		"too short":  {"1", 72},
		"too long":   {"99999999", 0},
		"nonsense":   {"soon", 6},
		"must be no": {"0", 6},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAuthServer(t)
				s.maxAge = test.maxAge
				v := s.verifier(t, nil)
				v.Warm()
				v.Warm()
				synctest.Wait()
				time.Sleep(6*time.Hour + time.Second)
				synctest.Wait()
				if _, sets := s.counts(); sets-1 != test.want {
					t.Errorf("%d fetches, want %d", sets-1, test.want)
				}
			})
		})
	}
}

// TestExpiry_of_remembered wants a token that was accepted to end all the same.
func TestExpiry_of_remembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAuthServer(t)
		v := s.verifier(t, nil)
		token := s.token(t, with(goodClaims(), "exp", time.Now().Add(time.Minute).Unix()))
		if _, err := v.Verify(t.Context(), token, testAudience); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute + defaultLeeway)
		_, err := v.Verify(t.Context(), token, testAudience)
		wantError(t, err, oauth.InvalidToken, "expired")
		if n := len(v.verified.recent); n != 0 {
			t.Errorf("%d tokens are remembered", n)
		}
	})
}

// TestBadServers has what a server may answer instead of metadata and keys.
func TestBadServers(t *testing.T) {
	huge := strings.Repeat("x", maxDocument+1)
	on := func(path string, answer func(*http.Request) (*http.Response, error)) func(*http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) {
			if strings.HasPrefix(r.URL.Path, path) {
				return answer(r)
			}
			return nil, nil
		}
	}
	says := func(status int, body string) func(*http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) { return reply(r, status, body), nil }
	}
	redirects := func(to string) func(*http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) {
			response := reply(r, 302, "")
			response.Header.Set("Location", to)
			return response, nil
		}
	}
	slow := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	for rule, test := range map[string]struct {
		answer func(*http.Request) (*http.Response, error)
		want   string
	}{
		"down":                      {down, errDown.Error()},
		"slow":                      {slow, "within 5s"},
		"metadata/404":              {on("/.well", says(404, "")), "404"},
		"metadata/garbage":          {on("/.well", says(200, "<html>")), "not metadata"},
		"metadata/huge":             {on("/.well", says(200, huge)), "larger than"},
		"metadata/of another":       {on("/.well", says(200, `{"issuer":"https://evil.test","jwks_uri":"https://evil.test/"}`)), "metadata issuer"},
		"metadata/of none":          {on("/.well", says(200, `{"jwks_uri":"https://keys.test/jwks"}`)), "metadata issuer"},
		"metadata/no jwks_uri":      {on("/.well", says(200, `{"issuer":"`+testIssuer+`"}`)), "jwks_uri"},
		"metadata/plain jwks_uri":   {on("/.well", says(200, `{"issuer":"`+testIssuer+`","jwks_uri":"http://keys.test/"}`)), "plain http"},
		"metadata/to another host":  {on("/.well", redirects("https://evil.test/")), "another host"},
		"metadata/to another port":  {on("/.well", redirects("https://auth.test:444/")), "another host"},
		"metadata/to plain http":    {on("/.well", redirects("http://auth.test/")), "another scheme"},
		"metadata/round and round":  {on("/.well", redirects("/.well-known/x")), "more than 3 redirects"},
		"keys/500":                  {on("/jwks", says(500, "")), "500"},
		"keys/garbage":              {on("/jwks", says(200, "{")), "not JWK set"},
		"keys/huge":                 {on("/jwks", says(200, huge)), "larger than"},
		"keys/to another host":      {on("/jwks", redirects("https://evil.test/jwks")), "another host"},
		"keys/symmetric ones alone": {on("/jwks", says(200, `{"keys":[{"kty":"oct","k":"AAAA","kid":"rsa","alg":"RS256"}]}`)), "no public key"},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAuthServer(t)
				s.behave(test.answer)
				failures := make(chan error, 100)
				v := s.verifier(t, func(o *Options) {
					o.Observer.Failed = func(_ string, err error, _ bool) { failures <- err }
				})
				_, err := v.Verify(t.Context(), s.token(t, goodClaims()), testAudience)
				wantError(t, err, oauth.Unavailable, "")
				if err := <-failures; !testkit.ContainsAll(err.Error(), test.want) {
					t.Errorf("got %v, want %q", err, test.want)
				}
			})
		})
	}
}

// TestWaitEnds wants a caller not to wait for a slow issuer for ever, nor longer
// than it wants to.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAuthServer(t)
		s.behave(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		v := s.verifier(t, func(o *Options) { o.MaxWait = 2 * time.Second })
		token := s.token(t, goodClaims())
		start := time.Now()
		_, err := v.Verify(t.Context(), token, testAudience)
		wantError(t, err, oauth.Unavailable, "")
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("waited %s", took)
		}
		v.Close()
		start = time.Now()
		_, err = v.Verify(t.Context(), token, testAudience)
		wantError(t, err, oauth.Unavailable, "")
		if took := time.Since(start); took != 0 {
			t.Errorf("waited %s after Close", took)
		}
	})
}

// TestClose is failed by synctest if a goroutine is left. It closes in the middle
// of a fetch, twice, and before anything began.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAuthServer(t)
		s.behave(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		v := s.verifier(t, nil)
		v.Warm()
		synctest.Wait()
		v.Close()
		v.Close()
		unused := s.verifier(t, nil)
		unused.Close()
		unused.Warm()
		_, err := unused.Verify(t.Context(), s.token(t, goodClaims()), testAudience)
		wantError(t, err, oauth.Unavailable, "")
	})
}

// TestDiscovery serves metadata at each of the places, over a real connection.
func TestDiscovery(t *testing.T) {
	for rule, test := range map[string]struct{ path, well string }{
		"RFC 8414":              {"", "/.well-known/oauth-authorization-server"},
		"RFC 8414/slash":        {"/", "/.well-known/oauth-authorization-server"},
		"RFC 8414/path":         {"/a/b", "/.well-known/oauth-authorization-server/a/b"},
		"OpenID":                {"", "/.well-known/openid-configuration"},
		"OpenID/path inserted":  {"/a/b", "/.well-known/openid-configuration/a/b"},
		"OpenID/path in front":  {"/a/b", "/a/b/.well-known/openid-configuration"},
		"OpenID/slash in front": {"/a/", "/a/.well-known/openid-configuration"},
	} {
		t.Run(rule, func(t *testing.T) {
			s := newAuthServer(t)
			var issuer string
			mux := http.NewServeMux()
			mux.HandleFunc("GET "+test.well, func(w http.ResponseWriter, r *http.Request) {
				_ = json.NewEncoder(w).Encode(map[string]any{"issuer": issuer, "jwks_uri": "http://" + r.Host + "/keys"})
			})
			mux.HandleFunc("GET /keys", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/moved", http.StatusFound) })
			mux.HandleFunc("GET /moved", func(w http.ResponseWriter, _ *http.Request) {
				_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: s.keys})
			})
			server := httptest.NewServer(mux)
			defer server.Close()
			issuer = server.URL + test.path
			v, err := New(Options{Issuers: []Issuer{{URL: issuer}}})
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			if _, err := v.Verify(t.Context(), s.token(t, with(goodClaims(), "iss", issuer)), testAudience); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestKeyFile wants a file to be read again when an unknown key comes.
func TestKeyFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAuthServer(t)
		path := filepath.Join(t.TempDir(), "keys.json")
		write := func() {
			document, _ := json.Marshal(jose.JSONWebKeySet{Keys: s.keys})
			if err := os.WriteFile(path, document, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write()
		s.behave(func(*http.Request) (*http.Response, error) { return nil, errors.New("must not be asked") })
		v := s.verifier(t, func(o *Options) { o.Issuers = []Issuer{{URL: testIssuer, JWKS: path}} })
		if _, err := v.Verify(t.Context(), s.token(t, goodClaims()), testAudience); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		key := edKey(t)
		s.replace("new", key)
		write()
		time.Sleep(defaultMinRefetch)
		if _, err := v.Verify(t.Context(), sign(t, "EdDSA", key, map[string]any{"kid": "new"}, goodClaims()), testAudience); err != nil {
			t.Error(err)
		}
	})
}
