package chat_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestChatGuardrails(t *testing.T) {
	s := sitetest.Chatting(t, sitetest.Guardrailed, "")
	for name, shape := range sitetest.Shapes {
		refused := func(t *testing.T, a sitetest.Response, calls int64) {
			t.Helper()
			if a.Status != http.StatusForbidden || !sitetest.ContainsAll(a.Body, []string{`"error":{`, shape.Code, "Engagement", "ended"}) ||
				a.Header.Get("Content-Type") != "application/json" {
				t.Errorf("answer %d %s", a.Status, a.Body)
			}
			if strings.Contains(a.Body, "forbidden") || a.Header.Get("X-Model") != "" {
				t.Errorf("something of the answer reached the client: %s %v", a.Body, a.Header)
			}
			if got := s.Calls.Load(); got != calls {
				t.Errorf("the model was asked %d times, want %d", got, calls)
			}
		}
		t.Run(name+"/good", func(t *testing.T) {
			said := fmt.Sprintf(shape.Say, "fine")
			s.SaysText("application/json", said)
			s.Asked()
			a := s.Ask(shape.Path, fmt.Sprintf(shape.Ask, "hello"))
			if a.Status != 200 || a.Body != said || a.Header.Get("X-Model") != "m1" {
				t.Errorf("answer %d %s", a.Status, a.Body)
			}
			if asked := s.Asked(); asked != "/in hello|/out fine" {
				t.Errorf("the tools were asked %q", asked)
			}
			if got := s.Last.Load(); got != fmt.Sprintf(shape.Ask, "hello") {
				t.Errorf("the model got %s", got)
			}
		})
		t.Run(name+"/bad input", func(t *testing.T) {
			calls := s.Calls.Load()
			refused(t, s.AskIn(name+"in", shape.Path, fmt.Sprintf(shape.Ask, "something forbidden")), calls)
			s.Asked()
			a := s.AskIn(name+"in", shape.Path, fmt.Sprintf(shape.Ask, "hello"))
			if a.Status != http.StatusForbidden || !testkit.ContainsAll(a.Body, "ended guardrails.input.assertion") {
				t.Errorf("after the end: got %d %s, want 403 by guardrails.input.assertion", a.Status, a.Body)
			}
			if n, got := s.Calls.Load(), s.Asked(); n != calls || got != "" {
				t.Errorf("after the end: got %d calls of the guardrail and the request %q of the model, want %d and none", n, got, calls)
			}
		})
		t.Run(name+"/bad output", func(t *testing.T) {
			s.SaysText("application/json", fmt.Sprintf(shape.Say, "something forbidden"))
			calls := s.Calls.Load()
			refused(t, s.Ask(shape.Path, fmt.Sprintf(shape.Ask, "hello")), calls+1)
		})
		t.Run(name+"/stream", func(t *testing.T) {
			said := fmt.Sprintf(shape.Stream, "fi", "ne")
			s.SaysText("text/event-stream", said)
			s.Asked()
			a := s.Ask(shape.Path, strings.Replace(fmt.Sprintf(shape.Ask, "hello"), "{", `{"stream":true,`, 1))
			if a.Status != 200 || a.Body != said || a.Header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("answer %d %s", a.Status, a.Body)
			}
			if asked := s.Asked(); asked != "/in hello|/out fine" {
				t.Errorf("the tools were asked %q", asked)
			}
		})
		t.Run(name+"/bad stream", func(t *testing.T) {
			s.SaysText("text/event-stream", fmt.Sprintf(shape.Stream, "forbid", "den"))
			calls := s.Calls.Load()
			refused(t, s.Ask(shape.Path, fmt.Sprintf(shape.Ask, "hello")), calls+1)
		})
		t.Run(name+"/bad JSON", func(t *testing.T) {
			calls := s.Calls.Load()
			if a := s.Ask(shape.Path, `{"messages":`); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "invalid_request_error") || s.Calls.Load() != calls {
				t.Errorf("answer %d %s", a.Status, a.Body)
			}
		})
		t.Run(name+"/tool down", func(t *testing.T) {
			calls := s.Calls.Load()
			s.Down.Store(true)
			defer s.Down.Store(false)
			a := s.Ask(shape.Path, fmt.Sprintf(shape.Ask, "hello"))
			if a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || s.Calls.Load() != calls {
				t.Errorf("answer %d %s", a.Status, a.Body)
			}
		})
	}
	t.Run("tool down after the answer", func(t *testing.T) {
		s.Says(func(w http.ResponseWriter, _ *http.Request) {
			s.Down.Store(true)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, fmt.Sprintf(sitetest.Shapes["messages"].Say, "leak"))
		})
		defer s.Down.Store(false)
		if a := s.Ask("/v1/messages", fmt.Sprintf(sitetest.Shapes["messages"].Ask, "hello")); a.Status != http.StatusServiceUnavailable || strings.Contains(a.Body, "leak") {
			t.Errorf("answer %d %s", a.Status, a.Body)
		}
	})
	t.Run("what is no POST to a model is judged as everything else", func(t *testing.T) {
		calls := s.Calls.Load()
		for _, path := range []string{"/v1/messages/", "//v1/messages", "/V1/messages", "/v1/messages/batches", "/v1/chat/completions/1"} {
			if a := s.Ask(path, fmt.Sprintf(sitetest.Shapes["messages"].Ask, "hello")); a.Status < 400 || s.Calls.Load() != calls {
				t.Errorf("%s: answer %d %s", path, a.Status, a.Body)
			}
		}
	})
}

func TestChat_goes_on_after_a_guardrail_tool_failed(t *testing.T) {
	const path, body = "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`
	// The assertion holds for whatever is not one word.
	s := sitetest.Chatting(t, strings.Replace(sitetest.Guardrailed, `safe == true && by == "k1"`, `output != "forbidden" && safe`, 1), "")
	s.SaysText("application/json", fmt.Sprintf(sitetest.Shapes["completions"].Say, "fine"))
	for _, page := range [][2]string{
		{"text/html", "<html>maintenance</html>"},
		{"text/html; charset=utf-8", `{"safe":true}`},
		{"text/plain", "maintenance"},
		{"application/json", `{}`},
		{"application/json", `{"error":"overloaded"}`},
	} {
		s.Page.Store(&page)
		calls := s.Calls.Load()
		a := s.AskIn("talk", path, body)
		if a.Status != 503 || !strings.Contains(a.Body, "unchecked") {
			t.Errorf("%v: got %d %s, want 503, unchecked", page, a.Status, a.Body)
		}
		if n := s.Calls.Load(); a.Header.Get("Retry-After") == "" || n != calls {
			t.Errorf("%v: got the headers %v, want Retry-After; got %d calls, want %d", page, a.Header, n, calls)
		}
	}
	s.Page.Store(nil)
	if a := s.AskIn("talk", path, body); a.Status != 200 {
		t.Errorf("the tool works again: %d %s", a.Status, a.Body)
	}
}

func TestChat_checks_every_role_unless_roles_narrows_it(t *testing.T) {
	const path = "/v1/chat/completions"
	body := `{"messages":[{"role":"system","content":"forbidden"},{"role":"user","content":"hi"}]}`
	for options, status := range map[string]int{"": 403, "roles user": 200, "roles user assistant": 200, "roles system": 403} {
		s := sitetest.Chatting(t, sitetest.Guardrailed, options)
		s.SaysText("application/json", fmt.Sprintf(sitetest.Shapes["completions"].Say, "fine"))
		if a := s.AskIn("talk", path, body); a.Status != status {
			t.Errorf("%q: %d %s", options, a.Status, a.Body)
		}
		if a := s.AskIn("other", path, `{"messages":[{"role":"user","content":4111111111111111}]}`); a.Status != 403 || !strings.Contains(a.Body, "unchecked_content") {
			t.Errorf("%q: a number: %d %s", options, a.Status, a.Body)
		}
	}
}

func TestChatConversation(t *testing.T) {
	s := sitetest.Chatting(t, sitetest.Guardrailed, "")
	s.SaysText("application/json", fmt.Sprintf(sitetest.Shapes["completions"].Say, "fine"))
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
		if a := s.AskIn("talk", path, step.body); a.Status != 200 {
			t.Fatalf("answer %d %s", a.Status, a.Body)
		}
		if asked := s.Asked(); asked != step.asked {
			t.Errorf("the tools were asked %q, want %q", asked, step.asked)
		}
	}
	if s.AskIn("other", path, turn("one", "fine", "two")); !strings.HasPrefix(s.Asked(), "/in one\n\nfine\n\ntwo") {
		t.Error("what passed in one Engagement was taken for passed in another")
	}
	if a := s.AskIn("talk", path, turn("forbidden", "fine", "two")); a.Status != http.StatusForbidden {
		t.Errorf("a message in the middle got by: %d %s", a.Status, a.Body)
	}
}

func TestChat_answers_that_cannot_be_checked(t *testing.T) {
	s := sitetest.Chatting(t, sitetest.Guardrailed, "max_input 2KB\nmax_output 4KB")
	const path = "/v1/chat/completions"
	ask := fmt.Sprintf(sitetest.Shapes["completions"].Ask, "hello")
	for name, test := range map[string]struct {
		say    http.HandlerFunc
		status int
	}{
		"larger than the limit": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, sitetest.Shapes["completions"].Say, strings.Repeat("leak ", 4000))
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
			s.Says(test.say)
			a := s.Ask(path, ask)
			if a.Status != test.status || !strings.Contains(a.Body, `"error":{"message":`) {
				t.Errorf("answer %d %s", a.Status, a.Body)
			}
			if strings.Contains(a.Body, "leak") {
				t.Errorf("something of the answer reached the client: %s", a.Body)
			}
		})
	}
	t.Run("a request larger than the limit", func(t *testing.T) {
		calls := s.Calls.Load()
		if a := s.Ask(path, fmt.Sprintf(sitetest.Shapes["completions"].Ask, strings.Repeat("x", 3000))); a.Status != http.StatusRequestEntityTooLarge || s.Calls.Load() != calls {
			t.Errorf("answer %d %s", a.Status, a.Body)
		}
	})
	t.Run("in the background", func(t *testing.T) {
		calls := s.Calls.Load()
		if a := s.Ask("/v1/responses", `{"input":"hello","background":true}`); a.Status != http.StatusForbidden || s.Calls.Load() != calls {
			t.Errorf("answer %d %s", a.Status, a.Body)
		}
	})
}

// While a stream is held the client is kept waiting by comments, and what follows
// is an event, whatever it is.
func TestChat_keep_alive(t *testing.T) {
	s := sitetest.Chatting(t, sitetest.Guardrailed, "keep_alive 1ms")
	for name, test := range map[string]struct{ first, second, want string }{
		"good": {"fi", "ne", "data: [DONE]\n\n"},
		"bad":  {"forbid", "den", `"code":"guardrail"}}` + "\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			begun := make(chan struct{})
			s.Says(func(w http.ResponseWriter, _ *http.Request) {
				<-begun
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprintf(w, sitetest.Shapes["completions"].Stream, test.first, test.second)
			})
			s.N++
			r, _ := http.NewRequest(http.MethodPost, s.Site.URL+"/v1/chat/completions",
				strings.NewReader(`{"stream":true,"messages":[{"role":"user","content":"hello"}]}`))
			r.Header.Set("X-Talk", "alive"+name)
			response, err := sitetest.Client.Do(r) // the header comes with the first comment
			close(begun)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
				t.Fatalf("answer %d %v", response.StatusCode, err)
			}
			if !strings.HasPrefix(string(body), ":\n\n") || !strings.HasSuffix(string(body), test.want) || strings.Contains(string(body), "forbid") {
				t.Errorf("stream %q", body)
			}
		})
	}
}

func TestChat_without_guardrails(t *testing.T) {
	s := sitetest.Chatting(t, strings.Split(sitetest.Guardrailed, "guardrails:")[0], "")
	s.SaysText("text/plain", "whatever")
	if a := s.Ask("/v1/messages", "no JSON"); a.Status != 200 || a.Body != "whatever" || s.Asked() != "" {
		t.Errorf("answer %d %s", a.Status, a.Body)
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
		if _, _, err := sitetest.Adapt(":8080 {\noagent a.yaml {\n" + block + "\n}\n}"); err == nil || !testkit.ContainsAll(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", block, err, want)
		}
	}
}
