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
	"time"

	"github.com/fairwayhq/fairway/internal/modelserver"
	agentrun "github.com/fairwayhq/fairway/oagent/run"
	"github.com/fairwayhq/fairway/store/storetest"
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

// step is a step of the loop at which an Engagement stands still, so that a node can be killed there.
type step struct {
	name, agent string
	input       string // the name, and what tells Engagements at the same step apart
	// held reports whether the Engagement waits there.
	held func(*hostedRun) bool
}

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
		if at == "during-call" {
			s.gates.hold(order.Name, r)
		}
		writeJSON(w, fmt.Sprintf(`{"name":%q}`, order.Name))
	}))
	t.Cleanup(s.api.Close)
	s.models = &modelserver.Server{Respond: s.respond}
	s.model = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		name := string(modelInput.Find(body))
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

// modelInput finds the input of an Engagement in a request to the model.
var modelInput = regexp.MustCompile(`before-model/[a-z]+`)

// respond is the model of all agents: the input is the name of the step.
func (s *killSite) respond(r *modelserver.Request) modelserver.Step {
	input := r.Messages[0].Text
	name := stepOf(input)
	agent, _, _ := strings.Cut(r.System, "\n")
	answers := 0
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			answers++
		}
	}
	out := modelserver.Step{Text: "Ordered."}
	if answers == 0 {
		tool, arguments := "order", fmt.Sprintf(`{"name":%q}`, input)
		if strings.HasPrefix(name, "child-") && agent == "buyer" {
			tool, arguments = "clerk", fmt.Sprintf(`{"input":%q}`, input)
		}
		out = modelserver.Step{Calls: []modelserver.Call{{ID: "c1", Name: tool, Arguments: arguments}}}
	}
	gate := "" // that the request waits at
	switch {
	case name == "before-model" && answers == 0, name == "after-call" && answers == 1, name == "child-model" && agent == "clerk" && answers == 0:
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
		otc /otc orders
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
			caller_headers X-User-Token
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
`, store, address, s.model.URL, strings.TrimPrefix(s.api.URL, "http://"))
}

func (s *killSite) start(dir, address, store string) *brittleNode {
	s.t.Helper()
	writeFile(s.t, filepath.Join(dir, "agents.yaml"), hostedAgents)
	return startBrittle(s.t, dir, address, s.site(address, store))
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

// steps are all steps of the loop. The mark tells their Engagements apart from others.
func (s *killSite) steps(mark string) []*step {
	gate := func(r *hostedRun) bool { return s.gates.count(r.step.input) > 0 }
	review := func(r *hostedRun) bool { return len(r.view.Reviews) == 1 }
	child := func(r *hostedRun) bool {
		return len(r.view.WaitingFor) == 1 && r.view.WaitingFor[0].Status == "awaiting-verification"
	}
	all := []*step{
		{name: "before-model", agent: "buyer", held: gate},
		{name: "before-call", agent: "buyer", held: gate},
		{name: "during-call", agent: "buyer", held: gate},
		{name: "after-call", agent: "buyer", held: gate},
		{name: "during-model", agent: "buyer", held: gate},
		{name: "review-before", agent: "clerk", held: review},
		{name: "review-after", agent: "careful", held: review},
		{name: "child-model", agent: "buyer", held: gate},
		{name: "child-review", agent: "buyer", held: child},
		{name: "ended", agent: "buyer", held: func(r *hostedRun) bool { return r.view.Status == "complete" }},
	}
	for _, at := range all {
		at.input = at.name + mark
	}
	return all
}

// approve decides the review of a run, or of the agent that it called, if there is one.
func (n *brittleNode) approve(t *testing.T, v *hostedView) {
	t.Helper()
	reviews := v.Reviews
	for _, called := range v.WaitingFor {
		if called.Status == "awaiting-verification" {
			reviews = append(reviews, n.state(t, called.Location).Reviews...)
		}
	}
	for _, review := range reviews {
		response, body := n.as(t, "boss", "POST", review.Location+"/approve", "")
		if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusConflict {
			t.Errorf("decision: %d %s", response.StatusCode, body)
		}
	}
}

// TestHosted_killed kills a node while an Engagement stands at each step of the loop. It, or another
// node, finishes them all, and no order is made twice.
func TestHosted_killed(t *testing.T) {
	t.Parallel() // it mostly waits until the leases of the dead node end
	t.Run("one node", func(t *testing.T) {
		t.Parallel()
		s, dir, address := newKillSite(t), t.TempDir(), freeAddress(t)
		first := s.start(dir, address, "bolt")
		runs := s.begin(first, "")
		first.decide(t, runs[5])
		first.kill()
		s.gates.releaseAll()
		again := s.start(dir, address, "bolt")
		began := time.Now()
		s.finish(again, runs[:1])
		// No other process can work on the run, so the node does not wait for the end of the lease.
		if took := time.Since(began); took > agentrun.DefaultLease/2 {
			t.Errorf("the restarted node took a run up after %s", took)
		}
		s.finish(again, runs)
	})
	t.Run("two nodes", func(t *testing.T) {
		t.Parallel()
		s := newKillSite(t)
		redis, _ := storetest.Redis(t)
		first := s.start(t.TempDir(), freeAddress(t), "redis "+redis)
		runs := s.begin(first, "")
		first.decide(t, runs[5])
		first.kill()
		s.gates.releaseAll()
		s.finish(s.start(t.TempDir(), freeAddress(t), "redis "+redis), runs)
	})
	// The other node lives all the time, and works on Engagements of its own.
	t.Run("two live nodes", func(t *testing.T) {
		t.Parallel()
		s := newKillSite(t)
		redis, _ := storetest.Redis(t)
		first := s.start(t.TempDir(), freeAddress(t), "redis "+redis)
		runs := s.begin(first, "/1") // while there is no other, so that the first works on them all
		second := s.start(t.TempDir(), freeAddress(t), "redis "+redis)
		runs = append(runs, s.begin(second, "/2")...)
		first.decide(t, runs[5])
		first.kill()
		s.gates.releaseAll()
		s.finish(second, runs)
	})
}

// begin begins an Engagement for each step on a node, and waits until it stands there.
func (s *killSite) begin(node *brittleNode, mark string) []*hostedRun {
	t := s.t
	t.Helper()
	var runs []*hostedRun
	for _, at := range s.steps(mark) {
		runs = append(runs, &hostedRun{step: at, location: node.begin(t, at.agent, at.input)})
	}
	for _, r := range runs {
		waitFor(t, waitTimeout, "the step "+r.step.input, func() bool {
			r.view = node.state(t, r.location)
			return r.step.held(r)
		})
	}
	return runs
}

// finish lets a node finish the runs, and checks what became of them.
func (s *killSite) finish(node *brittleNode, runs []*hostedRun) {
	t := s.t
	t.Helper()
	for _, r := range runs {
		waitFor(t, 3*waitTimeout, "the end of "+r.step.input, func() bool {
			r.view = node.state(t, r.location)
			node.approve(t, &r.view)
			return r.view.Status == "complete" || r.view.Status == "error"
		})
		if r.view.Status != "complete" || r.view.Text != "Ordered." {
			t.Errorf("%s: %+v", r.step.input, r.view)
		}
		s.mu.Lock()
		made := s.orders[r.step.input]
		s.mu.Unlock()
		// Of a call that was begun when the node died, it is unknown whether it was made.
		uncertain := r.decided || r.step.name == "before-call" || r.step.name == "during-call"
		if made > 1 || made == 0 && !uncertain {
			t.Errorf("%s: ordered %d times", r.step.input, made)
		}
		response, record := node.as(t, "ann", "GET", r.location+"/audit?limit=1000", "")
		name := "order"
		if strings.HasPrefix(r.step.name, "child-") {
			name = "clerk"
		}
		if response.StatusCode != http.StatusOK || strings.Count(record, `"what":"begun"`) != 1 && !r.decided || !strings.Contains(record, `"name":"`+name+`"`) {
			t.Errorf("%s: the record is %d %s", r.step.input, response.StatusCode, record)
		}
	}
}

// decide approves the reviews of a run right before its node dies, so that it dies before or while it goes
// on with the run.
func (n *brittleNode) decide(t *testing.T, r *hostedRun) {
	t.Helper()
	n.approve(t, &r.view)
	r.decided = true
}
