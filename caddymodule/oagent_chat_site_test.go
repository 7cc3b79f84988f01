package caddymodule_test

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

	"github.com/fairwayhq/fairway/internal/keyword"
)

// checker is the API of a guardrail's tool, which finds a text safe that does not
// say "forbidden".
type checker struct {
	*httptest.Server
	mu      sync.Mutex
	texts   []string
	parents sync.Map // path → traceparent of the latest request
	down    atomic.Bool
	page    atomic.Pointer[[2]string] // a media type and a body with which it answers 200 in place of a verdict
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	c := new(checker)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.down.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if page := c.page.Load(); page != nil {
			w.Header().Set("Content-Type", page[0])
			_, _ = io.WriteString(w, page[1])
			return
		}
		var said struct{ Text string }
		_ = json.NewDecoder(r.Body).Decode(&said)
		c.mu.Lock()
		c.texts = append(c.texts, r.URL.Path+" "+said.Text)
		c.parents.Store(r.URL.Path, r.Header.Get("Traceparent"))
		c.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"safe":%t,"by":%q}`, !strings.Contains(said.Text, "forbidden"), r.Header.Get("X-Checker-Key"))
	}))
	t.Cleanup(c.Close)
	return c
}

// asked returns what the tools were asked since the last time.
func (c *checker) asked() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := strings.Join(c.texts, "|")
	c.texts = nil
	return asked
}

// traceparent returns that of the latest request to a tool.
func (c *checker) traceparent(path string) string {
	parent, _ := c.parents.Load(path)
	text, _ := parent.(string)
	return text
}

const checks = `openapi: 3.1.0
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

// model is the API of a model. It gives the configured answer.
type model struct {
	*httptest.Server
	calls atomic.Int64
	last  atomic.Value // string: the body of the latest request
	mu    sync.Mutex
	say   http.HandlerFunc
}

func newModel(t *testing.T) *model {
	t.Helper()
	m := new(model)
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.calls.Add(1)
		body, _ := io.ReadAll(r.Body)
		m.last.Store(string(body))
		m.mu.Lock()
		say := m.say
		m.mu.Unlock()
		say(w, r)
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *model) says(say http.HandlerFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say = say
}

func (m *model) saysText(contentType, text string) {
	m.says(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("X-Model", "m1")
		_, _ = io.WriteString(w, text)
	})
}

const guardrailed = `kind: openagentspec:v1/agent
name: helper
description: Helps.
intent: You help.
owner: tests
capabilities: {}
guardrails:
  input: {tool_name: check-input, assertion: safe == true && by == "k1"}
  output: {tool_name: check-output, assertion: output.safe}
`

type chatSite struct {
	*site
	*checker
	*model
	n int
}

// chatting runs a site with guardrails before a model.
func chatting(t *testing.T, agent, options string) *chatSite {
	t.Helper()
	return chattingWith(t, "", agent, options)
}

// chattingWith is chatting with handlers before the guardrails.
func chattingWith(t *testing.T, before, agent, options string) *chatSite {
	t.Helper()
	s := &chatSite{newSite(t), newChecker(t), newModel(t), 0}
	s.write("agent.yaml", agent)
	s.write("checks.yaml", fmt.Sprintf(checks, s.checker.URL))
	s.start("agents {\n\tstore bolt DIR/store.db\n\ttoolset checks {\n\t\topenapi DIR/checks.yaml\n\t\tcredential header X-Checker-Key k1\n\t}\n}",
		before+"oagent DIR/agent.yaml {\n\tengagement {http.request.header.X-Talk}\n\tchat {\n"+options+"\n}\n}\nreverse_proxy "+strings.TrimPrefix(s.model.URL, "http://"))
	return s
}

// ask sends a request in an Engagement of its own.
func (s *chatSite) ask(path, body string) answer {
	s.t.Helper()
	s.n++
	return s.askIn(strconv.Itoa(s.n), path, body)
}

func (s *chatSite) askIn(talk, path, body string) answer {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodPost, s.site.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Talk", talk)
	return s.do(r)
}

// shape is how one of the APIs says things.
type shape struct {
	path   string
	ask    string // %s is what the user says
	say    string // %s is what the model says
	stream string
	code   string // where an error has its message
}

var shapes = map[string]shape{
	"completions": {
		path: "/v1/chat/completions", ask: `{"model":"m","messages":[{"role":"user","content":%q}]}`,
		say:    `{"id":"1","choices":[{"index":0,"message":{"role":"assistant","content":%q}}]}`,
		stream: "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\ndata: [DONE]\n\n",
		code:   `"code":"guardrail"`,
	},
	"responses": {
		path: "/v1/responses", ask: `{"model":"m","input":%q}`,
		say: `{"id":"1","output":[{"type":"message","content":[{"type":"output_text","text":%q}]}]}`,
		stream: "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":%q}\n\n" +
			"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":%q}\n\n",
		code: `"code":"guardrail"`,
	},
	"messages": {
		path: "/v1/messages", ask: `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":%q}]}]}`,
		say: `{"id":"1","type":"message","content":[{"type":"text","text":%q}]}`,
		stream: "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":%q}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":%q}}\n\n",
		code: `"type":"permission_error"`,
	},
}

func TestChatGuardrails(t *testing.T) {
	s := chatting(t, guardrailed, "")
	for name, shape := range shapes {
		refused := func(t *testing.T, a answer, calls int64) {
			t.Helper()
			if a.status != http.StatusForbidden || !containsAll(a.body, []string{`"error":{`, shape.code, "Engagement", "ended"}) ||
				a.header.Get("Content-Type") != "application/json" {
				t.Errorf("answer %d %s", a.status, a.body)
			}
			if strings.Contains(a.body, "forbidden") || a.header.Get("X-Model") != "" {
				t.Errorf("something of the answer reached the client: %s %v", a.body, a.header)
			}
			if got := s.calls.Load(); got != calls {
				t.Errorf("the model was asked %d times, want %d", got, calls)
			}
		}
		t.Run(name+"/good", func(t *testing.T) {
			said := fmt.Sprintf(shape.say, "fine")
			s.saysText("application/json", said)
			s.asked()
			a := s.ask(shape.path, fmt.Sprintf(shape.ask, "hello"))
			if a.status != 200 || a.body != said || a.header.Get("X-Model") != "m1" {
				t.Errorf("answer %d %s", a.status, a.body)
			}
			if asked := s.asked(); asked != "/in hello|/out fine" {
				t.Errorf("the tools were asked %q", asked)
			}
			if got := s.last.Load(); got != fmt.Sprintf(shape.ask, "hello") {
				t.Errorf("the model got %s", got)
			}
		})
		t.Run(name+"/bad input", func(t *testing.T) {
			calls := s.calls.Load()
			refused(t, s.askIn(name+"in", shape.path, fmt.Sprintf(shape.ask, "something forbidden")), calls)
			s.asked()
			a := s.askIn(name+"in", shape.path, fmt.Sprintf(shape.ask, "hello"))
			if a.status != http.StatusForbidden || !keyword.All(a.body, "ended guardrails.input.assertion") || s.calls.Load() != calls || s.asked() != "" {
				t.Errorf("after the end: %d %s", a.status, a.body)
			}
		})
		t.Run(name+"/bad output", func(t *testing.T) {
			s.saysText("application/json", fmt.Sprintf(shape.say, "something forbidden"))
			calls := s.calls.Load()
			refused(t, s.ask(shape.path, fmt.Sprintf(shape.ask, "hello")), calls+1)
		})
		t.Run(name+"/stream", func(t *testing.T) {
			said := fmt.Sprintf(shape.stream, "fi", "ne")
			s.saysText("text/event-stream", said)
			s.asked()
			a := s.ask(shape.path, strings.Replace(fmt.Sprintf(shape.ask, "hello"), "{", `{"stream":true,`, 1))
			if a.status != 200 || a.body != said || a.header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("answer %d %s", a.status, a.body)
			}
			if asked := s.asked(); asked != "/in hello|/out fine" {
				t.Errorf("the tools were asked %q", asked)
			}
		})
		t.Run(name+"/bad stream", func(t *testing.T) {
			s.saysText("text/event-stream", fmt.Sprintf(shape.stream, "forbid", "den"))
			calls := s.calls.Load()
			refused(t, s.ask(shape.path, fmt.Sprintf(shape.ask, "hello")), calls+1)
		})
		t.Run(name+"/bad JSON", func(t *testing.T) {
			calls := s.calls.Load()
			if a := s.ask(shape.path, `{"messages":`); a.status != http.StatusBadRequest || !strings.Contains(a.body, "invalid_request_error") || s.calls.Load() != calls {
				t.Errorf("answer %d %s", a.status, a.body)
			}
		})
		t.Run(name+"/tool down", func(t *testing.T) {
			calls := s.calls.Load()
			s.down.Store(true)
			defer s.down.Store(false)
			a := s.ask(shape.path, fmt.Sprintf(shape.ask, "hello"))
			if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || s.calls.Load() != calls {
				t.Errorf("answer %d %s", a.status, a.body)
			}
		})
	}
	t.Run("tool down after the answer", func(t *testing.T) {
		s.says(func(w http.ResponseWriter, _ *http.Request) {
			s.down.Store(true)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, fmt.Sprintf(shapes["messages"].say, "leak"))
		})
		defer s.down.Store(false)
		if a := s.ask("/v1/messages", fmt.Sprintf(shapes["messages"].ask, "hello")); a.status != http.StatusServiceUnavailable || strings.Contains(a.body, "leak") {
			t.Errorf("answer %d %s", a.status, a.body)
		}
	})
	t.Run("what is no POST to a model is judged as everything else", func(t *testing.T) {
		calls := s.calls.Load()
		for _, path := range []string{"/v1/messages/", "//v1/messages", "/V1/messages", "/v1/messages/batches", "/v1/chat/completions/1"} {
			if a := s.ask(path, fmt.Sprintf(shapes["messages"].ask, "hello")); a.status < 400 || s.calls.Load() != calls {
				t.Errorf("%s: answer %d %s", path, a.status, a.body)
			}
		}
	})
}

func TestChat_goes_on_after_a_guardrail_tool_failed(t *testing.T) {
	const path, body = "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`
	// The assertion holds for whatever is not one word.
	s := chatting(t, strings.Replace(guardrailed, `safe == true && by == "k1"`, `output != "forbidden" && safe`, 1), "")
	s.saysText("application/json", fmt.Sprintf(shapes["completions"].say, "fine"))
	for _, page := range [][2]string{
		{"text/html", "<html>maintenance</html>"},
		{"text/html; charset=utf-8", `{"safe":true}`},
		{"text/plain", "maintenance"},
		{"application/json", `{}`},
		{"application/json", `{"error":"overloaded"}`},
	} {
		s.page.Store(&page)
		calls := s.calls.Load()
		if a := s.askIn("talk", path, body); a.status != 503 || !strings.Contains(a.body, "unchecked") || a.header.Get("Retry-After") == "" || s.calls.Load() != calls {
			t.Errorf("%v: %d %s", page, a.status, a.body)
		}
	}
	s.page.Store(nil)
	if a := s.askIn("talk", path, body); a.status != 200 {
		t.Errorf("the tool works again: %d %s", a.status, a.body)
	}
}

func TestChat_checks_every_role_unless_roles_narrows_it(t *testing.T) {
	const path = "/v1/chat/completions"
	body := `{"messages":[{"role":"system","content":"forbidden"},{"role":"user","content":"hi"}]}`
	for options, status := range map[string]int{"": 403, "roles user": 200, "roles user assistant": 200, "roles system": 403} {
		s := chatting(t, guardrailed, options)
		s.saysText("application/json", fmt.Sprintf(shapes["completions"].say, "fine"))
		if a := s.askIn("talk", path, body); a.status != status {
			t.Errorf("%q: %d %s", options, a.status, a.body)
		}
		if a := s.askIn("other", path, `{"messages":[{"role":"user","content":4111111111111111}]}`); a.status != 403 || !strings.Contains(a.body, "unchecked_content") {
			t.Errorf("%q: a number: %d %s", options, a.status, a.body)
		}
	}
}

func TestChatConversation(t *testing.T) {
	s := chatting(t, guardrailed, "")
	s.saysText("application/json", fmt.Sprintf(shapes["completions"].say, "fine"))
	const path = "/v1/chat/completions"
	turn := func(messages ...string) string {
		var list []string
		for i, m := range messages {
			role := "user"
			if i%2 == 1 {
				role = "assistant"
			}
			list = append(list, fmt.Sprintf(`{"role":%q,"content":%q}`, role, m))
		}
		return `{"messages":[` + strings.Join(list, ",") + `]}`
	}
	for _, step := range []struct{ body, asked string }{
		{turn("one"), "/in one|/out fine"},
		{turn("one", "fine", "two"), "/in fine\n\ntwo|/out fine"},
		{turn("one", "fine", "two", "fine", "two"), "/in two|/out fine"},
		{turn("new", "fine", "two"), "/in new\n\ntwo|/out fine"},
	} {
		if a := s.askIn("talk", path, step.body); a.status != 200 {
			t.Fatalf("answer %d %s", a.status, a.body)
		}
		if asked := s.asked(); asked != step.asked {
			t.Errorf("the tools were asked %q, want %q", asked, step.asked)
		}
	}
	if s.askIn("other", path, turn("one", "fine", "two")); !strings.HasPrefix(s.asked(), "/in one\n\nfine\n\ntwo") {
		t.Error("what passed in one Engagement was taken for passed in another")
	}
	if a := s.askIn("talk", path, turn("forbidden", "fine", "two")); a.status != http.StatusForbidden {
		t.Errorf("a message in the middle got by: %d %s", a.status, a.body)
	}
}

func TestChatAnswersThatCannotBeChecked(t *testing.T) {
	s := chatting(t, guardrailed, "max_input 2KB\nmax_output 4KB")
	const path = "/v1/chat/completions"
	ask := fmt.Sprintf(shapes["completions"].ask, "hello")
	for name, test := range map[string]struct {
		say    http.HandlerFunc
		status int
	}{
		"larger than the limit": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, shapes["completions"].say, strings.Repeat("leak ", 4000))
		}, http.StatusBadGateway},
		"a stream larger than the limit": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 4000 {
				_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"leak\"}}]}\n\n")
			}
		}, http.StatusBadGateway},
		"compressed": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "leak")
		}, http.StatusBadGateway},
		"of another kind": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, "leak")
		}, http.StatusBadGateway},
		"broken off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"leak\"}}]}\n\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, http.StatusBadGateway},
		"an image": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"choices":[{"message":{"audio":{"data":"leak"}}}]}`)
		}, http.StatusForbidden},
		"an error that says more": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":{"message":"slow down","failed_generation":"leak"}}`)
		}, http.StatusTooManyRequests},
	} {
		t.Run(name, func(t *testing.T) {
			s.says(test.say)
			a := s.ask(path, ask)
			if a.status != test.status || !strings.Contains(a.body, `"error":{"message":`) {
				t.Errorf("answer %d %s", a.status, a.body)
			}
			if strings.Contains(a.body, "leak") {
				t.Errorf("something of the answer reached the client: %s", a.body)
			}
		})
	}
	t.Run("a request larger than the limit", func(t *testing.T) {
		calls := s.calls.Load()
		if a := s.ask(path, fmt.Sprintf(shapes["completions"].ask, strings.Repeat("x", 3000))); a.status != http.StatusRequestEntityTooLarge || s.calls.Load() != calls {
			t.Errorf("answer %d %s", a.status, a.body)
		}
	})
	t.Run("in the background", func(t *testing.T) {
		calls := s.calls.Load()
		if a := s.ask("/v1/responses", `{"input":"hello","background":true}`); a.status != http.StatusForbidden || s.calls.Load() != calls {
			t.Errorf("answer %d %s", a.status, a.body)
		}
	})
}

// While a stream is held the client is kept waiting by comments, and what follows
// is an event, whatever it is.
func TestChatKeepAlive(t *testing.T) {
	s := chatting(t, guardrailed, "keep_alive 1ms")
	for name, test := range map[string]struct{ first, second, want string }{
		"good": {"fi", "ne", "data: [DONE]\n\n"},
		"bad":  {"forbid", "den", `"code":"guardrail"}}` + "\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			begun := make(chan struct{})
			s.says(func(w http.ResponseWriter, _ *http.Request) {
				<-begun
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprintf(w, shapes["completions"].stream, test.first, test.second)
			})
			s.n++
			r, _ := http.NewRequest(http.MethodPost, s.site.url+"/v1/chat/completions",
				strings.NewReader(`{"stream":true,"messages":[{"role":"user","content":"hello"}]}`))
			r.Header.Set("X-Talk", "alive"+name)
			response, err := client.Do(r) // the header comes with the first comment
			close(begun)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
				t.Fatalf("answer %d %v", response.StatusCode, err)
			}
			if !strings.HasPrefix(string(body), ": ") || !strings.HasSuffix(string(body), test.want) || strings.Contains(string(body), "forbid") {
				t.Errorf("stream %q", body)
			}
		})
	}
}

func TestChatWithoutGuardrails(t *testing.T) {
	s := chatting(t, strings.Split(guardrailed, "guardrails:")[0], "")
	s.saysText("text/plain", "whatever")
	if a := s.ask("/v1/messages", "no JSON"); a.status != 200 || a.body != "whatever" || s.asked() != "" {
		t.Errorf("answer %d %s", a.status, a.body)
	}
}

func TestChatConfig(t *testing.T) {
	for block, want := range map[string]string{
		"chat /v1/completions":                         "/chat/completions /responses /messages",
		"chat v1/messages":                             "slash",
		"chat {\n\troles ghost\n}":                     "user system developer assistant tool",
		"chat {\n\tallow_media yes\n}":                 "wrong argument count",
		"chat {\n\tnovelty\n}":                         "unrecognized chat subdirective",
		"chat\nchat":                                   "twice",
		"reviewer supervisor":                          "reviewer agent users",
		"reviewer supervisor a\nreviewer supervisor b": "twice",
	} {
		if _, _, err := adapt(":8080 {\noagent a.yaml {\n" + block + "\n}\n}"); err == nil || !keyword.All(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", block, err, want)
		}
	}
}
