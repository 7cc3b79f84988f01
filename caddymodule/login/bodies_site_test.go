package login_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestLogin_bodies_of_unauthenticated_clients_count sends a body that there is no memory for.
func TestLogin_bodies_of_unauthenticated_clients_count(t *testing.T) {
	s := sitetest.NewSite(t)
	p := sitetest.NewProvider(t, s)
	s.Start("agents {\nstore bolt DIR/store.db\nmax_bodies 32KiB\n}", p.AgentLogin("")+"respond 404")
	for _, path := range []string{"/login/token", "/login/register"} {
		for size, refused := range map[int]bool{1000: false, 60_000: true} {
			a := s.Request(http.MethodPost, path, strings.Repeat("x", size), "Content-Type", "application/json")
			if got := a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != ""; got != refused || a.Status == http.StatusNotFound {
				t.Errorf("%s with %d bytes: %d %v, want refused: %t", path, size, a.Status, a.Header, refused)
			}
		}
	}
}
