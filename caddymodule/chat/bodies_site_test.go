package chat_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestChat_bodies_count sends a request that there is no memory for, after a reload has lowered the limit.
func TestChat_bodies_count(t *testing.T) {
	s := sitetest.Chatting(t, sitetest.Guardrailed, "")
	for name, shape := range sitetest.Shapes {
		s.SaysText("application/json", fmt.Sprintf(shape.Say, "fine"))
		if a := s.Ask(shape.Path, fmt.Sprintf(shape.Ask, strings.Repeat("x", 60_000))); a.Status != http.StatusOK {
			t.Fatalf("%s with the default limit: %d %s", name, a.Status, a.Body)
		}
	}
	if err := s.Load("agents {\n\tstore bolt DIR/store.db\n\tmax_bodies 32KiB\n\ttoolset checks {\n\t\topenapi DIR/checks.yaml\n\t\tcredential header X-Checker-Key k1\n\t}\n}",
		"oagent DIR/agent.yaml {\n\tchat\n}\nreverse_proxy "+strings.TrimPrefix(s.Model.URL, "http://")); err != nil {
		t.Fatal(err)
	}
	for name, shape := range sitetest.Shapes {
		if a := s.Ask(shape.Path, fmt.Sprintf(shape.Ask, strings.Repeat("x", 60_000))); a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %v %s", name, a.Status, a.Header, a.Body)
		}
	}
}
