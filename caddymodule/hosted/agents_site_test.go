package hosted_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func managed(t *testing.T, restriction, capability string) *sitetest.HostedSite {
	t.Helper()
	s := sitetest.NewManaged(t, restriction, capability)
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", s.Block("reviews /reviews"))
	return s
}

func TestHosting_agents_call_agents(t *testing.T) {
	s := managed(t, "", "")
	location := s.Begin("ann", "manager", "Go", "Authorization", "Bearer ann-0123456789")
	v := s.State("ann", location)
	if v.Status != "complete" || v.Text != "It is done." || string(v.Exposes) != `{"clerk":"Created."}` {
		t.Fatalf("state %+v, exposes %s", v, v.Exposes)
	}
	received := s.API.Received()
	if len(received) != 1 || received[0].Header.Get("Authorization") != "Bearer ann-0123456789" {
		t.Errorf("the API received %v, want one request with the identity of the user", received)
	}
	for _, r := range s.Models.Requests() {
		if last := r.Messages[len(r.Messages)-1]; strings.HasPrefix(r.System, "MANAGE") && last.Role == "tool" && !strings.Contains(last.Text, `"exposes":{"trip":"/trips"}`) {
			t.Errorf("the result of the agent is %+v", last)
		}
	}
	if a := s.As("ann", "GET", location+"/audit", ""); !strings.Contains(a.Body, `"clerk"`) || strings.Contains(a.Body, "create-trip") {
		t.Errorf("record of the manager: %s", a.Body)
	}
}

func TestHosting_called_agent_waits(t *testing.T) {
	s := managed(t, "", "input_restriction: {require_review: boss}")
	location := s.Begin("ann", "manager", "Go")
	var v sitetest.RunView
	sitetest.Eventually(t, "the call of the clerk that waits for a review", func() bool {
		v = s.View(s.As("ann", "GET", location, ""))
		return len(v.WaitingFor) == 1 && v.WaitingFor[0].Status == "awaiting-verification"
	})
	called := s.View(s.As("ann", "GET", v.WaitingFor[0].Location, ""))
	if called.Agent != "clerk" {
		t.Errorf("the called agent: %+v", called)
	}
	decide(s, pending(s, "ann", v.WaitingFor[0].Location), "approve")
	if v := s.State("ann", location); v.Status != "complete" || len(s.API.Received()) != 1 {
		t.Errorf("state %+v", v)
	}
}

func TestHosting_cancels_called_agents(t *testing.T) {
	s := managed(t, "", "input_restriction: {require_review: boss}")
	location := s.Begin("ann", "manager", "Go")
	var called string
	sitetest.Eventually(t, "the call of the clerk that waits for a review", func() bool {
		v := s.View(s.As("ann", "GET", location, ""))
		if len(v.WaitingFor) == 1 && v.WaitingFor[0].Status == "awaiting-verification" {
			called = v.WaitingFor[0].Location
		}
		return called != ""
	})
	if a := s.As("ann", "DELETE", location, ""); a.Status != http.StatusOK {
		t.Fatalf("DELETE: status %d, %s", a.Status, a.Body)
	}
	if v := s.State("ann", called); v.Error == nil || v.Error.Kind != "canceled" {
		t.Errorf("the called agent: %+v", v)
	}
}

func TestHosting_restricts_calls_of_agents(t *testing.T) {
	for name, c := range map[string]struct{ restriction, want string }{
		"input":  {`input_restriction: {assertion: 'recent.clerk.inputs.input == "other"'}`, "input_restriction"},
		"output": {`output_restriction: {assertion: 'recent.clerk.outputs.text == "other"'}`, "output_restriction"},
	} {
		t.Run(name, func(t *testing.T) {
			s := managed(t, c.restriction, "user_identity: false")
			if v := s.State("ann", s.Begin("ann", "manager", "Go")); v.Status != "complete" {
				t.Fatalf("state %+v", v)
			}
			requests := s.Models.Requests()
			messages := requests[len(requests)-1].Messages
			if last := messages[len(messages)-1].Text; !strings.Contains(last, c.want) || strings.Contains(last, "Created.") {
				t.Errorf("the model got %q, want %q in it", last, c.want)
			}
		})
	}
}

// TestHosting_identity_of_called_agents has the rules for user_identity and static_identity of an agent
// that another agent calls (OpenAgentSpec v1, Agent, user_identity and static_identity).
func TestHosting_identity_of_called_agents(t *testing.T) {
	const ann, ops, sales = "Bearer ann-0123456789", "Bearer ops-0123456789", "Bearer sales-0123456789"
	for name, c := range map[string]struct {
		restriction, capability string
		want                    string // Authorization that the API gets; "refused" if it gets no request
	}{
		"user":                            {"", "", ann},
		"user, static of the tool":        {"", "static_identity: OPS", ann},
		"user, tool without":              {"", "user_identity: false", ""},
		"none, tool needs one":            {"user_identity: false", "", "refused"},
		"none, tool needs none":           {"user_identity: false", "user_identity: false", ""},
		"none, static of the tool":        {"user_identity: false", "static_identity: OPS", ops},
		"none, only static of the tool":   {"user_identity: false", "user_identity: false, static_identity: OPS", ops},
		"static":                          {"user_identity: false, static_identity: SALES", "", sales},
		"static, static of the tool":      {"user_identity: false, static_identity: SALES", "static_identity: OPS", sales},
		"static, only static of the tool": {"user_identity: false, static_identity: SALES", "user_identity: false, static_identity: OPS", ops},
		"static, tool needs none":         {"user_identity: false, static_identity: SALES", "user_identity: false", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewManaged(t, c.restriction, c.capability)
			s.Start(storeInDir, s.Block(fmt.Sprintf("identity OPS header_up Authorization %q\nidentity SALES header_up Authorization %q", ops, sales)))
			location := s.Begin("ann", "manager", "Go", "Authorization", ann)
			if v := s.State("ann", location); v.Status != "complete" {
				t.Fatalf("state %+v", v)
			}
			received := s.API.Received()
			if c.want == "refused" {
				requests := s.Models.Requests()
				for _, r := range requests {
					if last := r.Messages[len(r.Messages)-1]; strings.HasPrefix(r.System, "CREATE") && last.Role == "tool" && !strings.Contains(last.Text, "called without one") {
						t.Errorf("the model got %q", last.Text)
					}
				}
				if len(received) != 0 {
					t.Errorf("the API received %v, want no request", received[0].Header)
				}
				return
			}
			if len(received) != 1 || received[0].Header.Get("Authorization") != c.want {
				t.Errorf("the API received %v, want one request with Authorization %q", received, c.want)
			}
		})
	}
}

// TestHosting_identity_is_not_added_later sends the credentials of the user to the Engagement of an agent
// that was called without them.
func TestHosting_identity_is_not_added_later(t *testing.T) {
	s := managed(t, "user_identity: false", "user_identity: false, input_restriction: {require_review: boss}")
	location := s.Begin("ann", "manager", "Go", "Authorization", "Bearer ann-0123456789")
	var called string
	sitetest.Eventually(t, "the call of the clerk that waits for a review", func() bool {
		v := s.View(s.As("ann", "GET", location, ""))
		if len(v.WaitingFor) == 1 && v.WaitingFor[0].Status == "awaiting-verification" {
			called = v.WaitingFor[0].Location
		}
		return called != ""
	})
	s.View(s.As("ann", "GET", called, "", "Authorization", "Bearer ann-0123456789", "X-Custom-User", "ann"))
	decide(s, pending(s, "ann", called), "approve")
	s.State("ann", location)
	if received := s.API.Received(); len(received) != 1 || received[0].Header.Get("Authorization") != "" || received[0].Header.Get("X-Custom-User") != "" {
		t.Errorf("the API received %v, want one request without headers of the user", received)
	}
}

// TestHosting_called_agents_remember_nothing checks that what an agent writes to another one is not kept as
// what the user said.
func TestHosting_called_agents_remember_nothing(t *testing.T) {
	s := managed(t, "", "user_identity: false")
	s.State("ann", s.Begin("ann", "manager", "Go"))
	remembered := func(agent string) string { return s.As("ann", "GET", "/agents/"+agent+"/memory", "").Body }
	sitetest.Eventually(t, "what the manager remembers", func() bool { return strings.Contains(remembered("manager"), `"input":"Go"`) })
	if got := remembered("clerk"); got != `{"remembered":[]}` {
		t.Errorf("the clerk remembers %s", got)
	}
}
