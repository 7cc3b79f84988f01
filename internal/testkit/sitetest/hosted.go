package sitetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
)

// Manager calls the agent clerk, which creates trips.
const Manager = `kind: openagentspec:v1/agent
name: manager
description: Manages trips.
intent: MANAGE
owner: tests
capabilities:
  oagent://clerk: {RESTRICTION}
exposes: {clerk: recent.clerk.outputs.text}
---
kind: openagentspec:v1/agent
name: clerk
description: Creates trips.
intent: CREATE
owner: tests
capabilities:
  create-trip: {CAPABILITY}
exposes:
  trip: recent["create-trip"].outputs.path
`

func NewManaged(t *testing.T, restriction, capability string) *HostedSite {
	t.Helper()
	clerk := Play(Calls("create-trip", `{"to":"Bern"}`), modelserver.Step{Text: "Created."})
	boss := Play(Calls("clerk", `{"input":"A trip to Bern"}`), modelserver.Step{Text: "It is done."})
	return NewHostedSite(t, strings.NewReplacer("RESTRICTION", restriction, "CAPABILITY", capability).Replace(Manager),
		func(r *modelserver.Request) modelserver.Step {
			if strings.HasPrefix(r.System, "CREATE") {
				return clerk(r)
			}
			return boss(r)
		})
}

// HostedSite is a site that hosts agents.
type HostedSite struct {
	*Site
	Models *modelserver.Server
	API    *RecordingAPI
	Before string // directives before the route of the site
}

// RecordingAPI is the API behind the site. It notes its requests.
type RecordingAPI struct {
	mu       sync.Mutex
	requests []*http.Request
	Respond  http.HandlerFunc
}

func (a *RecordingAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.requests = append(a.requests, r.Clone(r.Context()))
	a.mu.Unlock()
	if a.Respond != nil {
		a.Respond(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"path":%q}`, r.URL.Path)
}

func (a *RecordingAPI) Received() []*http.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests
}

func NewHostedSite(t *testing.T, agent string, respond func(*modelserver.Request) modelserver.Step) *HostedSite {
	t.Helper()
	s := &HostedSite{Site: NewSite(t), Models: &modelserver.Server{Respond: respond}, API: new(RecordingAPI)}
	s.Write("agent.yaml", agent)
	return s
}

// Block returns the block of the site. It starts the model's API and the API.
func (s *HostedSite) Block(options string) string {
	s.T.Helper()
	models := httptest.NewServer(s.Models)
	s.T.Cleanup(models.Close)
	api := httptest.NewServer(s.API)
	s.T.Cleanup(api.Close)
	return s.Before + fmt.Sprintf(`route {
test_user
oagent DIR/agent.yaml {
	toolset TRIPS
	serve /agents
	engagements /engagements
	model openai {
		base_url %s
		model test
		retries 0
	}
	%s
}
reverse_proxy %s
}`, models.URL, options, strings.TrimPrefix(api.URL, "http://"))
}

// RunView is the state of a run as clients get it.
type RunView struct {
	ID, Agent, Status, Text, Reason, Audit string
	Queued                                 bool
	RetryAt                                string `json:"retry_at"`
	AnswerAt                               string `json:"answer_at"`
	Questions                              []struct {
		ID, Text string
		AnswerAt string `json:"answer_at"`
	}
	Exposes json.RawMessage
	Reviews []struct{ ID, Name, Location string }
	Error   *struct{ Kind, Rule, Message string }
	Usage   struct {
		Turns     int
		ToolCalls int `json:"tool_calls"`
		Cost      float64
	}
	WaitingFor []struct {
		Agent, Status, Reason, Location string
		Questions                       []struct{ ID, Text string }
	} `json:"waiting_for"`
}

// Begin begins an Engagement for the user and returns its path.
func (s *HostedSite) Begin(user, agent, input string, header ...string) string {
	s.T.Helper()
	body, err := json.Marshal(map[string]string{"input": input})
	if err != nil {
		s.T.Fatal(err)
	}
	a := s.As(user, "POST", "/agents/"+agent, string(body), header...)
	location := a.Header.Get("Location")
	if a.Status != http.StatusSeeOther || !strings.HasPrefix(location, "/engagements/") {
		s.T.Fatalf("POST of an agent: status %d, location %q, %s", a.Status, location, a.Body)
	}
	return location
}

// As sends a request of a user. It does not follow redirects.
func (s *HostedSite) As(user, method, path, body string, header ...string) Response {
	s.T.Helper()
	r, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if user != "" {
		r.Header.Set("X-Test-User", user)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := Staying.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	return Response{response.StatusCode, response.Header, string(content)}
}

// Staying does not follow redirects.
var Staying = &http.Client{
	Transport:     Client.Transport,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// State returns the state of a run after it is no longer busy.
func (s *HostedSite) State(user, location string) RunView {
	s.T.Helper()
	return s.View(s.As(user, "GET", location, "", "Prefer", "wait=60"))
}

func (s *HostedSite) View(a Response) (v RunView) {
	s.T.Helper()
	if a.Status != http.StatusOK {
		s.T.Fatalf("state of a run: status %d, %s", a.Status, a.Body)
	}
	if err := json.Unmarshal([]byte(a.Body), &v); err != nil {
		s.T.Fatalf("%v: %s", err, a.Body)
	}
	return v
}

// Play returns the steps of the model by the number of its messages in the conversation, without those of
// earlier conversations.
func Play(steps ...modelserver.Step) func(*modelserver.Request) modelserver.Step {
	return func(r *modelserver.Request) modelserver.Step {
		n := 0
		for i, m := range r.Messages {
			if m.Role == "assistant" && !strings.HasPrefix(r.Messages[i-1].Text, "Earlier conversation") {
				n++
			}
		}
		if n >= len(steps) {
			return modelserver.Step{Text: "no more steps"}
		}
		return steps[n]
	}
}

// Calls is a message of the model that calls a tool.
func Calls(tool, arguments string) modelserver.Step {
	return modelserver.Step{Calls: []modelserver.Call{{ID: "c-" + tool, Name: tool, Arguments: arguments}}}
}
