package caddymodule_test

import (
	"os"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestReadme_example_with_a_credential_is_closed runs the README's example of a toolset
// with a credential, and calls every way to the API without a token.
func TestReadme_example_with_a_credential_is_closed(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(readme), "## What there is\n\n```caddyfile\n{\n")
	example, _, _ = strings.Cut(example, "\n}\n```")
	global, block, found := strings.Cut(example, "\n}\n\napi.example.com {\n")
	if !found || !strings.Contains(global, "credential") {
		t.Fatalf("the README has no such example: %s", example)
	}
	s := sitetest.NewSite(t)
	global = strings.NewReplacer("openapi.yaml", "TRIPS", "{env.REDIS_URL}", "redis://127.0.0.1:1").Replace(global)
	s.Start(global, strings.ReplaceAll(block, "legacy:8080", "127.0.0.1:1"))
	for _, answer := range []sitetest.Response{
		s.Do(s.CallRequest("getTrip", `{"id":"1"}`)), s.OTCCall("getTrip", `{"id":"1"}`),
		s.Get("/otc/tools"), s.Get("/mcp"), s.Get("/mcp/sse"), s.Get("/trips/1"),
	} {
		if answer.Status != 401 {
			t.Errorf("open: %d %s", answer.Status, answer.Body)
		}
	}
	sitetest.WantOpen(t, s, "", nil)
}
