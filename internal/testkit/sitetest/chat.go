package sitetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Checker is the API of a guardrail's tool, which finds a text safe that does not
// say "forbidden".
type Checker struct {
	*httptest.Server
	mu      sync.Mutex
	texts   []string
	Parents sync.Map // path → traceparent of the latest request
	Down    atomic.Bool
	Page    atomic.Pointer[[2]string] // a media type and a body with which it answers 200 in place of a verdict
}

func NewChecker(t *testing.T) *Checker {
	t.Helper()
	c := new(Checker)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.Down.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if page := c.Page.Load(); page != nil {
			w.Header().Set("Content-Type", page[0])
			_, _ = io.WriteString(w, page[1])
			return
		}
		var said struct{ Text string }
		_ = json.NewDecoder(r.Body).Decode(&said)
		c.mu.Lock()
		c.texts = append(c.texts, r.URL.Path+" "+said.Text)
		c.Parents.Store(r.URL.Path, r.Header.Get("Traceparent"))
		c.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"safe":%t,"by":%q}`, !strings.Contains(said.Text, "forbidden"), r.Header.Get("X-Checker-Key"))
	}))
	t.Cleanup(c.Close)
	return c
}

// Asked returns what the tools were asked since the last time.
func (c *Checker) Asked() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := strings.Join(c.texts, "|")
	c.texts = nil
	return asked
}

const Checks = `openapi: 3.1.0
info: {title: Checks, version: "1"}
servers: [{url: %q}]
paths:
  /in:
    post:
      operationId: checkInput
      requestBody: {content: {application/json: {schema: {type: object, required: [text], properties: {text: {type: string}}}}}}
      responses: {"200": {description: ok}}
  /out:
    post:
      operationId: checkOutput
      requestBody: {content: {application/json: {schema: {type: object, required: [text], properties: {text: {type: string}}}}}}
      responses: {"200": {description: ok}}
`

// Model is the API of a model. It gives the configured answer.
type Model struct {
	*httptest.Server
	Calls atomic.Int64
	Last  atomic.Value // string: the body of the latest request
	mu    sync.Mutex
	say   http.HandlerFunc
}

func NewModel(t *testing.T) *Model {
	t.Helper()
	m := new(Model)
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.Calls.Add(1)
		body, _ := io.ReadAll(r.Body)
		m.Last.Store(string(body))
		m.mu.Lock()
		say := m.say
		m.mu.Unlock()
		say(w, r)
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *Model) Says(say http.HandlerFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say = say
}

func (m *Model) SaysText(contentType, text string) {
	m.Says(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("X-Model", "m1")
		_, _ = io.WriteString(w, text)
	})
}

const Guardrailed = `kind: openagentspec:v1/agent
name: helper
description: Helps.
intent: You help.
owner: tests
capabilities: {}
guardrails:
  input: {tool_name: check-input, assertion: safe == true && by == "k1"}
  output: {tool_name: check-output, assertion: output.safe}
`

type ChatSite struct {
	*Site
	*Checker
	*Model
	N int
}

// Chatting runs a site with guardrails before a model.
func Chatting(t *testing.T, agent, options string) *ChatSite {
	t.Helper()
	return ChattingWith(t, "", agent, options)
}

// ChattingWith is chatting with handlers before the guardrails.
func ChattingWith(t *testing.T, before, agent, options string) *ChatSite {
	t.Helper()
	s := &ChatSite{NewSite(t), NewChecker(t), NewModel(t), 0}
	s.Write("agent.yaml", agent)
	s.Write("checks.yaml", fmt.Sprintf(Checks, s.Checker.URL))
	s.Start("agents {\n\tstore bolt DIR/store.db\n\ttoolset checks {\n\t\topenapi DIR/checks.yaml\n\t\tcredential header X-Checker-Key k1\n\t}\n}",
		before+"oagent DIR/agent.yaml {\n\tengagement {http.request.header.X-Talk}\n\tchat {\n"+options+"\n}\n}\nreverse_proxy "+strings.TrimPrefix(s.Model.URL, "http://"))
	return s
}

// Ask sends a request in an Engagement of its own.
func (s *ChatSite) Ask(path, body string) Response {
	s.T.Helper()
	s.N++
	return s.AskIn(strconv.Itoa(s.N), path, body)
}

func (s *ChatSite) AskIn(talk, path, body string) Response {
	s.T.Helper()
	r, err := http.NewRequest(http.MethodPost, s.Site.URL+path, strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Talk", talk)
	return s.Do(r)
}

// Shape is how one of the APIs says things.
type Shape struct {
	Path   string
	Ask    string // %s is what the user says
	Say    string // %s is what the model says
	Stream string
	Code   string // where an error has its message
}

var Shapes = map[string]Shape{
	"completions": {
		Path: "/v1/chat/completions", Ask: `{"messages":[{"role":"user","content":%q}]}`,
		Say:    `{"id":"1","choices":[{"index":0,"message":{"role":"assistant","content":%q}}]}`,
		Stream: "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\ndata: [DONE]\n\n",
		Code:   `"code":"guardrail"`,
	},
	"responses": {
		Path: "/v1/responses", Ask: `{"input":%q}`,
		Say: `{"id":"1","output":[{"type":"message","content":[{"type":"output_text","text":%q}]}]}`,
		Stream: "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":%q}\n\n" +
			"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":%q}\n\n",
		Code: `"code":"guardrail"`,
	},
	"messages": {
		Path: "/v1/messages", Ask: `{"messages":[{"role":"user","content":[{"type":"text","text":%q}]}]}`,
		Say: `{"id":"1","type":"message","content":[{"type":"text","text":%q}]}`,
		Stream: "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":%q}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":%q}}\n\n",
		Code: `"type":"permission_error"`,
	},
}
