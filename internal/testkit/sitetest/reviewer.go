package sitetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const AskedAgents = `kind: openagentspec:v1/agent
name: desk
description: Works at the desk.
intent: You work.
owner: tests
capabilities:
  list-trips: {}
  create-trip:
    input_restriction: {require_review: supervisor}
  get-trip:
    output_restriction: {require_review: oagent://supervisor}
---
kind: openagentspec:v1/agent
name: supervisor
description: Supervises.
intent: You supervise.
owner: tests
capabilities:
  list-trips: {}
lifespan: {short_circuit: 2}
`

// program is the program of a reviewing agent.
type program struct {
	*httptest.Server
	mu        sync.Mutex
	answer    http.HandlerFunc
	questions []ProgramQuestion
}

// ProgramQuestion is what a program is asked.
type ProgramQuestion struct {
	ID, Reviewer, Status, Side, Rule, Agent, Key, Name, Reviewing, Intent, Location string
	Inputs, Outputs                                                                 json.RawMessage
	User                                                                            struct{ ID string }
	Engagement                                                                      struct {
		StartedAt time.Time                  `json:"started_at"`
		User      struct{ ID string }        `json:"user"`
		Recent    map[string]json.RawMessage `json:"recent"`
		History   map[string]json.RawMessage `json:"history"`
	}
	Header http.Header
	Query  string
}

func NewProgram(t *testing.T, answer http.HandlerFunc) *program {
	t.Helper()
	p := &program{answer: answer}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := ProgramQuestion{Header: r.Header, Query: r.URL.RawQuery}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Errorf("the question cannot be read: %v", err)
		}
		_, _ = io.Copy(io.Discard, r.Body) // to its end, or the server does not notice who has gone
		p.mu.Lock()
		p.questions = append(p.questions, q)
		answer := p.answer
		p.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *program) Says(answer http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// Asked returns the questions so far.
func (p *program) Asked() []ProgramQuestion {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clip(p.questions)
}

func Saying(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const Approving = `{"decision":"approve","comment":"all well"}`

// AskedSite is a site whose agent supervisor is asked by a program. X-Test-User
// says who one is, and X-Agent and X-Talk which agent and Engagement it is about.
type AskedSite struct {
	*Site
	Program *program
	API     string
	Reached atomic.Int64
}

const AskedGlobal = "agents {\n\tstore bolt DIR/store.db\n\ttoolset trips {\n\t\topenapi TRIPS\n\t}\n\ttoolset checks {\n\t\topenapi DIR/checks.yaml\n\t}\n}\norder test_user before oagent\norder test_pace before oagent"

func NewAskedSite(t *testing.T, agents string, wait string, answer http.HandlerFunc) *AskedSite {
	t.Helper()
	return NewAskedSiteWith(t, "", agents, wait, answer)
}

// NewAskedSiteWith is newAskedSite with directives before those of the site.
func NewAskedSiteWith(t *testing.T, before, agents, wait string, answer http.HandlerFunc) *AskedSite {
	t.Helper()
	t.Setenv("SUPERVISOR_TOKEN", "hunter2")
	s := &AskedSite{Site: NewSite(t), Program: NewProgram(t, answer)}
	s.API = Upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		s.Reached.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ok":true}`)
	})
	s.Write("agents.yaml", agents)
	s.Write("checks.yaml", fmt.Sprintf(Checks, "http://127.0.0.1:1"))
	s.Start(AskedGlobal, before+s.Block(wait))
	return s
}

func (s *AskedSite) Block(wait string) string {
	return s.BlockWith(wait, `{
		ask `+s.Program.URL+`/ask
		header Authorization "Bearer {env.SUPERVISOR_TOKEN}"
		credential query key {env.SUPERVISOR_TOKEN}
		timeout 5m
	}`)
}

func (s *AskedSite) BlockWith(wait, reviewer string) string {
	return `test_user
test_pace
oagent DIR/agents.yaml {
	toolset trips
	guard {http.request.header.X-Agent}
	engagement {http.request.header.X-Talk}
	review_wait ` + wait + `
	engagements /engagements
	reviews /reviews
	auditors auditor
	reviewer supervisor robot ` + reviewer + `
}
reverse_proxy ` + s.API
}

func (s *AskedSite) By(user, agent, talk, method, path, body string) Response {
	s.T.Helper()
	return s.Request(method, path, body, "X-Test-User", user, "X-Agent", agent, "X-Talk", talk)
}

func (s *AskedSite) Create(to string) Response {
	s.T.Helper()
	return s.By("alice", "desk", "t1", "POST", "/trips", fmt.Sprintf(`{"to":%q}`, to))
}
