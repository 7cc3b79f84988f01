package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
)

const hostedAgents = `kind: openagentspec:v1/agent
name: buyer
description: Orders things.
intent: buyer
owner: tests
capabilities:
  order: {user_identity: false}
  oagent://clerk: {user_identity: false}
---
kind: openagentspec:v1/agent
name: clerk
description: Orders things after a review.
intent: clerk
owner: tests
capabilities:
  order: {user_identity: false, input_restriction: {require_review: boss}}
---
kind: openagentspec:v1/agent
name: careful
description: Shows what was ordered after a review.
intent: careful
owner: tests
capabilities:
  order: {user_identity: false, output_restriction: {require_review: boss}}
---
kind: openagentspec:v1/agent
name: personal
description: Orders things with the identity of the user, after a review.
intent: personal
owner: tests
capabilities:
  order: {user_identity: true, input_restriction: {require_review: boss}}
`

// hostedRun is an Engagement of a test.
type hostedRun struct {
	step     *step
	location string
	view     hostedView
	decided  bool // its review was decided right before the node died
}

// hostedView is the state of a run.
type hostedView struct {
	Status, Text, Audit string
	Error               *struct{ Kind, Message string }
	Reviews             []struct{ Location string }
	WaitingFor          []struct{ Status, Location string } `json:"waiting_for"`
}

// gates hold requests for Engagements, by their input, until they are released.
type gates struct {
	mu     sync.Mutex
	open   bool
	byName map[string]*gate
}

type gate struct {
	released chan struct{}
	count    int // requests that have come
	inside   int // of these, requests that are held
}

func newGates() *gates { return &gates{byName: make(map[string]*gate)} }

// at returns a gate. The caller holds the lock.
func (g *gates) at(name string) *gate {
	if g.byName[name] == nil {
		g.byName[name] = &gate{released: make(chan struct{})}
		if g.open {
			close(g.byName[name].released)
		}
	}
	return g.byName[name]
}

// enter counts a request, and returns what ends its wait.
func (g *gates) enter(name string) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.at(name)
	at.count++
	return at.released
}

// hold waits at a gate until it is released or the client has gone.
func (g *gates) hold(name string, r *http.Request) {
	released := g.enter(name)
	g.enclose(name, 1)
	defer g.enclose(name, -1)
	select {
	case <-released:
	case <-r.Context().Done():
	}
}

func (g *gates) enclose(name string, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at(name).inside += n
}

func (g *gates) count(name string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at(name).count
}

func (g *gates) inside(name string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at(name).inside
}

// release opens one gate.
func (g *gates) release(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.at(name).released)
}

// releaseAll opens all gates, also those of later requests.
func (g *gates) releaseAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open {
		return
	}
	g.open = true
	for _, at := range g.byName {
		select {
		case <-at.released:
		default:
			close(at.released)
		}
	}
}

// killSite is what the nodes of a test have in common: the API, the model and the gates.
type killSite struct {
	t      *testing.T
	gates  *gates
	models *modelserver.Server
	api    *httptest.Server
	model  *httptest.Server
	more   string // options of oagent
	before string // directives before the others of the site

	environment []string // of the nodes, NAME=value

	mu     sync.Mutex
	orders map[string]int    // by name
	tokens map[string]string // headers X-User-Token, by name
}

func newKillSite(t *testing.T) *killSite {
	s := &killSite{t: t, gates: newGates(), orders: make(map[string]int), tokens: make(map[string]string)}
	s.api = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var order struct{ Name string }
		_ = json.NewDecoder(r.Body).Decode(&order)
		at := stepOf(order.Name)
		if at == "before-call" { // its connection is held before the order counts
			s.gates.hold(order.Name, r)
		}
		s.mu.Lock()
		s.orders[order.Name]++
		s.tokens[order.Name] = r.Header.Get("X-User-Token")
		s.mu.Unlock()
		if at == "during-call" || at == "talk-call" {
			s.gates.hold(order.Name, r)
		}
		writeJSON(w, fmt.Sprintf(`{"name":%q}`, order.Name))
	}))
	t.Cleanup(s.api.Close)
	s.models = &modelserver.Server{Respond: s.respond}
	s.model = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		name := ""
		if inputs := modelInput.FindAll(body, -1); inputs != nil {
			name = string(inputs[len(inputs)-1])
		}
		s.gates.enclose(name, 1)
		defer s.gates.enclose(name, -1)
		s.models.ServeHTTP(w, r)
	}))
	t.Cleanup(s.model.Close)
	t.Cleanup(s.gates.releaseAll)
	return s
}

// stepOf returns the name of the step of an input.
func stepOf(input string) string {
	name, _, _ := strings.Cut(input, "/")
	return name
}

// greeting is an input that the agent answers without an order.
const greeting = "Hello"

// modelInput finds the inputs in a request to the model: the last one is that of the Engagement. Those before it
// are of earlier Engagements of the user (retain_memory).
var modelInput = regexp.MustCompile(`before-model/[a-z]+`)

// respond is the model of all agents: the input is the name of the step.
func (s *killSite) respond(r *modelserver.Request) modelserver.Step {
	input, answers := "", 0
	for _, m := range r.Messages { // first those of earlier Engagements of the user (retain_memory)
		switch m.Role {
		case "user":
			input, answers = m.Text, 0
		case "assistant":
			answers++
		}
	}
	name := stepOf(input)
	agent, _, _ := strings.Cut(r.System, "\n")
	out := modelserver.Step{Text: "Ordered."}
	if answers == 0 && name != greeting {
		tool, arguments := "order", fmt.Sprintf(`{"name":%q}`, input)
		if strings.HasPrefix(name, "child-") && agent == "buyer" {
			tool, arguments = "clerk", fmt.Sprintf(`{"input":%q}`, input)
		}
		out = modelserver.Step{Calls: []modelserver.Call{{ID: "c1", Name: tool, Arguments: arguments}}}
	}
	gate := "" // that the request waits at
	switch {
	case name == "before-model" && answers == 0, name == "talk-model" && answers == 0, name == "after-call" && answers == 1, name == "child-model" && agent == "clerk" && answers == 0:
		gate = input
	case name == "during-model" && answers == 1:
		out.WaitMidStream = s.gates.enter(input)
	}
	if gate != "" {
		out.Wait = s.gates.enter(gate)
	}
	return out
}

// site returns the Caddyfile of a node.
func (s *killSite) site(address, store string) string {
	return fmt.Sprintf(`{
	admin off
	agents {
		toolset orders orders.yaml
		store %s
	}
}
http://%s {
	route {
		%s
		otc /otc orders {
			agent buyer
		}
		agent_auth {
			api_key {
				key ann 0123456789abcdef-ann
				key boss 0123456789abcdef-boss
			}
		}
		oagent agents.yaml {
			serve /agents
			engagements /engagements
			reviews /reviews
			%s
			accept /agents {
				by ann
				capabilities order
			}
			model openai {
				base_url %s
				model test
				retries 0
			}
		}
		reverse_proxy %s
	}
}
`, store, address, s.before, strings.ReplaceAll(s.more, "ADDRESS", address), s.model.URL, strings.TrimPrefix(s.api.URL, "http://"))
}

func (s *killSite) start(dir, address, store string) *brittleNode {
	s.t.Helper()
	writeFile(s.t, filepath.Join(dir, "agents.yaml"), hostedAgents)
	return startBrittle(s.t, dir, address, s.site(address, store), s.environment...)
}

// agentsRoute returns the handlers of a node that serves hosted agents behind keys of ann and boss. Other requests pass.
// Probes need no login.
func agentsRoute(model, api string) string {
	return fmt.Sprintf(`	agents_health
	agent_auth {
		api_key {
			key ann 0123456789abcdef-ann
			key boss 0123456789abcdef-boss
		}
	}
	@agents path /orders* /agents* /engagements* /reviews*
	handle @agents {
		oagent agents.yaml {
			toolset orders
			serve /agents
			engagements /engagements
			reviews /reviews
			model openai {
				base_url %s
				model test
				retries 0
			}
		}
		reverse_proxy %s
	}
`, model, strings.TrimPrefix(api, "http://"))
}

// freshTransport does not reuse connections, which may be of a node that is dead.
var freshTransport = &http.Transport{DisableKeepAlives: true}

// as sends a request of a user to a node.
func (n *brittleNode) as(t *testing.T, user, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, n.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", "0123456789abcdef-"+user)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := freshTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(content)
}

func (n *brittleNode) begin(t *testing.T, agent, input string, header ...string) string {
	t.Helper()
	response, body := n.as(t, "ann", "POST", "/agents/"+agent, fmt.Sprintf(`{"input":%q}`, input), header...)
	if response.StatusCode != http.StatusSeeOther {
		t.Fatalf("POST: %d %s", response.StatusCode, body)
	}
	return response.Header.Get("Location")
}

func (n *brittleNode) state(t *testing.T, location string, header ...string) (v hostedView) {
	t.Helper()
	response, body := n.as(t, "ann", "GET", location, "", header...)
	if response.StatusCode != http.StatusOK || json.Unmarshal([]byte(body), &v) != nil {
		t.Fatalf("state: %d %s", response.StatusCode, body)
	}
	return v
}
