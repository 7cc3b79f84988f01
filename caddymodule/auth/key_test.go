package auth

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// TestAPIKey_of_many_is_found_as_fast_as_one compares the time with one key and with 20,000 in one run. Comparing keys one
// after the other took more than a thousand times as long.
func TestAPIKey_of_many_is_found_as_fast_as_one(t *testing.T) {
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	fastest := func(keys int) time.Duration {
		a := new(APIKey)
		for n := range keys {
			a.Keys = append(a.Keys, NamedKey{Name: fmt.Sprint("user", n), Secret: fmt.Sprintf("0123456789abcdef-%d", n)})
		}
		if err := a.Provision(ctx); err != nil {
			t.Fatal(err)
		}
		best := time.Hour
		for range 50 {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set(defaultKeyHeader, fmt.Sprintf("0123456789abcdef-%d", keys-1))
			began := time.Now()
			user, ok, err := a.Authenticate(httptest.NewRecorder(), r)
			best = min(best, time.Since(began))
			if want := fmt.Sprint("user", keys-1); user.ID != want || !ok || err != nil {
				t.Fatalf("user %q, %v, want %q", user.ID, err, want)
			}
		}
		return best
	}
	if one, many := fastest(1), fastest(20_000); many > 50*one {
		t.Errorf("a key of 20,000 is found in %s, the only one in %s", many, one)
	}
}
