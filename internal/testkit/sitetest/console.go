package sitetest

import (
	"encoding/json"
	"net/http"
	"strings"
)

// AgentCalls is the list of calls of the console.
type AgentCalls struct{ Running, Calls []agentCall }

type agentCall struct {
	Agent, Tool, Outcome, User, Protocol string
	Took                                 float64 `json:"duration_ms"`
	Arguments                            map[string]string
}

func (c agentCall) String() string {
	return strings.TrimSpace(c.Agent + " " + c.Tool + " " + c.Outcome)
}

// View gets a page of the console as a user.
func (s *Site) View(user, path string) Response {
	s.T.Helper()
	a := s.Request("GET", path, "", "X-Test-User", user)
	if a.Status != http.StatusOK {
		s.T.Fatalf("GET %s as %q: status %d: %.400s", path, user, a.Status, a.Body)
	}
	return a
}

// ConsoleJSON gets JSON of the console as a user.
func ConsoleJSON[T any](s *Site, user, path string) (value T) {
	s.T.Helper()
	if err := json.Unmarshal([]byte(s.View(user, path).Body), &value); err != nil {
		s.T.Fatalf("GET %s: %v", path, err)
	}
	return value
}

// WithLogin is a site that requires a login for everything.
const WithLogin = `agent_auth {
	api_key {
		key ada 0123456789abcdef-ada
	}
}
`
