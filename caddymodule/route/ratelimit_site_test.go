package route_test

import (
	"net/http"
	"strings"
	"testing"

	_ "github.com/mholt/caddy-ratelimit"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/tools"
)

// TestRateLimit_for_each_user_and_tool limits calls as examples/rate-limit does.
func TestRateLimit_for_each_user_and_tool(t *testing.T) {
	s := sitetest.Run(t, "order test_user first\norder rate_limit after otc", `test_user
	mcp /mcp TRIPS
	otc /otc TRIPS
	rate_limit {
		zone tool_calls {
			key {http.auth.user.id}/{http.tool.name}
			window 1h
			events 2
		}
	}
	respond OK`)
	call := func(user, tool, arguments string) sitetest.Result {
		t.Helper()
		r := s.CallRequest(tool, arguments)
		r.Header.Set("X-Test-User", user)
		return s.Result(s.Do(r))
	}
	for range 2 {
		if r := call("ada", "getTrip", `{"id":"1"}`); r.IsError {
			t.Fatalf("within the limit: %s", r.Text())
		}
	}
	limited := call("ada", "getTrip", `{"id":"1"}`)
	if !limited.IsError || !strings.Contains(limited.Text(), "429") || !strings.Contains(limited.Text(), "wait") {
		t.Errorf("over the limit: error %t, %s", limited.IsError, limited.Text())
	}
	if entry := s.AccessLogEntry("/mcp", 3); entry["outcome"] != tools.OutcomeRateLimited || entry["status"] != float64(http.StatusOK) {
		t.Errorf("access log: outcome %v, status %v", entry["outcome"], entry["status"])
	}
	if r := call("ada", "listTrips", ""); r.IsError {
		t.Errorf("another tool of the same user: %s", r.Text())
	}
	if r := call("grace", "getTrip", `{"id":"1"}`); r.IsError {
		t.Errorf("another user: %s", r.Text())
	}
	r, err := http.NewRequest(http.MethodPost, s.URL+"/otc/call", strings.NewReader(`{"request":{"tool_id":"Trips.getTrip","input":{"id":"1"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Test-User", "ada")
	if body := s.Do(r).Body; !strings.Contains(body, `"success":false`) || !strings.Contains(body, `"can_retry":true`) {
		t.Errorf("the same limit over OTC: %s", body)
	}
}
