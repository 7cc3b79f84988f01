package caddymodule_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf16"
)

// unfinished is the end of what a client sends that ends in the middle of a
// request.
const unfinished = "<EOF>"

// wire sends bytes to the site as they are, and returns all that comes back.
func (s *site) wire(raw string) string {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	raw, unfinished := strings.CutSuffix(raw, unfinished)
	if _, err := io.WriteString(conn, raw); err != nil {
		s.t.Fatal(err)
	}
	if unfinished {
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	answer, _ := io.ReadAll(conn) // a server that has enough closes the connection
	return string(answer)
}

// rawRequest is a request as it is on the wire.
func rawRequest(line, headers, body string) string {
	return fmt.Sprintf("%s\r\nHost: 127.0.0.1\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s", line, headers, len(body), body)
}

func inUTF16(text string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
		b.Write([]byte{byte(unit), byte(unit >> 8)})
	}
	return b.String()
}

// TestChatInputOnTheWire says something forbidden to the model in a request that
// is odd: the model is not asked.
func TestChatInputOnTheWire(t *testing.T) {
	s := chatting(t, guardrailed, "")
	s.saysText("application/json", fmt.Sprintf(shapes["completions"].say, "fine"))
	const post = "POST /v1/chat/completions HTTP/1.1"
	body := fmt.Sprintf(shapes["completions"].ask, "forbidden")
	chunked := func(chunks, trailer string) string {
		return post + "\r\nHost: 127.0.0.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n" + trailer + "\r\n" + chunks
	}
	chunk := func(text, extension string) string { return fmt.Sprintf("%x%s\r\n%s\r\n", len(text), extension, text) }
	for name, raw := range map[string]string{
		"plain":                    rawRequest(post, "", body),
		"two slashes":              rawRequest("POST //v1/chat/completions HTTP/1.1", "", body),
		"a slash at the end":       rawRequest("POST /v1/chat/completions/ HTTP/1.1", "", body),
		"an encoded slash":         rawRequest("POST /v1/chat%2Fcompletions HTTP/1.1", "", body),
		"an encoded letter":        rawRequest("POST /v1/%63hat/completions HTTP/1.1", "", body),
		"an encoded letter twice":  rawRequest("POST /v1/%2563hat/completions HTTP/1.1", "", body),
		"another case":             rawRequest("POST /v1/Chat/Completions HTTP/1.1", "", body),
		"a dot":                    rawRequest("POST /v1/./chat/completions HTTP/1.1", "", body),
		"two dots":                 rawRequest("POST /x/../v1/chat/completions HTTP/1.1", "", body),
		"encoded dots":             rawRequest("POST /x/%2e%2e/v1/chat/completions HTTP/1.1", "", body),
		"a parameter of the path":  rawRequest("POST /v1/chat/completions;x=y HTTP/1.1", "", body),
		"a null byte":              rawRequest("POST /v1/chat/completions%00 HTTP/1.1", "", body),
		"a query":                  rawRequest("POST /v1/chat/completions?stream=true&path=/v1/models HTTP/1.1", "", body),
		"a fragment":               rawRequest("POST /v1/chat/completions#x HTTP/1.1", "", body),
		"an absolute target":       rawRequest("POST http://127.0.0.1/v1/chat/completions HTTP/1.1", "", body),
		"a target elsewhere":       rawRequest("POST http://example.com/v1/chat/completions HTTP/1.1", "", body),
		"no path":                  rawRequest("POST ?/v1/chat/completions HTTP/1.1", "", body),
		"PUT":                      rawRequest("PUT /v1/chat/completions HTTP/1.1", "", body),
		"PATCH":                    rawRequest("PATCH /v1/chat/completions HTTP/1.1", "", body),
		"GET with a body":          rawRequest("GET /v1/chat/completions HTTP/1.1", "", body),
		"HEAD":                     rawRequest("HEAD /v1/chat/completions HTTP/1.1", "", body),
		"OPTIONS":                  rawRequest("OPTIONS /v1/chat/completions HTTP/1.1", "", body),
		"post in small letters":    rawRequest("post /v1/chat/completions HTTP/1.1", "", body),
		"a method override":        rawRequest("GET /v1/chat/completions HTTP/1.1", "X-HTTP-Method-Override: POST\r\n", body),
		"another URL in a header":  rawRequest("POST /v1/models HTTP/1.1", "X-Original-URL: /v1/chat/completions\r\n", body),
		"HTTP/1.0":                 rawRequest("POST /v1/chat/completions HTTP/1.0", "", body),
		"Expect":                   rawRequest(post, "Expect: 100-continue\r\n", body),
		"a form":                   rawRequest(post, "Content-Type: application/x-www-form-urlencoded\r\n", body),
		"parts":                    rawRequest(post, "Content-Type: multipart/form-data; boundary=x\r\n", "--x\r\nContent-Disposition: form-data; name=messages\r\n\r\nforbidden\r\n--x--\r\n"),
		"text":                     rawRequest(post, "Content-Type: text/plain\r\n", "forbidden"),
		"compressed":               rawRequest(post, "Content-Type: application/json\r\nContent-Encoding: gzip\r\n", gzipped(t, body)),
		"compressed, said twice":   rawRequest(post, "Content-Encoding: identity\r\nContent-Encoding: gzip\r\n", gzipped(t, body)),
		"compressed, not said":     rawRequest(post, "", gzipped(t, body)),
		"a byte order mark":        rawRequest(post, "", "\xef\xbb\xbf"+body),
		"UTF-16":                   rawRequest(post, "Content-Type: application/json; charset=utf-16\r\n", inUTF16(body)),
		"a name twice":             rawRequest(post, "", strings.Replace(body, `{`, `{"messages":[],`, 1)),
		"escapes":                  rawRequest(post, "", strings.ReplaceAll(body, "forbidden", `\u0066orbidden`)),
		"two documents":            rawRequest(post, "", `{"messages":[{"role":"user","content":"hi"}]}`+body),
		"chunks":                   chunked(chunk(body[:20], "")+chunk(body[20:], "")+"0\r\n\r\n", ""),
		"extensions of chunks":     chunked(chunk(body, `;x="forbidden"`)+"0\r\n\r\n", ""),
		"a trailer":                chunked(chunk(body, "")+"0\r\nContent-Encoding: gzip\r\n\r\n", "Trailer: Content-Encoding\r\n"),
		"chunks without an end":    chunked(chunk(body, "")+"5\r\nxx", "") + unfinished,
		"less than was said":       strings.Replace(rawRequest(post, "", body), "Content-Length: ", "Content-Length: 1", 1) + unfinished,
		"two lengths":              rawRequest(post, "Content-Length: 1\r\n", body),
		"a length and chunks":      rawRequest(post, "Transfer-Encoding: chunked\r\n", chunk(body, "")+"0\r\n\r\n"),
		"a second request within":  rawRequest(post, "", `{"messages":[{"role":"user","content":"hi"}],"forbidden":`),
		"a header after a bare CR": rawRequest(post, "X-A: b\rTransfer-Encoding: chunked\r\n", body),
		"an upgrade":               strings.Replace(rawRequest(post, "Upgrade: websocket\r\n", body), "Connection: close", "Connection: Upgrade, close", 1),
		"a preface of HTTP/2":      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + rawRequest(post, "", body),
		"a role with a space":      rawRequest(post, "", `{"messages":[{"role":"system ","content":"forbidden"}]}`),
	} {
		t.Run(name, func(t *testing.T) {
			s := *s
			s.site = s.site.with(t)
			calls := s.calls.Load()
			// An Engagement of its own, because most end.
			answer := s.wire(strings.Replace(raw, "Host: 127.0.0.1\r\n", fmt.Sprintf("Host: 127.0.0.1\r\nX-Talk: wire %s\r\n", name), 1))
			if s.calls.Load() != calls {
				t.Errorf("the model was asked %s; answer %s", s.last.Load(), answer)
			}
			if strings.Contains(answer, "fine") {
				t.Errorf("answer %s", answer)
			}
		})
	}
}

// TestChatPassesOnWhatWasRead looks at what of an odd request reaches the model.
func TestChatPassesOnWhatWasRead(t *testing.T) {
	s := chatting(t, strings.Replace(guardrailed, "  output:", "  #", 1), "")
	var got http.Header
	var trailer http.Header
	s.says(func(w http.ResponseWriter, r *http.Request) {
		got, trailer = r.Header.Clone(), r.Trailer.Clone()
		if r.Header.Get("Upgrade") != "" {
			w.Header().Set("Upgrade", "websocket")
			w.Header().Set("Connection", "Upgrade")
			w.WriteHeader(http.StatusSwitchingProtocols)
			return
		}
		_, _ = io.WriteString(w, "fine")
	})
	body := fmt.Sprintf(shapes["completions"].ask, "hello")
	headers := "Content-Type: application/json; charset=utf-7\r\nX-HTTP-Method-Override: GET\r\nX_Method_Override: GET\r\nX-Original-URL: /x\r\nX-Override-URL: /x\r\n" +
		"Path-Info: /x\r\nUpgrade: websocket\r\nHTTP2-Settings: AAMAAABk\r\n"
	for name, raw := range map[string]string{
		"with a length": rawRequest("POST /v1/chat/completions HTTP/1.1", headers, body),
		"in chunks": fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n%sTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n%x\r\n%s\r\n0\r\nX-T: forbidden\r\n\r\n",
			headers, len(body), body),
	} {
		t.Run(name, func(t *testing.T) {
			raw := strings.Replace(raw, "Connection: close\r\n", "", 1)
			raw = strings.Replace(raw, "Upgrade: websocket\r\n", "Connection: Upgrade, close\r\nUpgrade: websocket\r\n", 1)
			answer := s.wire(raw)
			if !strings.HasPrefix(answer, "HTTP/1.1 200") || s.last.Load() != body {
				t.Fatalf("the model was asked %v; answer %s", s.last.Load(), answer)
			}
			for name, values := range got {
				if strings.Contains(name, "Override") || strings.Contains(name, "Url") || name == "Path-Info" || name == "Upgrade" || name == "Http2-Settings" {
					t.Errorf("%s: %q", name, values)
				}
			}
			if got.Get("Content-Type") != "application/json" || len(trailer) != 0 {
				t.Errorf("headers %v, trailers %v", got, trailer)
			}
		})
	}
}

// TestChatOutputOnTheWire has the model's API say something forbidden where it
// does not belong: nothing of it reaches the client.
func TestChatOutputOnTheWire(t *testing.T) {
	s := chatting(t, guardrailed, "")
	fine := fmt.Sprintf(shapes["completions"].say, "fine")
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
			s.site = s.site.with(t)
			s.says(test.say)
			answer := s.wire(rawRequest("POST /v1/chat/completions HTTP/1.1", fmt.Sprintf("X-Talk: out %s\r\n", name), fmt.Sprintf(shapes["completions"].ask, "hello")))
			if strings.Contains(answer, "forbidden") {
				t.Errorf("something of the answer reached the client: %s", answer)
			}
			if test.status != 0 && !strings.HasPrefix(answer, fmt.Sprintf("HTTP/1.1 %d", test.status)) {
				t.Errorf("want %d: %s", test.status, answer)
			}
		})
	}
}

// TestChatStreamInPieces cuts a stream in every place, the middle of a letter too.
func TestChatStreamInPieces(t *testing.T) {
	s := chatting(t, guardrailed, "")
	stream := fmt.Sprintf(shapes["completions"].stream, "é€😀 ", "ok")
	for _, size := range []int{1, 2, 3, 7} {
		s.says(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			for rest := stream; rest != ""; {
				n := min(size, len(rest))
				_, _ = io.WriteString(w, rest[:n])
				_ = http.NewResponseController(w).Flush()
				rest = rest[n:]
			}
		})
		s.asked()
		a := s.ask("/v1/chat/completions", strings.Replace(fmt.Sprintf(shapes["completions"].ask, "hello"), "{", `{"stream":true,`, 1))
		if asked := s.asked(); a.status != 200 || a.body != stream || asked != "/in hello|/out é€😀 ok" {
			t.Errorf("in %d: %d %q; asked %q", size, a.status, a.body, asked)
		}
	}
}

// TestChatGuardrailFaults has the guardrail's tool fail in each way: nothing
// passes.
func TestChatGuardrailFaults(t *testing.T) {
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
			s := &chatSite{newSite(t), nil, newModel(t), 0}
			s.saysText("application/json", fmt.Sprintf(shapes["completions"].say, "leak"))
			s.write("agent.yaml", strings.Replace(guardrailed, `safe == true && by == "k1"`, "safe == true", 1))
			s.write("checks.yaml", fmt.Sprintf(checks, "http://"+upstream(t, handler)))
			s.start("agents {\n\tstore bolt DIR/store.db\n\ttoolset checks {\n\t\topenapi DIR/checks.yaml\n\t}\n}",
				"oagent DIR/agent.yaml {\n\tchat\n}\nreverse_proxy "+strings.TrimPrefix(s.model.URL, "http://"))
			a := s.ask("/v1/chat/completions", fmt.Sprintf(shapes["completions"].ask, "hello"))
			if s.calls.Load() != 0 || a.status < 400 {
				t.Errorf("%d calls; answer %d %s", s.calls.Load(), a.status, a.body)
			}
		})
	}
}

// TestChatClientGone has clients go away while the guardrail's tool, or the model,
// hangs: nothing is left of their requests.
func TestChatClientGone(t *testing.T) {
	s := chatting(t, guardrailed, "keep_alive 1ms")
	var arrived, ended atomic.Int64
	s.says(func(w http.ResponseWriter, r *http.Request) {
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
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.site.url+"/v1/chat/completions", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("X-Talk", fmt.Sprint("gone", i))
			if response, err := client.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
	}
	eventually(t, "the requests at the model", func() bool { return arrived.Load() == n })
	leave()
	group.Wait()
	eventually(t, "the end of the model's requests", func() bool { return ended.Load() == n })
	eventually(t, "the end of the goroutines", func() bool {
		return !strings.Contains(goroutines(), "oagent/chat.(*exchange)") && !strings.Contains(goroutines(), "keepAlive")
	})
}

// goroutines returns the stacks of all goroutines.
func goroutines() string {
	var b strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
	return b.String()
}

// TestChatConcurrent ends an Engagement by one of many messages that are under
// way: no answer is given that is checked after that.
func TestChatConcurrent(t *testing.T) {
	s := chatting(t, guardrailed, "")
	release := make(chan struct{})
	var under sync.WaitGroup
	s.says(func(w http.ResponseWriter, _ *http.Request) {
		under.Done()
		<-release
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, fmt.Sprintf(shapes["completions"].say, "leak"))
	})
	const n = 8
	under.Add(n)
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			r, _ := http.NewRequest(http.MethodPost, s.site.url+"/v1/chat/completions", strings.NewReader(fmt.Sprintf(shapes["completions"].ask, "hello")))
			r.Header.Set("X-Talk", "one")
			response, err := client.Do(r)
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
	if a := s.askIn("one", "/v1/chat/completions", fmt.Sprintf(shapes["completions"].ask, "forbidden")); a.status != 403 {
		t.Errorf("%d %s", a.status, a.body)
	}
	close(release)
	group.Wait()
}

// TestChatByToolCall asks the model by a tool, which no guardrail would look at.
func TestChatByToolCall(t *testing.T) {
	s := &chatSite{newSite(t), newChecker(t), newModel(t), 0}
	s.saysText("application/json", fmt.Sprintf(shapes["completions"].say, "forbidden"))
	s.write("trips.yaml", `openapi: 3.1.0
info: {title: Trips, version: 1.2.3}
paths:
  /v1/chat/completions:
    post:
      operationId: askModel
      requestBody: {content: {application/json: {schema: {type: object, properties: {messages: {type: array, items: {type: object}}}}}}}
      responses: {"200": {description: ok}}
`)
	s.write("agent.yaml", strings.Replace(guardrailed, "capabilities: {}", "capabilities:\n  ask-model: {user_identity: false}", 1))
	s.write("checks.yaml", fmt.Sprintf(checks, s.checker.URL))
	s.start("agents {\n\tstore bolt DIR/store.db\n\ttoolset checks {\n\t\topenapi DIR/checks.yaml\n\t\tcredential header X-Checker-Key k1\n\t}\n}",
		"mcp TRIPS\notc TRIPS\noagent DIR/agent.yaml {\n\tchat\n}\nreverse_proxy "+strings.TrimPrefix(s.model.URL, "http://"))
	const arguments = `{"messages":[{"role":"user","content":"forbidden"}]}`
	if r := s.call("askModel", arguments); !r.IsError || !strings.Contains(r.text(), "guardrails") {
		t.Errorf("mcp: %s", r.text())
	}
	if body := s.otc("askModel", arguments); !strings.Contains(body, `"success":false`) {
		t.Errorf("otc: %s", body)
	}
	if s.calls.Load() != 0 {
		t.Error("the model was asked")
	}
}
