package chat_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestChat_input_on_the_wire says something forbidden to the model in a request that
// is odd: the model is not asked.
func TestChat_input_on_the_wire(t *testing.T) {
	s := sitetest.Chatting(t, sitetest.Guardrailed, "")
	s.SaysText("application/json", fmt.Sprintf(sitetest.Shapes["completions"].Say, "fine"))
	const post = "POST /v1/chat/completions HTTP/1.1"
	body := fmt.Sprintf(sitetest.Shapes["completions"].Ask, "forbidden")
	chunked := func(chunks, trailer string) string {
		return post + "\r\nHost: 127.0.0.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n" + trailer + "\r\n" + chunks
	}
	chunk := func(text, extension string) string { return fmt.Sprintf("%x%s\r\n%s\r\n", len(text), extension, text) }
	for name, raw := range map[string]string{
		"plain":                    sitetest.RawRequest(post, "", body),
		"two slashes":              sitetest.RawRequest("POST //v1/chat/completions HTTP/1.1", "", body),
		"a slash at the end":       sitetest.RawRequest("POST /v1/chat/completions/ HTTP/1.1", "", body),
		"an encoded slash":         sitetest.RawRequest("POST /v1/chat%2Fcompletions HTTP/1.1", "", body),
		"an encoded letter":        sitetest.RawRequest("POST /v1/%63hat/completions HTTP/1.1", "", body),
		"an encoded letter twice":  sitetest.RawRequest("POST /v1/%2563hat/completions HTTP/1.1", "", body),
		"another case":             sitetest.RawRequest("POST /v1/Chat/Completions HTTP/1.1", "", body),
		"a dot":                    sitetest.RawRequest("POST /v1/./chat/completions HTTP/1.1", "", body),
		"two dots":                 sitetest.RawRequest("POST /x/../v1/chat/completions HTTP/1.1", "", body),
		"encoded dots":             sitetest.RawRequest("POST /x/%2e%2e/v1/chat/completions HTTP/1.1", "", body),
		"a parameter of the path":  sitetest.RawRequest("POST /v1/chat/completions;x=y HTTP/1.1", "", body),
		"a null byte":              sitetest.RawRequest("POST /v1/chat/completions%00 HTTP/1.1", "", body),
		"a query":                  sitetest.RawRequest("POST /v1/chat/completions?stream=true&path=/v1/models HTTP/1.1", "", body),
		"a fragment":               sitetest.RawRequest("POST /v1/chat/completions#x HTTP/1.1", "", body),
		"an absolute target":       sitetest.RawRequest("POST http://127.0.0.1/v1/chat/completions HTTP/1.1", "", body),
		"a target elsewhere":       sitetest.RawRequest("POST http://example.com/v1/chat/completions HTTP/1.1", "", body),
		"no path":                  sitetest.RawRequest("POST ?/v1/chat/completions HTTP/1.1", "", body),
		"PUT":                      sitetest.RawRequest("PUT /v1/chat/completions HTTP/1.1", "", body),
		"PATCH":                    sitetest.RawRequest("PATCH /v1/chat/completions HTTP/1.1", "", body),
		"GET with a body":          sitetest.RawRequest("GET /v1/chat/completions HTTP/1.1", "", body),
		"HEAD":                     sitetest.RawRequest("HEAD /v1/chat/completions HTTP/1.1", "", body),
		"OPTIONS":                  sitetest.RawRequest("OPTIONS /v1/chat/completions HTTP/1.1", "", body),
		"post in small letters":    sitetest.RawRequest("post /v1/chat/completions HTTP/1.1", "", body),
		"a method override":        sitetest.RawRequest("GET /v1/chat/completions HTTP/1.1", "X-HTTP-Method-Override: POST\r\n", body),
		"another URL in a header":  sitetest.RawRequest("POST /v1/models HTTP/1.1", "X-Original-URL: /v1/chat/completions\r\n", body),
		"HTTP/1.0":                 sitetest.RawRequest("POST /v1/chat/completions HTTP/1.0", "", body),
		"Expect":                   sitetest.RawRequest(post, "Expect: 100-continue\r\n", body),
		"a form":                   sitetest.RawRequest(post, "Content-Type: application/x-www-form-urlencoded\r\n", body),
		"parts":                    sitetest.RawRequest(post, "Content-Type: multipart/form-data; boundary=x\r\n", "--x\r\nContent-Disposition: form-data; name=messages\r\n\r\nforbidden\r\n--x--\r\n"),
		"text":                     sitetest.RawRequest(post, "Content-Type: text/plain\r\n", "forbidden"),
		"compressed":               sitetest.RawRequest(post, "Content-Type: application/json\r\nContent-Encoding: gzip\r\n", sitetest.Gzipped(t, body)),
		"compressed, said twice":   sitetest.RawRequest(post, "Content-Encoding: identity\r\nContent-Encoding: gzip\r\n", sitetest.Gzipped(t, body)),
		"compressed, not said":     sitetest.RawRequest(post, "", sitetest.Gzipped(t, body)),
		"a byte order mark":        sitetest.RawRequest(post, "", "\xef\xbb\xbf"+body),
		"UTF-16":                   sitetest.RawRequest(post, "Content-Type: application/json; charset=utf-16\r\n", sitetest.InUTF16(body)),
		"a name twice":             sitetest.RawRequest(post, "", strings.Replace(body, `{`, `{"messages":[],`, 1)),
		"escapes":                  sitetest.RawRequest(post, "", strings.ReplaceAll(body, "forbidden", `\u0066orbidden`)),
		"two documents":            sitetest.RawRequest(post, "", `{"messages":[{"role":"user","content":"hi"}]}`+body),
		"chunks":                   chunked(chunk(body[:20], "")+chunk(body[20:], "")+"0\r\n\r\n", ""),
		"extensions of chunks":     chunked(chunk(body, `;x="forbidden"`)+"0\r\n\r\n", ""),
		"a trailer":                chunked(chunk(body, "")+"0\r\nContent-Encoding: gzip\r\n\r\n", "Trailer: Content-Encoding\r\n"),
		"chunks without an end":    chunked(chunk(body, "")+"5\r\nxx", "") + sitetest.Unfinished,
		"less than was said":       strings.Replace(sitetest.RawRequest(post, "", body), "Content-Length: ", "Content-Length: 1", 1) + sitetest.Unfinished,
		"two lengths":              sitetest.RawRequest(post, "Content-Length: 1\r\n", body),
		"a length and chunks":      sitetest.RawRequest(post, "Transfer-Encoding: chunked\r\n", chunk(body, "")+"0\r\n\r\n"),
		"a second request within":  sitetest.RawRequest(post, "", `{"messages":[{"role":"user","content":"hi"}],"forbidden":`),
		"a header after a bare CR": sitetest.RawRequest(post, "X-A: b\rTransfer-Encoding: chunked\r\n", body),
		"an upgrade":               strings.Replace(sitetest.RawRequest(post, "Upgrade: websocket\r\n", body), "Connection: close", "Connection: Upgrade, close", 1),
		"a preface of HTTP/2":      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + sitetest.RawRequest(post, "", body),
		"a role with a space":      sitetest.RawRequest(post, "", `{"messages":[{"role":"system ","content":"forbidden"}]}`),
	} {
		t.Run(name, func(t *testing.T) {
			s := *s
			s.Site = s.Site.With(t)
			calls := s.Calls.Load()
			// An Engagement of its own, because most end.
			answer := s.Wire(strings.Replace(raw, "Host: 127.0.0.1\r\n", fmt.Sprintf("Host: 127.0.0.1\r\nX-Talk: wire %s\r\n", name), 1))
			if s.Calls.Load() != calls {
				t.Errorf("the model was asked %s; answer %s", s.Last.Load(), answer)
			}
			if strings.Contains(answer, "fine") {
				t.Errorf("answer %s", answer)
			}
		})
	}
}

// TestChat_passes_on_what_was_read looks at what of an odd request reaches the model.
func TestChat_passes_on_what_was_read(t *testing.T) {
	s := sitetest.Chatting(t, strings.Replace(sitetest.Guardrailed, "  output:", "  #", 1), "")
	var got http.Header
	var trailer http.Header
	s.Says(func(w http.ResponseWriter, r *http.Request) {
		got, trailer = r.Header.Clone(), r.Trailer.Clone()
		if r.Header.Get("Upgrade") != "" {
			w.Header().Set("Upgrade", "websocket")
			w.Header().Set("Connection", "Upgrade")
			w.WriteHeader(http.StatusSwitchingProtocols)
			return
		}
		_, _ = io.WriteString(w, "fine")
	})
	body := fmt.Sprintf(sitetest.Shapes["completions"].Ask, "hello")
	headers := "Content-Type: application/json; charset=utf-7\r\nX-HTTP-Method-Override: GET\r\nX_Method_Override: GET\r\nX-Original-URL: /x\r\nX-Override-URL: /x\r\n" +
		"Path-Info: /x\r\nUpgrade: websocket\r\nHTTP2-Settings: AAMAAABk\r\n"
	for name, raw := range map[string]string{
		"with a length": sitetest.RawRequest("POST /v1/chat/completions HTTP/1.1", headers, body),
		"in chunks": fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n%sTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n%x\r\n%s\r\n0\r\nX-T: forbidden\r\n\r\n",
			headers, len(body), body),
	} {
		t.Run(name, func(t *testing.T) {
			raw := strings.Replace(raw, "Connection: close\r\n", "", 1)
			raw = strings.Replace(raw, "Upgrade: websocket\r\n", "Connection: Upgrade, close\r\nUpgrade: websocket\r\n", 1)
			answer := s.Wire(raw)
			if !strings.HasPrefix(answer, "HTTP/1.1 200") || s.Last.Load() != body {
				t.Fatalf("the model was asked %v; answer %s", s.Last.Load(), answer)
			}
			for name, values := range got {
				if strings.Contains(name, "Override") || strings.Contains(name, "Url") || slices.Contains([]string{"Path-Info", "Upgrade", "Http2-Settings"}, name) {
					t.Errorf("the model got %s: %q, want no such header", name, values)
				}
			}
			if got.Get("Content-Type") != "application/json" || len(trailer) != 0 {
				t.Errorf("headers %v, trailers %v", got, trailer)
			}
		})
	}
}

// TestChat_output_on_the_wire has the model's API say something forbidden where it
// does not belong: nothing of it reaches the client.
func TestChat_output_on_the_wire(t *testing.T) {
	s := sitetest.Chatting(t, sitetest.Guardrailed, "")
	fine := fmt.Sprintf(sitetest.Shapes["completions"].Say, "fine")
	say := func(status int, body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for i := 0; i < len(header); i += 2 {
				w.Header().Add(header[i], header[i+1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	hijack := func(raw string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, strings.Replace(raw, "200 OK\r\n", "200 OK\r\nConnection: close\r\n", 1))
			conn.Close()
		}
	}
	for name, test := range map[string]struct {
		say    http.HandlerFunc
		status int // 0 for any
	}{
		"a message of an error":             {say(400, `{"error":{"message":"cannot parse: forbidden","code":"x"}}`), 403},
		"a message of a server's error":     {say(500, `{"error":{"message":"cannot parse: forbidden"}}`), 403},
		"a code of an error":                {say(422, `{"error":{"message":"fine","code":"it said: forbidden"}}`), 422},
		"an error beside the error":         {say(422, `{"error":{"message":"fine","param":"forbidden"},"detail":"forbidden"}`), 422},
		"an error that is text":             {say(500, `forbidden`), 500},
		"a redirect":                        {say(307, fine, "Location", "https://example.com/forbidden"), 502},
		"not modified":                      {say(304, "", "X-Said", "forbidden"), 502},
		"a part":                            {say(206, `en":"x"}forbidden`, "Content-Range", "bytes 1-2/3"), 502},
		"a type twice":                      {say(200, fine, "Content-Type", "text/html; x=forbidden"), 200},
		"an encoding twice":                 {say(200, fine, "Content-Encoding", "identity", "Content-Encoding", "x-forbidden"), 0},
		"a digest":                          {say(200, fine, "Content-Digest", "forbidden", "Etag", `"forbidden"`), 200},
		"what the agent exposes":            {say(200, fine, "OAgent-Exposes", `{"a":"forbidden"}`), 200},
		"a name twice":                      {say(200, `{"choices":[{"message":{"content":"fine","content":"forbidden"}}]}`), 502},
		"two documents":                     {say(200, fine+`{"x":"forbidden"}`), 502},
		"lines":                             {say(200, fine+"\n"+fine+"\n"), 502},
		"after the end":                     {hijack("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}forbidden"), 200},
		"less than was said":                {hijack("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{\"x\":\"forbidden\"}"), 502},
		"chunks without an end":             {hijack("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n11\r\n{\"x\":\"forbidden\"}\r\n"), 502},
		"extensions of chunks":              {hijack("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2;x=forbidden\r\n{}\r\n0\r\n\r\n"), 200},
		"early hints":                       {hijack("HTTP/1.1 103 Early Hints\r\nLink: </forbidden>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"), 200},
		"another protocol":                  {hijack("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nforbidden"), 0},
		"HTTP/1.0":                          {hijack("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"x\":\"forbidden\"}"), 403},
		"nothing":                           {hijack(""), 0},
		"no HTTP":                           {hijack("forbidden\r\n\r\n"), 0},
		"a trailer":                         {hijack("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTrailer: X-Said\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Said: forbidden\r\n\r\n"), 200},
		"a trailer that was not announced":  {hijack("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-Said: forbidden\r\n\r\n"), 200},
		"a stream that ends in half a rune": {say(200, "", "Content-Type", "x"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := *s
			s.Site = s.Site.With(t)
			s.Says(test.say)
			answer := s.Wire(sitetest.RawRequest("POST /v1/chat/completions HTTP/1.1", fmt.Sprintf("X-Talk: out %s\r\n", name), fmt.Sprintf(sitetest.Shapes["completions"].Ask, "hello")))
			if strings.Contains(answer, "forbidden") {
				t.Errorf("something of the answer reached the client: %s", answer)
			}
			if test.status != 0 && !strings.HasPrefix(answer, fmt.Sprintf("HTTP/1.1 %d", test.status)) {
				t.Errorf("want %d: %s", test.status, answer)
			}
		})
	}
}

// TestChat_stream_in_pieces cuts a stream in every place, the middle of a letter too.
func TestChat_stream_in_pieces(t *testing.T) {
	s := sitetest.Chatting(t, sitetest.Guardrailed, "")
	stream := fmt.Sprintf(sitetest.Shapes["completions"].Stream, "é€😀 ", "ok")
	for _, size := range []int{1, 2, 3, 7} {
		s.Says(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			for rest := stream; rest != ""; {
				n := min(size, len(rest))
				_, _ = io.WriteString(w, rest[:n])
				_ = http.NewResponseController(w).Flush()
				rest = rest[n:]
			}
		})
		s.Asked()
		a := s.Ask("/v1/chat/completions", strings.Replace(fmt.Sprintf(sitetest.Shapes["completions"].Ask, "hello"), "{", `{"stream":true,`, 1))
		if asked := s.Asked(); a.Status != 200 || a.Body != stream || asked != "/in hello|/out é€😀 ok" {
			t.Errorf("in %d: %d %q; asked %q", size, a.Status, a.Body, asked)
		}
	}
}

// TestChat_guardrail_faults has the guardrail's tool fail in each way: nothing
// passes.
func TestChat_guardrail_faults(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"an error": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"safe":true}`, http.StatusInternalServerError)
		},
		"a refusal":           func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"safe":true}`, http.StatusForbidden) },
		"nothing":             func(http.ResponseWriter, *http.Request) {},
		"garbage":             func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "\xff\xfe") },
		"a name twice":        func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"safe":false,"safe":true}`) },
		"another case":        func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"Safe":true}`) },
		"a text":              func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `"true"`) },
		"a truth that is one": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"safe":1}`) },
		"no truth":            func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"safe":null}`) },
		"half of it": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			_, _ = io.WriteString(w, `{"safe":true}`)
		},
		"no end": func(w http.ResponseWriter, _ *http.Request) {
			for _, err := io.WriteString(w, "[1,"); err == nil; {
				_, err = io.WriteString(w, strings.Repeat("1,", 1<<15))
			}
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/ok" {
				_, _ = io.WriteString(w, `{"safe":true}`)
				return
			}
			http.Redirect(w, r, "/ok", http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sitetest.ChatSite{Site: sitetest.NewSite(t), Model: sitetest.NewModel(t)}
			s.SaysText("application/json", fmt.Sprintf(sitetest.Shapes["completions"].Say, "leak"))
			s.Write("agent.yaml", strings.Replace(sitetest.Guardrailed, `safe == true && by == "k1"`, "safe == true", 1))
			s.Write("checks.yaml", fmt.Sprintf(sitetest.Checks, "http://"+sitetest.Upstream(t, handler)))
			s.Start("agents {\n\tstore bolt DIR/store.db\n\ttoolset checks {\n\t\topenapi DIR/checks.yaml\n\t}\n}",
				"oagent DIR/agent.yaml {\n\tchat\n}\nreverse_proxy "+strings.TrimPrefix(s.Model.URL, "http://"))
			a := s.Ask("/v1/chat/completions", fmt.Sprintf(sitetest.Shapes["completions"].Ask, "hello"))
			if s.Calls.Load() != 0 || a.Status < 400 {
				t.Errorf("%d calls; answer %d %s", s.Calls.Load(), a.Status, a.Body)
			}
		})
	}
}

// TestChat_client_gone has clients go away while the guardrail's tool, or the model,
// hangs: nothing is left of their requests.
func TestChat_client_gone(t *testing.T) {
	s := sitetest.Chatting(t, sitetest.Guardrailed, "keep_alive 1ms")
	var arrived, ended atomic.Int64
	s.Says(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": begun\n\n")
		_ = http.NewResponseController(w).Flush()
		arrived.Add(1)
		<-r.Context().Done()
		ended.Add(1)
	})
	const n = 8
	ctx, leave := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			body := fmt.Sprintf(`{"stream":%t,"messages":[{"role":"user","content":"hello"}]}`, i%2 == 0)
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Site.URL+"/v1/chat/completions", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("X-Talk", fmt.Sprint("gone", i))
			if response, err := sitetest.Client.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
	}
	sitetest.Eventually(t, "the requests at the model", func() bool { return arrived.Load() == n })
	leave()
	group.Wait()
	sitetest.Eventually(t, "the end of the model's requests", func() bool { return ended.Load() == n })
	sitetest.Eventually(t, "the end of the goroutines", func() bool {
		return !strings.Contains(sitetest.Goroutines(), "oagent/chat.(*exchange)") && !strings.Contains(sitetest.Goroutines(), "KeepAlive")
	})
}

// TestChatConcurrent ends an Engagement by one of many messages that are under
// way: no answer is given that is checked after that.
func TestChatConcurrent(t *testing.T) {
	s := sitetest.Chatting(t, sitetest.Guardrailed, "")
	release := make(chan struct{})
	var under sync.WaitGroup
	s.Says(func(w http.ResponseWriter, _ *http.Request) {
		under.Done()
		<-release
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, fmt.Sprintf(sitetest.Shapes["completions"].Say, "leak"))
	})
	const n = 8
	under.Add(n)
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			r, _ := http.NewRequest(http.MethodPost, s.Site.URL+"/v1/chat/completions", strings.NewReader(fmt.Sprintf(sitetest.Shapes["completions"].Ask, "hello")))
			r.Header.Set("X-Talk", "one")
			response, err := sitetest.Client.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			if body, _ := io.ReadAll(response.Body); response.StatusCode != 403 || strings.Contains(string(body), "leak") {
				t.Errorf("%d %s", response.StatusCode, body)
			}
		})
	}
	under.Wait()
	if a := s.AskIn("one", "/v1/chat/completions", fmt.Sprintf(sitetest.Shapes["completions"].Ask, "forbidden")); a.Status != 403 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	close(release)
	group.Wait()
}

// TestChat_by_tool_call asks the model by a tool, which no guardrail would look at.
func TestChat_by_tool_call(t *testing.T) {
	s := &sitetest.ChatSite{Site: sitetest.NewSite(t), Checker: sitetest.NewChecker(t), Model: sitetest.NewModel(t)}
	s.SaysText("application/json", fmt.Sprintf(sitetest.Shapes["completions"].Say, "forbidden"))
	s.Write("trips.yaml", `openapi: 3.1.0
info: {title: Trips, version: 1.2.3}
paths:
  /v1/chat/completions:
    post:
      operationId: askModel
      requestBody: {content: {application/json: {schema: {type: object, properties: {messages: {type: array, items: {type: object}}}}}}}
      responses: {"200": {description: ok}}
`)
	s.Write("agent.yaml", strings.Replace(sitetest.Guardrailed, "capabilities: {}", "capabilities:\n  ask-model: {user_identity: false}", 1))
	s.Write("checks.yaml", fmt.Sprintf(sitetest.Checks, s.Checker.URL))
	s.Start("agents {\n\tstore bolt DIR/store.db\n\ttoolset checks {\n\t\topenapi DIR/checks.yaml\n\t\tcredential header X-Checker-Key k1\n\t}\n}",
		"mcp TRIPS\notc TRIPS\noagent DIR/agent.yaml {\n\tchat\n}\nreverse_proxy "+strings.TrimPrefix(s.Model.URL, "http://"))
	const arguments = `{"messages":[{"role":"user","content":"forbidden"}]}`
	if r := s.Call("askModel", arguments); !r.IsError || !strings.Contains(r.Text(), "guardrails") {
		t.Errorf("mcp: %s", r.Text())
	}
	if body := s.OTC("askModel", arguments); !strings.Contains(body, `"success":false`) {
		t.Errorf("otc: %s", body)
	}
	if s.Calls.Load() != 0 {
		t.Error("the model was asked")
	}
}
