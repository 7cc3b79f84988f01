package verify

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairwayhq/fairway/internal/oauth"
)

// introspected returns a Verifier whose introspection endpoint responds with what answer returns.
func introspected(t *testing.T, answer func(token string) (status int, body string)) (*Verifier, *atomic.Int32) {
	t.Helper()
	s, calls := newAuthServer(t), new(atomic.Int32)
	s.behave(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path != "/introspect" {
			return nil, nil
		}
		calls.Add(1)
		id, secret, _ := r.BasicAuth()
		if id != "gate%3Away" || secret != "s%26cret" || r.Method != http.MethodPost || r.URL.RawQuery != "" {
			return reply(r, 401, ""), nil
		}
		status, body := answer(r.PostFormValue("token"))
		return reply(r, status, body), nil
	})
	return s.verifier(t, func(o *Options) {
		o.Introspection = &Introspection{URL: "https://auth.test/introspect", ClientID: "gate:way", ClientSecret: "s&cret"}
	}), calls
}

// active returns the response for an active token.
func active(changes ...any) string {
	body, _ := json.Marshal(with(with(goodClaims(), "active", true), changes...))
	return string(body)
}

// TestIntrospection_accepts_and_rejects has the responses of endpoints.
func TestIntrospection_accepts_and_rejects(t *testing.T) {
	for rule, test := range map[string]struct {
		status int
		body   string
		code   oauth.Code // "" if the token is accepted
		word   string
	}{
		"active":           {200, active(), "", ""},
		"no iss":           {200, active("iss", nil), "", ""},
		"no exp":           {200, active("exp", nil), "", ""},
		"inactive":         {200, `{"active":false}`, oauth.InvalidToken, "active"},
		"no active":        {200, active("active", nil), oauth.InvalidToken, "active"},
		"active as text":   {200, active("active", "true"), oauth.Unavailable, ""},
		"other iss":        {200, active("iss", "https://evil.test"), oauth.InvalidToken, "iss"},
		"other aud":        {200, active("aud", "https://evil.test"), oauth.InvalidToken, "aud"},
		"no aud":           {200, active("aud", nil), oauth.InvalidToken, "aud"},
		"expired":          {200, active("exp", 1), oauth.InvalidToken, "expired"},
		"no user":          {200, active("sub", nil, "client_id", nil), oauth.InvalidToken, "sub"},
		"bearer":           {200, active("token_type", "Bearer", "typ", "Bearer", "token_use", "access_token"), "", ""},
		"another type":     {200, active("token_type", "urn:vendor:validated_token"), "", ""},
		"refresh token":    {200, active("token_type", "refresh_token"), oauth.InvalidToken, "access token"},
		"as a URN":         {200, active("token_type", "urn:ietf:params:oauth:token-type:refresh_token"), oauth.InvalidToken, "access token"},
		"ID token":         {200, active("token_type", "Bearer", "token_use", "id"), oauth.InvalidToken, "access token"},
		"Keycloak refresh": {200, active("token_type", "Bearer", "typ", "Refresh"), oauth.InvalidToken, "access token"},
		"not JSON":         {200, `active`, oauth.Unavailable, ""},
		"duplicate member": {200, `{"active":false,"active":true}`, oauth.Unavailable, ""},
		"too large":        {200, active("x", strings.Repeat("x", 1<<20)), oauth.Unavailable, ""},
		"not found":        {404, active(), oauth.Unavailable, ""},
		"error":            {500, ``, oauth.Unavailable, ""},
	} {
		t.Run(rule, func(t *testing.T) {
			v, _ := introspected(t, func(string) (int, string) { return test.status, test.body })
			token, err := v.Verify(t.Context(), "opaque", testAudience)
			if test.code != "" {
				wantError(t, err, test.code, test.word)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if token.Subject != "ada" || token.Issuer != testIssuer {
				t.Errorf("got %+v", token)
			}
		})
	}
}

// TestIntrospection_is_not_used_for_JWTs verifies a signed token by its signature alone.
func TestIntrospection_is_not_used_for_JWTs(t *testing.T) {
	s := newAuthServer(t)
	s.behave(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/introspect" {
			t.Error("a JWT was sent to the endpoint")
		}
		return nil, nil
	})
	v := s.verifier(t, func(o *Options) { o.Introspection = &Introspection{URL: "https://auth.test/introspect"} })
	if _, err := v.Verify(t.Context(), s.token(t, goodClaims()), testAudience); err != nil {
		t.Error(err)
	}
	_, err := v.Verify(t.Context(), s.token(t, with(goodClaims(), "iss", "https://evil.test")), testAudience)
	wantError(t, err, oauth.InvalidToken, "iss")
}

// TestIntrospection_keeps_responses for a minute, but not after the end of the token. Inactive tokens are
// asked about again sooner.
func TestIntrospection_keeps_responses(t *testing.T) {
	for rule, test := range map[string]struct {
		body  func() string
		after time.Duration
		calls int32
	}{
		"active":           {func() string { return active() }, keepActive - time.Second, 1},
		"active/later":     {func() string { return active() }, keepActive + time.Second, 2},
		"end of the token": {func() string { return active("exp", time.Now().Add(5*time.Second).Unix()) }, 5*time.Second + defaultLeeway, 2},
		"inactive":         {func() string { return `{"active":false}` }, keepInactive - time.Second, 1},
		"inactive/later":   {func() string { return `{"active":false}` }, keepInactive + time.Second, 2},
		"failure":          {func() string { return `` }, 0, 2},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, calls := introspected(t, func(string) (int, string) { return 200, test.body() })
				_, _ = v.Verify(t.Context(), "opaque", testAudience)
				time.Sleep(test.after)
				_, _ = v.Verify(t.Context(), "opaque", testAudience)
				if got := calls.Load(); got != test.calls {
					t.Errorf("%d requests, want %d", got, test.calls)
				}
				v.Close()
			})
		})
	}
}

// TestIntrospection_shares_a_request lets callers with the same token wait for one request, also if the
// first of them gives up.
func TestIntrospection_shares_a_request(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		v, calls := introspected(t, func(string) (int, string) {
			<-release
			return 200, active()
		})
		first, giveUp := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		wait.Go(func() {
			_, err := v.Verify(first, "opaque", testAudience)
			wantError(t, err, oauth.Unavailable, "")
		})
		synctest.Wait()
		for range 20 {
			wait.Go(func() {
				if _, err := v.Verify(t.Context(), "opaque", testAudience); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		giveUp()
		synctest.Wait()
		close(release)
		wait.Wait()
		if got := calls.Load(); got != 1 {
			t.Errorf("%d requests, want 1", got)
		}
		v.Close()
	})
}

// TestIntrospection_flood_leaves_room_for_other_networks sends invented tokens from one network, more than there are slots.
func TestIntrospection_flood_leaves_room_for_other_networks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var most, now atomic.Int32
		v, _ := introspected(t, func(token string) (int, string) {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer now.Add(-1)
			if token == "good" {
				return 200, active()
			}
			time.Sleep(5 * time.Second) // of the bubble: the endpoint is slow
			return 200, `{"active":false}`
		})
		var wait sync.WaitGroup
		for n := range 3 * maxIntrospections {
			wait.Go(func() { _, _ = v.VerifyFrom(t.Context(), "192.0.2.1", "bogus"+strconv.Itoa(n), testAudience) })
		}
		synctest.Wait()
		began := time.Now()
		if _, err := v.VerifyFrom(t.Context(), "198.51.100.1", "good", testAudience); err != nil || time.Since(began) != 0 {
			t.Errorf("another network: %v after %s, want an accepted token at once", err, time.Since(began))
		}
		_, err := v.VerifyFrom(t.Context(), "192.0.2.1", "one more", testAudience)
		wantError(t, err, oauth.Unavailable, "")
		if waited := time.Since(began); waited != introspectionWait {
			t.Errorf("a token of the network that floods was refused after %s, want %s", waited, introspectionWait)
		}
		wait.Wait()
		if n := most.Load(); n > maxIntrospections {
			t.Errorf("%d requests at a time, more than %d", n, maxIntrospections)
		}
		v.Close()
	})
}

// TestIntrospection_waits_for_a_slot checks more tokens of one network than it has slots for, none of which waits too long.
func TestIntrospection_waits_for_a_slot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, calls := introspected(t, func(string) (int, string) {
			time.Sleep(200 * time.Millisecond) // of the bubble
			return 200, active()
		})
		const tokens = 2 * maxIntrospections
		var wait sync.WaitGroup
		for n := range tokens {
			wait.Go(func() {
				if _, err := v.VerifyFrom(t.Context(), "192.0.2.1", "good"+strconv.Itoa(n), testAudience); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if n := calls.Load(); n != tokens {
			t.Errorf("%d requests, want %d", n, tokens)
		}
		v.Close()
	})
}

// TestIntrospection_options rejects addresses to which tokens must not be sent, and unknown issuers.
func TestIntrospection_options(t *testing.T) {
	for rule, test := range map[string]struct {
		issuers []Issuer
		of      Introspection
		word    string
	}{
		"plain http":      {[]Issuer{{URL: testIssuer}}, Introspection{URL: "http://auth.test/introspect"}, "https"},
		"other issuer":    {[]Issuer{{URL: testIssuer}}, Introspection{URL: "https://auth.test/introspect", Issuer: "https://evil.test"}, "issuer"},
		"several issuers": {[]Issuer{{URL: testIssuer}, {URL: "https://other.test"}}, Introspection{URL: "https://auth.test/introspect"}, "issuer"},
	} {
		t.Run(rule, func(t *testing.T) {
			if _, err := New(Options{Issuers: test.issuers, Introspection: &test.of}); err == nil || !strings.Contains(err.Error(), test.word) {
				t.Errorf("got %v, want an error with %q", err, test.word)
			}
		})
	}
}
