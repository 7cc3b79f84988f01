package hosted_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// listed is a page of the list of Engagements.
type listed struct {
	Engagements []struct {
		ID     string `json:"engagement_id"`
		Agent  string `json:"oagent"`
		Title  string
		Status string
		User   struct{ ID string }
	}
	Next string
}

func list(s *sitetest.HostedSite, user, query string) listed {
	s.T.Helper()
	a := s.As(user, "GET", "/engagements"+query, "")
	if a.Status != http.StatusOK {
		s.T.Fatalf("list of %s: %d %s", user, a.Status, a.Body)
	}
	return sitetest.Decode[listed](s.T, a)
}

func (l listed) titles() (titles []string) {
	for _, e := range l.Engagements {
		titles = append(titles, e.Title)
	}
	slices.Sort(titles)
	return titles
}

// say goes on with an Engagement, and waits for the answer.
func say(s *sitetest.HostedSite, user, location, input string) sitetest.RunView {
	s.T.Helper()
	return s.View(s.As(user, "POST", location, fmt.Sprintf(`{"input":%q}`, input), "Prefer", "wait=60"))
}

func TestConversation_over_HTTP(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", "\n  get-trip: {}\n"), "auditors eve", sitetest.Play(
		sitetest.Calls("get-trip", `{"id":"7"}`), modelserver.Step{Text: "At 9."}, sitetest.Calls("get-trip", `{"id":"8"}`), modelserver.Step{Text: "At 10."}))
	location := s.Begin("ann", "desk", "When does trip 7 leave?")
	if v := s.State("ann", location); v.Text != "At 9." {
		t.Fatalf("state %+v", v)
	}
	// The call of the second round has the credentials of the second request.
	v := s.View(s.As("ann", "POST", location, `{"input":"And trip 8?","title":"Trips"}`, "Prefer", "wait=60", "X-User-Token", "second"))
	if v.Status != "complete" || v.Text != "At 10." || v.Usage.Turns != 4 {
		t.Fatalf("after going on: %+v", v)
	}
	received := s.API.Received()
	if len(received) != 2 || received[1].Header.Get("X-User-Token") != "second" {
		t.Errorf("the API received %v", received)
	}
	if got := list(s, "ann", "").titles(); !slices.Equal(got, []string{"Trips"}) {
		t.Errorf("titles %q", got)
	}
	if a := s.As("ann", "DELETE", location+"?delete", ""); a.Status != http.StatusNoContent {
		t.Fatalf("delete: %d %s", a.Status, a.Body)
	}
	for _, path := range []string{location, location + "/audit", location + "/trace"} {
		if a := s.As("ann", "GET", path, ""); a.Status != http.StatusNotFound {
			t.Errorf("%s after the deletion: %d %s", path, a.Status, a.Body)
		}
	}
	if got := list(s, "ann", ""); len(got.Engagements) != 0 {
		t.Errorf("the list after the deletion: %+v", got)
	}
	if got := list(s, "eve", ""); len(got.Engagements) != 1 {
		t.Errorf("the auditor sees %+v, want the record", got)
	}
}

func TestConversation_list_is_of_the_user(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", "\n  get-trip: {}\n")+"---\n"+sitetest.AgentDocument("boss", "\n  oagent://desk: {}\n"), "auditors eve",
		func(r *modelserver.Request) modelserver.Step {
			if strings.HasPrefix(r.System, "boss") && len(r.Messages) == 1 {
				return sitetest.Calls("desk", `{"input":"From boss"}`)
			}
			return modelserver.Step{Text: "Done."}
		})
	for user, inputs := range map[string][]string{"ann": {"Trip to Bern", "A seat"}, "bob": {"Trip to Rome"}} {
		for _, input := range inputs {
			s.State(user, s.Begin(user, "desk", input))
		}
	}
	s.State("ann", s.Begin("ann", "boss", "Delegate"))
	for query, want := range map[string][]string{
		"":                 {"A seat", "Delegate", "Trip to Bern"}, // not those that agents began
		"?order=newest":    {"A seat", "Delegate", "Trip to Bern"},
		"?title=trip":      {"Trip to Bern"},
		"?agent=boss":      {"Delegate"},
		"?status=complete": {"A seat", "Delegate", "Trip to Bern"},
		"?status=error":    nil,
		"?user=bob":        nil,
	} {
		if got := list(s, "ann", query).titles(); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", query, got, want)
		}
	}
	if got := list(s, "eve", "?title="+url.QueryEscape("trip to")).titles(); !slices.Equal(got, []string{"Trip to Bern", "Trip to Rome"}) {
		t.Errorf("the auditor sees %q", got)
	}
}

// A page of 100 of 1,000 conversations takes 20 ms or less. The limit of the test allows for slow machines.
func TestConversation_list_is_fast(t *testing.T) {
	if testing.Short() {
		t.Skip("begins 1,000 Engagements")
	}
	s := hosted(t, sitetest.AgentDocument("desk", "\n  get-trip: {}\n"), "", func(*modelserver.Request) modelserver.Step { return modelserver.Step{Text: "Done."} })
	for i := range 1000 {
		s.Begin("ann", "desk", fmt.Sprint("Trip ", i))
	}
	testkit.Eventually(t, "the end of all runs", func() bool {
		return len(list(s, "ann", "?limit=1000&status=complete").Engagements) == 1000
	})
	best := time.Hour
	for range 20 {
		began := time.Now()
		list(s, "ann", "?order=newest&limit=100")
		best = min(best, time.Since(began))
	}
	t.Logf("a page of 100 of 1,000 conversations: %s", best)
	if best > time.Second {
		t.Errorf("a page takes %s", best)
	}
}
