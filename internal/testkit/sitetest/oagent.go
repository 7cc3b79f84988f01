package sitetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

func Decode[T any](t *testing.T, a Response) (v T) {
	t.Helper()
	if a.Status != 200 || a.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("answer %d %s", a.Status, a.Body)
	}
	if err := json.Unmarshal([]byte(a.Body), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// RulesAPI is the API behind a site, which remembers the requests that reach it.
type RulesAPI struct {
	Mu      sync.Mutex
	Reached int
	Last    *http.Request
}

func (a *RulesAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.Mu.Lock()
	a.Reached++
	a.Last = r
	a.Mu.Unlock()
	header := w.Header()
	header.Set("X-Token", "hunter2")
	header.Set("OAgent-Exposes", `{"forged":true}`)
	id := strings.TrimPrefix(r.URL.Path, "/trips/")
	if strings.HasPrefix(id, "stream") {
		header.Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: progress\ndata: {\"progress\":1,\"message\":\"early\"}\n\ndata: seats 3\n\n")
		_ = http.NewResponseController(w).Flush()
		if id == "stream-secret" {
			_, _ = io.WriteString(w, "data: hunter2\n\n")
		}
		return
	}
	header.Set("Content-Type", "application/json")
	if id == "secret" {
		_, _ = io.WriteString(w, `{"public":false,"token":"hunter2"}`)
		return
	}
	_, _ = io.WriteString(w, `{"public":true,"seats":3}`)
}

// Recorded is an entry of a record as its user sees it.
type Recorded struct {
	What, Kind, Name, Review, Side, Why string
	Inputs, Outputs                     json.RawMessage
	Would                               struct{ Effect, Rule, Reason string }
}

// AgentDocument is the document of an agent with these capabilities, indented by
// two.
func AgentDocument(name, capabilities string) string {
	return fmt.Sprintf(`kind: "openagentspec:v1/agent"
name: %s
description: Tests.
intent: You test.
owner: tests
capabilities:
%s`, name, strings.TrimLeft(capabilities, "\n"))
}

func DecodeEcho(t *testing.T, body string) (e Echoed) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return e
}

// Guarded runs a site with mcp and otc before oagent before an API. OPTIONS are
// those of oagent, and the agent is in agent.yaml.
func Guarded(t *testing.T, agent, options string, handler http.HandlerFunc) *Site {
	t.Helper()
	s := NewSite(t)
	s.Write("agent.yaml", agent)
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", GuardedBlock(options, Upstream(t, handler)))
	return s
}

func GuardedBlock(options, api string) string {
	return "ocp\nmcp TRIPS\notc TRIPS\noagent DIR/agent.yaml {\n" + options + "\n}\nreverse_proxy " + api
}

// Problem is the problem document of a refusal.
type Problem struct {
	Type, Title, Detail, Kind, Agent, Engagement, Rule, Tool, Review string
	Status                                                           int
	RetryAfter                                                       int `json:"retry_after"`
	Made                                                             bool
}

func (s *Site) Problem(a Response) Problem {
	s.T.Helper()
	var p Problem
	if a.Header.Get("Content-Type") != "application/problem+json" {
		s.T.Fatalf("no problem document: %d %s %.500s", a.Status, a.Header.Get("Content-Type"), a.Body)
	}
	if err := json.Unmarshal([]byte(a.Body), &p); err != nil {
		s.T.Fatal(err)
	}
	if p.Title == "" || p.Title == "Refused" || p.Detail == "" {
		s.T.Errorf("got the problem %+v, want one with a title of its own and a detail", p)
	}
	if cache := a.Header.Get("Cache-Control"); p.Status != a.Status || cache != "no-store" {
		s.T.Errorf("got a problem with status %d and Cache-Control %q, want %d and no-store", p.Status, cache, a.Status)
	}
	return p
}

// Request makes a plain request.
func (s *Site) Request(method, path, body string, header ...string) Response {
	s.T.Helper()
	r, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header[header[i]] = append(r.Header[header[i]], header[i+1])
	}
	return s.Do(r)
}

// OTC calls a tool over OTC and returns the answer's body.
func (s *Site) OTC(tool, input string) string {
	s.T.Helper()
	return s.OTCCall(tool, input).Body
}

func (s *Site) OTCCall(tool, input string) Response {
	s.T.Helper()
	r, err := http.NewRequest(http.MethodPost, s.URL+"/otc/call", strings.NewReader(fmt.Sprintf(
		`{"request":{"tool_id":"Trips.%s","input":%s}}`, tool, input)))
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	return s.Do(r)
}
