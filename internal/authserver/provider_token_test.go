package authserver_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/authserver"
)

// delegation is a site whose provider numbers its tokens, another node of it, and the session of a user who has logged in.
type delegation struct {
	s       *site
	other   *authserver.Server
	b       *browser
	tokens  map[string]any
	session string
}

func delegated(t *testing.T, lifetime int) delegation {
	t.Helper()
	var options authserver.Options
	s := newSite(t, func(o *authserver.Options) { options = *o })
	s.idp.rotates, s.idp.lifetime = true, lifetime
	other, err := authserver.New(options)
	if err != nil {
		t.Fatal(err)
	}
	b := s.browser(t)
	_, tokens := b.redeem(b.login(asked()).Get("code"))
	session, _ := b.claims(tokens["access_token"])["sid"].(string)
	if session == "" {
		t.Fatal("the access token names no session")
	}
	return delegation{s, other, b, tokens, session}
}

func TestProviderToken_is_refreshed_only_if_it_expires_soon(t *testing.T) {
	for lifetime, want := range map[int][]string{300: {"access-of-the-provider-1", "access-of-the-provider-1"}, 10: {"access-of-the-provider-2", "access-of-the-provider-3"}} {
		d := delegated(t, lifetime)
		s, other, b, tokens, session := d.s, d.other, d.b, d.tokens, d.session
		for i, node := range []*authserver.Server{s.front, other} {
			token, expires, err := authserver.NewProviderTokens(node).Get(t.Context(), session, false)
			if err != nil || token != want[i] {
				t.Errorf("%d s: got %s, error %v, want %s", lifetime, token, err, want[i])
			}
			if left := time.Until(expires); left <= 0 || left > time.Duration(lifetime)*time.Second {
				t.Errorf("%d s: the token expires in %s, want at most its lifetime", lifetime, left)
			}
		}
		// The client's refresh token is still valid, and the provider's new one is used for it.
		if status, answer := b.refresh(tokens["refresh_token"]); status != http.StatusOK {
			t.Errorf("%d s: the client's refresh: %d %v", lifetime, status, answer)
		}
	}
}

func TestProviderToken_returns_the_ID_token(t *testing.T) {
	d := delegated(t, 300)
	s, session := d.s, d.session
	first, _, err := authserver.NewProviderTokens(s.front).Get(t.Context(), session, true)
	if err != nil || first == "" {
		t.Fatalf("error %v", err)
	}
	s.idp.claims["exp"] = time.Now().Add(-time.Hour).Unix() // does not matter while the stored one is valid
	if second, _, err := authserver.NewProviderTokens(s.front).Get(t.Context(), session, true); err != nil || second != first {
		t.Errorf("the second one differs, error %v", err)
	}
}

// Parallel uses at two nodes, and the client's refresh, make one request each with the newest refresh token of the provider.
func TestProviderToken_has_one_flight_over_all_nodes(t *testing.T) {
	d := delegated(t, 10)
	s, other, b, tokens, session := d.s, d.other, d.b, d.tokens, d.session
	before := s.idp.requests
	s.idp.lifetime, s.idp.held = 300, make(chan struct{})
	var all sync.WaitGroup
	for range 20 {
		for _, node := range []*authserver.Server{s.front, other} {
			all.Go(func() {
				if token, _, err := authserver.NewProviderTokens(node).Get(t.Context(), session, false); err != nil || token != "access-of-the-provider-2" {
					t.Errorf("got %s, error %v", token, err)
				}
			})
		}
	}
	close(s.idp.held)
	all.Wait()
	if n := s.idp.requests - before; n != 1 {
		t.Errorf("%d refreshes at the provider, want 1", n)
	}
	all.Go(func() {
		if status, answer := b.refresh(tokens["refresh_token"]); status != http.StatusOK {
			t.Errorf("the client's refresh: %d %v", status, answer)
		}
	})
	for range 5 {
		all.Go(func() {
			if _, _, err := authserver.NewProviderTokens(other).Get(t.Context(), session, false); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// A caller that leaves does not lose the token that the provider has replaced.
func TestProviderToken_refresh_survives_its_caller(t *testing.T) {
	d := delegated(t, 10)
	s, other, session := d.s, d.other, d.session
	s.idp.lifetime, s.idp.held = 300, make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = authserver.NewProviderTokens(s.front).Get(ctx, session, false)
	}()
	cancel()
	close(s.idp.held)
	<-done
	if _, _, err := authserver.NewProviderTokens(other).Get(t.Context(), session, false); err != nil {
		t.Error(err)
	}
}

func TestProviderToken_failures(t *testing.T) {
	t.Run("the provider is down", func(t *testing.T) {
		d := delegated(t, 10)
		s, session := d.s, d.session
		s.idp.down = true
		if _, _, err := authserver.NewProviderTokens(s.front).Get(t.Context(), session, false); err == nil || errors.Is(err, authserver.ErrEnded) {
			t.Errorf("error %v", err)
		}
		s.idp.down = false
		if _, _, err := authserver.NewProviderTokens(s.front).Get(t.Context(), session, false); err != nil {
			t.Errorf("after the outage: %v", err)
		}
	})
	t.Run("the store is down", func(t *testing.T) {
		d := delegated(t, 10)
		s, session := d.s, d.session
		s.ledger.down = errors.New("down")
		if _, _, err := authserver.NewProviderTokens(s.front).Get(t.Context(), session, false); err == nil || errors.Is(err, authserver.ErrEnded) {
			t.Errorf("error %v", err)
		}
	})
	for name, end := range map[string]func(*site, *browser, map[string]any){
		"the provider ended the login": func(s *site, _ *browser, _ map[string]any) { s.idp.refused = true },
		"the client ended it": func(_ *site, b *browser, tokens map[string]any) {
			b.post("revoke", map[string][]string{"client_id": {"fixed"}, "token": {tokens["refresh_token"].(string)}})
		},
		"the tokens are of another user": func(s *site, _ *browser, _ map[string]any) { s.idp.claims["sub"] = "bob" },
	} {
		t.Run(name, func(t *testing.T) {
			d := delegated(t, 10)
			s, other, b, tokens, session := d.s, d.other, d.b, d.tokens, d.session
			end(s, b, tokens)
			for _, node := range []*authserver.Server{s.front, other} {
				if token, _, err := authserver.NewProviderTokens(node).Get(t.Context(), session, false); !errors.Is(err, authserver.ErrEnded) || token != "" {
					t.Errorf("token %q, error %v", token, err)
				}
			}
			if status, _ := b.refresh(tokens["refresh_token"]); status == http.StatusOK {
				t.Error("the session of the client goes on")
			}
		})
	}
	t.Run("an unknown session", func(t *testing.T) {
		s := delegated(t, 300).s
		if _, _, err := authserver.NewProviderTokens(s.front).Get(t.Context(), "unknown", false); !errors.Is(err, authserver.ErrEnded) {
			t.Errorf("error %v", err)
		}
	})
}
