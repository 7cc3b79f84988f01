package route_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// sharesSite runs a site with a small store, where X-Api-Key says who one is. The API counts the bodies that it gets.
func sharesSite(t *testing.T, limits string, size int) (s *sitetest.Site, count func(body string) int) {
	t.Helper()
	var mu sync.Mutex
	got := make(map[string]int)
	api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		got[string(body)]++
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"note":"`+strings.Repeat("x", size)+`"}`)
	})
	s = sitetest.NewSite(t)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  create-trip: {user_identity: false}
  list-trips: {user_identity: false}
`))
	s.Start("agents {\n\ttoolset trips TRIPS\n\tstore bolt DIR/store.db {\n"+limits+"\n}\n}", sitetest.MetricsRoute+`agent_auth {
	optional
	api_key {
		key ada key-of-ada
		key bob key-of-bob
		key carol key-of-carol
	}
}
otc /otc trips
handle /guarded/* {
	uri strip_prefix /guarded
	oagent DIR/agent.yaml {
		engagement {http.request.header.X-Talk}
	}
	reverse_proxy `+api+`
}
reverse_proxy `+api)
	return s, func(body string) int {
		mu.Lock()
		defer mu.Unlock()
		return got[body]
	}
}

// createAs calls create-trip over OTC.
func createAs(s *sitetest.Site, user, callID string) sitetest.Response {
	s.T.Helper()
	return s.Request(http.MethodPost, "/otc/call", fmt.Sprintf(
		`{"request":{"call_id":%q,"tool_id":"Trips.createTrip","input":{"to":%q}}}`, callID, user+callID),
		"Content-Type", "application/json", "X-Api-Key", "key-of-"+user)
}

// TestShares_a_create_runs_once_while_another_user_floods makes room in the store by the responses of bob, and refuses
// bob before a record of ada is lost.
func TestShares_a_create_runs_once_while_another_user_floods(t *testing.T) {
	for name, c := range map[string]struct {
		limits  string
		size    int
		refused bool
	}{
		"records": {"max_records 300", 10, true},
		"bytes":   {"max_size 512KiB", 20 << 10, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, count := sharesSite(t, c.limits, c.size)
			if a := createAs(s, "ada", "first"); a.Status != 200 || !strings.Contains(a.Body, `"success":true`) {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			refused := 0
			for n := range 400 {
				switch a := createAs(s, "bob", fmt.Sprint(n)); {
				case a.Status == http.StatusTooManyRequests:
					refused++
					if !strings.Contains(a.Body, "share") || a.Header.Get("Retry-After") == "" {
						t.Fatalf("%v %s", a.Header, a.Body)
					}
				case a.Status != 200:
					t.Fatalf("%d %s", a.Status, a.Body)
				}
			}
			if refused > 0 != c.refused {
				t.Errorf("%d calls of bob were refused", refused)
			}
			for n := range 5 {
				if a := createAs(s, "ada", fmt.Sprint(n)); a.Status != 200 || !strings.Contains(a.Body, `"success":true`) {
					t.Errorf("another call of ada: %d %s", a.Status, a.Body)
				}
			}
			if a := createAs(s, "ada", "first"); a.Status != 200 || a.Header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("the repeat of ada: %d %v", a.Status, a.Header)
			}
			first := createAs(s, "bob", "0") // its response was dropped, unless there was room for all
			if c.size > 1000 && (!strings.Contains(first.Body, "already run") || !strings.Contains(first.Body, `"success":false`)) {
				t.Errorf("the repeat of bob: %d %.300s", first.Status, first.Body)
			}
			for body, want := range map[string]int{`{"to":"adafirst"}`: 1, `{"to":"bob0"}`: 1} {
				if n := count(body); n != want {
					t.Errorf("%s ran %d times, want %d", body, n, want)
				}
			}
		})
	}
}

// TestShares_engagements_of_one_user_leave_room_for_others lets bob, and a caller with made-up credentials, fill their
// shares with Engagements.
func TestShares_engagements_of_one_user_leave_room_for_others(t *testing.T) {
	s, _ := sharesSite(t, "max_records 200", 10)
	ask := func(talk string, header ...string) sitetest.Response {
		return s.Request(http.MethodGet, "/guarded/trips", "", append(header, "X-Talk", talk)...)
	}
	refused := 0
	for n := range 250 {
		switch a := ask(fmt.Sprint(n), "X-Api-Key", "key-of-bob"); {
		case a.Status == http.StatusTooManyRequests:
			if refused++; !strings.Contains(a.Body, `"kind":"share"`) || a.Header.Get("Retry-After") == "" {
				t.Fatalf("%v %s", a.Header, a.Body)
			}
		case a.Status != 200:
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	if refused < 50 || refused > 150 {
		t.Errorf("bob was refused %d times", refused)
	}
	for n := range 4 {
		if a := ask(fmt.Sprint(n), "X-Api-Key", "key-of-ada"); a.Status != 200 {
			t.Errorf("ada: %d %s", a.Status, a.Body)
		}
	}
	if a := ask("0", "X-Api-Key", "key-of-bob"); a.Status != 200 {
		t.Errorf("a known Engagement of bob: %d %s", a.Status, a.Body)
	}
	refused = 0
	for n := range 100 {
		if a := ask("t", "Authorization", fmt.Sprint("Bearer made-up-", n)); a.Status == http.StatusTooManyRequests {
			refused++
		}
	}
	if a := ask("new", "X-Api-Key", "key-of-ada"); a.Status != 200 {
		t.Errorf("ada beside unauthenticated callers: %d %s", a.Status, a.Body)
	}
	sitetest.MetricsOf(s).Await(`fairway_limit_max{resource="store records"} 200`)
	if used := sitetest.MetricsOf(s).Value(`fairway_limit_largest_owner_used{resource="store records"}`); used < 140 || used > 155 {
		t.Errorf("the largest owner has %d records", used)
	}
}

func TestShares_warning(t *testing.T) {
	s, _ := sharesSite(t, "max_records 100", 10)
	for n := range 75 {
		createAs(s, "bob", fmt.Sprint(n))
	}
	for n := range 3 {
		createAs(s, "ada", fmt.Sprint(n))
		createAs(s, "carol", fmt.Sprint(n))
	}
	for n := range 30 {
		s.Request(http.MethodGet, "/guarded/trips", "", "X-Talk", fmt.Sprint(n))
	}
	s.Logged("more than 80 % of a limit are in use", `"resource":"store records"`, `"largest_owner":"user bob"`)
}
