package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/modelserver"
)

// hostedSite is a site that hosts agents.
type hostedSite struct {
	*site
	models *modelserver.Server
	api    *recordingAPI
	before string // directives before the route of the site
}

// recordingAPI is the API behind the site. It notes its requests.
type recordingAPI struct {
	mu       sync.Mutex
	requests []*http.Request
	respond  http.HandlerFunc
}

func (a *recordingAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.requests = append(a.requests, r.Clone(r.Context()))
	a.mu.Unlock()
	if a.respond != nil {
		a.respond(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"path":%q}`, r.URL.Path)
}

func (a *recordingAPI) received() []*http.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests
}

// hosted runs a site that hosts the agent of the document. OPTIONS are further options of oagent.
func hosted(t *testing.T, agent, options string, respond func(*modelserver.Request) modelserver.Step) *hostedSite {
	t.Helper()
	s := newHostedSite(t, agent, respond)
	s.start("agents {\n\tstore bolt DIR/store.db\n}", s.block(options))
	return s
}

func newHostedSite(t *testing.T, agent string, respond func(*modelserver.Request) modelserver.Step) *hostedSite {
	t.Helper()
	s := &hostedSite{site: newSite(t), models: &modelserver.Server{Respond: respond}, api: new(recordingAPI)}
	s.write("agent.yaml", agent)
	return s
}

// block returns the block of the site. It starts the model's API and the API.
func (s *hostedSite) block(options string) string {
	s.t.Helper()
	models := httptest.NewServer(s.models)
	s.t.Cleanup(models.Close)
	api := httptest.NewServer(s.api)
	s.t.Cleanup(api.Close)
	return s.before + fmt.Sprintf(`route {
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

// runView is the state of a run as clients get it.
type runView struct {
	ID, Agent, Status, Text, Question, Reason, Audit string
	Exposes                                          json.RawMessage
	Reviews                                          []struct{ ID, Name, Location string }
	Error                                            *struct{ Kind, Rule, Message string }
	Usage                                            struct {
		Turns     int
		ToolCalls int `json:"tool_calls"`
	}
	WaitingFor []struct{ Agent, Status, Question, Reason, Location string } `json:"waiting_for"`
}

// begin begins an Engagement for the user and returns its path.
func (s *hostedSite) begin(user, agent, input string, header ...string) string {
	s.t.Helper()
	body, err := json.Marshal(map[string]string{"input": input})
	if err != nil {
		s.t.Fatal(err)
	}
	a := s.as(user, "POST", "/agents/"+agent, string(body), header...)
	location := a.header.Get("Location")
	if a.status != http.StatusSeeOther || !strings.HasPrefix(location, "/engagements/") {
		s.t.Fatalf("POST of an agent: status %d, location %q, %s", a.status, location, a.body)
	}
	return location
}

// as sends a request of a user. It does not follow redirects.
func (s *hostedSite) as(user, method, path, body string, header ...string) answer {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
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
	response, err := staying.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(content)}
}

// staying does not follow redirects.
var staying = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: time.Minute},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// state returns the state of a run after it is no longer busy.
func (s *hostedSite) state(user, location string) runView {
	s.t.Helper()
	return s.view(s.as(user, "GET", location, "", "Prefer", "wait=60"))
}

func (s *hostedSite) view(a answer) (v runView) {
	s.t.Helper()
	if a.status != http.StatusOK {
		s.t.Fatalf("state of a run: status %d, %s", a.status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		s.t.Fatalf("%v: %s", err, a.body)
	}
	return v
}

// play returns the steps of the model by the number of its messages in the conversation.
func play(steps ...modelserver.Step) func(*modelserver.Request) modelserver.Step {
	return func(r *modelserver.Request) modelserver.Step {
		n := 0
		for _, m := range r.Messages {
			if m.Role == "assistant" {
				n++
			}
		}
		if n >= len(steps) {
			return modelserver.Step{Text: "no more steps"}
		}
		return steps[n]
	}
}

// calls is a message of the model that calls a tool.
func calls(tool, arguments string) modelserver.Step {
	return modelserver.Step{Calls: []modelserver.Call{{ID: "c-" + tool, Name: tool, Arguments: arguments}}}
}

const tripAgent = `
  get-trip: {user_identity: false}
  create-trip: {user_identity: false}
`

func TestHosting(t *testing.T) {
	s := hosted(t, agentDocument("desk", tripAgent)+"exposes: {last: recent._name}\n", "", play(calls("get-trip", `{"id":"7"}`), modelserver.Step{Text: "Trip 7 is on time."}))
	location := s.begin("ann", "desk", "Is trip 7 on time?")
	v := s.state("ann", location)
	if v.Status != "complete" || v.Text != "Trip 7 is on time." || v.Usage.Turns != 2 || v.Usage.ToolCalls != 1 || string(v.Exposes) != `{"last":"get-trip"}` {
		t.Errorf("state %+v", v)
	}
	received := s.api.received()
	if len(received) != 1 || received[0].Method != "GET" || received[0].URL.Path != "/trips/7" {
		t.Errorf("the API received %v", received)
	}
	requests := s.models.Requests()
	if len(requests) != 2 {
		t.Fatalf("the model received %d requests, want 2", len(requests))
	}
	if last := requests[1].Messages[len(requests[1].Messages)-1]; last.Role != "tool" || !strings.Contains(last.Text, `"path":"/trips/7"`) {
		t.Errorf("the result of the call is %+v", last)
	}
	a := s.as("ann", "GET", v.Audit, "")
	if a.status != http.StatusOK || !strings.Contains(a.body, `"get-trip"`) {
		t.Errorf("audit record: status %d, %s", a.status, a.body)
	}
}
