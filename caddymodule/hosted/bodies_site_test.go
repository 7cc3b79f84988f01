package hosted_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestRun_input_counts_as_a_body sends inputs that there is memory for, and one that there is none for.
func TestRun_input_counts_as_a_body(t *testing.T) {
	s := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", "\n  list-trips: {user_identity: false}\n"), sitetest.Play(modelserver.Step{Text: "On time."}))
	s.Start("agents {\n\tstore bolt DIR/store.db\n\tmax_bodies 32KiB\n}", s.Block(""))
	for size, status := range map[int]int{1000: http.StatusOK, 60_000: http.StatusServiceUnavailable} {
		a := s.Request(http.MethodPost, "/agents/desk", fmt.Sprintf(`{"input":%q}`, strings.Repeat("x", size)), "Content-Type", "application/json", "X-Test-User", "ann")
		if a.Status != status || (status == http.StatusServiceUnavailable) != (a.Header.Get("Retry-After") != "") {
			t.Errorf("%d bytes: %d %v %s, want %d", size, a.Status, a.Header, a.Body, status)
		}
	}
}
