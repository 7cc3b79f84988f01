package otc_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestOTC_advice wants the message, can_retry and the prompt of a call that failed
// on its way to the API, or back, to say one thing for each method.
func TestOTC_advice(t *testing.T) {
	release := make(chan struct{})
	api := sitetest.NewAPI(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Fails") == "hangs":
			select {
			case <-r.Context().Done():
			case <-release:
			}
		case r.Header.Get("X-Fails") == "garbled":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte("this is not gzip"))
		}
	})
	t.Cleanup(func() { close(release) })
	down := httptest.NewServer(nil)
	down.Close()
	at := func(a string) string { return strings.TrimPrefix(a, "http://") }
	for _, c := range []struct {
		rule, block, message string
		again                bool // may be said of what is idempotent
	}{
		{"down", "reverse_proxy " + at(down.URL), "502", true},
		{"unavailable", "error 503", "503", true},
		{"no answer in time", "error 504", "504", true},
		{"hangs", "reverse_proxy " + at(api.URL) + " {\n header_up X-Fails hangs\n }", "100ms", true},
		{"garbled", "reverse_proxy " + at(api.URL) + " {\n header_up X-Fails garbled\n }", "corrupt", false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := sitetest.NewSite(t)
			timeout := "30s"
			if c.rule == "hangs" {
				timeout = "100ms"
			}
			s.Start("", "otc /otc TRIPS {\n timeout "+timeout+"\n }\n"+c.block)
			for tool, harmless := range map[string]bool{"listTrips": true, "deleteTrip": true, "createTrip": false} {
				input := "{}"
				if tool == "deleteTrip" {
					input = `{"id":"1"}`
				}
				said := parsed(t, s.OTC(tool, input)).(map[string]any)["output"].(map[string]any)["error"].(map[string]any)
				message, _ := said["message"].(string)
				prompt, _ := said["additional_prompt_content"].(string)
				again := harmless && c.again
				if said["can_retry"] != again || strings.Contains(message, "try again") != again || strings.Contains(prompt, "same input") != again {
					t.Errorf("%s contradicts itself: %v", tool, said)
				}
				if !testkit.ContainsAll(message, c.message) || prompt == "" {
					t.Errorf("%s: %v", tool, said)
				}
			}
		})
	}
}
