package mcpadapter

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

func TestLegacyClient(t *testing.T) {
	e := serveEndpoint(t, Options{PageSize: 2}, goClientCaller)
	for _, path := range []string{"/mcp/sse", "/mcp"} {
		t.Run(path, func(t *testing.T) {
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
			session, err := client.Connect(t.Context(), &mcp.SSEClientTransport{Endpoint: e.URL + path}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			listAll(t, session)
			callAll(t, session)
		})
	}
}

func TestLegacyStream(t *testing.T) {
	e := serveEndpoint(t, Options{}, echo)
	stream := e.open(t, "GET", "/mcp/sse", "", nil)
	name, _, target := stream.event()
	if name != "endpoint" || !strings.HasPrefix(target, "/mcp/message?sessionId=") {
		t.Fatalf("the first event is %s %s", name, target)
	}
	post := func(body string) int { return e.do(t, "POST", target, body, nil).StatusCode }
	initialize := `{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	if status := post(initialize); status != 202 {
		t.Errorf("status %d", status)
	}
	_, _, data := stream.event()
	validate(t, protocol.V20241105, "InitializeResult", []byte(data))
	if !strings.Contains(data, `"protocolVersion":"2024-11-05"`) {
		t.Errorf("initialized as %s", data)
	}
	if post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); post(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`) != 202 {
		t.Error("tools/list was not accepted")
	}
	_, _, data = stream.event()
	validate(t, protocol.V20241105, "ListToolsResult", []byte(data))
	e.server.Notify(ToolsChanged)
	if _, _, data = stream.event(); !strings.Contains(data, "tools/list_changed") {
		t.Errorf("got %s", data)
	}
	post(`{"jsonrpc":`)
	if _, _, data = stream.event(); !strings.Contains(data, `"code":-32700`) {
		t.Errorf("got %s", data)
	}
	t.Run("another user", func(t *testing.T) {
		user := "eve"
		e.user.Store(&user)
		defer e.user.Store(new(string))
		if status := post(`{"jsonrpc":"2.0","id":3,"method":"ping"}`); status != 404 {
			t.Errorf("status %d", status)
		}
	})
	t.Run("no session", func(t *testing.T) {
		if response := e.do(t, "POST", "/mcp/message", `{}`, nil); response.StatusCode != 400 {
			t.Errorf("status %d", response.StatusCode)
		}
	})
	e.server.Close()
	stream.ends()
	if status := post(`{"jsonrpc":"2.0","id":3,"method":"ping"}`); status != 404 {
		t.Errorf("after the end: status %d", status)
	}
}

// openLegacy opens an HTTP+SSE stream and initializes it. target is where its messages are posted to.
func openLegacy(t *testing.T, e *endpoint) (stream *feed, target string) {
	t.Helper()
	stream = e.open(t, "GET", "/mcp/sse", "", nil)
	_, _, target = stream.event()
	e.do(t, "POST", target, `{"jsonrpc":"2.0","id":"I","method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{}}}`, nil)
	stream.event()
	return stream, target
}

// A stream of HTTP+SSE is of 2024-11-05 until initialize negotiates another revision, which must come first.
func TestLegacyStream_before_initialize(t *testing.T) {
	e := serveEndpoint(t, Options{}, echo)
	stream := e.open(t, "GET", "/mcp/sse", "", nil)
	_, _, target := stream.event()
	for _, c := range []struct{ message, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `"id":1,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":"b","method":"acme/odd"}`, `"id":"b","error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":3,"method":"ping"}`, `"id":3,"result":{}`},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, `"id":null,"error"`}, // as revisions before 2025-11-25 write it
		{`{"jsonrpc":"2.0","id":5,"method":"initialize","params":{"protocolVersion":"1999-01-01","capabilities":{}}}`, `"protocolVersion":"2024-11-05"`},
		{`{"jsonrpc":"2.0","id":6,"method":"tools/list"}`, `"id":6,"result":{"tools":`},
	} {
		e.do(t, "POST", target, c.message, nil)
		if _, _, data := stream.event(); !strings.Contains(data, c.want) || c.message[len(c.message)-8:] == `s/list"}` && strings.Contains(data, `"annotations"`) {
			t.Errorf("%s: got %.300s", c.message, data)
		}
	}
	t.Run("2026-07-28", func(t *testing.T) { // which has no initialize
		stream := e.open(t, "GET", "/mcp/sse", "", nil)
		_, _, target := stream.event()
		e.do(t, "POST", target, conformant(protocol.V20260728, "tools/list", "").body, nil)
		if _, _, data := stream.event(); !strings.Contains(data, `"resultType":"complete"`) {
			t.Errorf("got %.300s", data)
		}
	})
}

func TestLegacy_call_ends_with_stream(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan struct{})
	caller := callerFunc(func(ctx context.Context, _ string, _ []byte) tools.Outcome {
		began <- struct{}{}
		<-ctx.Done()
		close(ended)
		return tools.Outcome{Failure: &tools.Failure{Kind: tools.Canceled}}
	})
	e := serveEndpoint(t, Options{}, caller)
	stream, target := openLegacy(t, e)
	if response := e.do(t, "POST", target, callBlocked, nil); response.StatusCode != http.StatusAccepted {
		t.Fatalf("status %d", response.StatusCode)
	}
	<-began
	stream.response.Body.Close()
	<-ended
}

// A terminal is the client's side of standard input and output.
type terminal struct {
	t     *testing.T
	in    *io.PipeWriter
	lines *bufio.Reader
	ended chan error
}

func openTerminal(t *testing.T, s *Server, caller tools.Caller) *terminal {
	fromClient, in := io.Pipe()
	out, toClient := io.Pipe()
	term := &terminal{t, in, bufio.NewReader(out), make(chan error, 1)}
	go func() {
		term.ended <- s.ServeStdio(t.Context(), fromClient, toClient, siteOf(trains(), caller))
		toClient.Close()
	}()
	t.Cleanup(func() { in.Close(); out.Close() })
	return term
}

func (t *terminal) write(line string) {
	t.t.Helper()
	if _, err := io.WriteString(t.in, line+"\n"); err != nil {
		t.t.Fatal(err)
	}
}

func (t *terminal) read() string {
	t.t.Helper()
	line, err := t.lines.ReadString('\n')
	if err != nil {
		t.t.Fatal(err)
	}
	return line
}

func TestStdio(t *testing.T) {
	s := New(Options{MaxBody: 4096})
	term := openTerminal(t, s, echo)
	term.write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	if line := term.read(); !strings.Contains(line, `"protocolVersion":"2025-06-18"`) {
		t.Errorf("got %s", line)
	}
	term.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	term.write(`{"jsonrpc":"2.0","id":12345678901234567890,"method":"tools/call","params":{"name":"get_trip","arguments":{"id":` + "\r" + `"1"}}}`)
	line := term.read()
	validate(t, protocol.V20250618, "CallToolResult", []byte(line))
	if !strings.Contains(line, `"id":12345678901234567890`) {
		t.Errorf("got %s", line)
	}
	t.Run("each request of 2026-07-28 says so itself", func(t *testing.T) {
		term.write(`{"jsonrpc":"2.0","id":2,"method":"server/discover","params":{"_meta":{"` + metaVersion + `":"2026-07-28","` + metaCapabilities + `":{}}}}`)
		line := term.read()
		validate(t, protocol.V20260728, "DiscoverResult", []byte(line))
	})
	t.Run("too long", func(t *testing.T) {
		term.write(`{"jsonrpc":"2.0","id":3,"method":"ping","params":{"x":"` + strings.Repeat("x", 100_000) + `"}}`)
		if line := term.read(); !testkit.ContainsAll(line, "4096 bytes") {
			t.Errorf("got %.200s", line)
		}
	})
	t.Run("garbage", func(t *testing.T) {
		term.write(`hello`)
		if line := term.read(); !strings.Contains(line, "-32700") {
			t.Errorf("got %s", line)
		}
	})
	t.Run("changes", func(t *testing.T) {
		s.Notify(ToolsChanged)
		if line := term.read(); !strings.Contains(line, "tools/list_changed") {
			t.Errorf("got %s", line)
		}
	})
	term.in.Close()
	if err := <-term.ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestStdio_answers_what_came_before_the_end(t *testing.T) {
	release := make(chan struct{})
	caller := callerFunc(func(_ context.Context, _ string, arguments []byte) tools.Outcome {
		<-release
		return answered(200, "application/json", string(arguments))
	})
	term := openTerminal(t, New(Options{}), caller)
	term.write(`{"jsonrpc":"2.0","id":"listening","method":"subscriptions/listen","params":{"_meta":{"` + metaVersion + `":"2026-07-28","` + metaCapabilities + `":{}},"notifications":{}}}`)
	term.read() // acknowledged
	var wait sync.WaitGroup
	wait.Go(func() {
		term.write(callBlocked)
		term.in.Close()
		close(release)
	})
	got := term.read() + term.read()
	wait.Wait()
	if !strings.Contains(got, `"id":41,"result"`) || !strings.Contains(got, `"id":"listening","result"`) {
		t.Errorf("got %s", got)
	}
	if err := <-term.ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestStdioCancel(t *testing.T) {
	began := make(chan struct{}, 1)
	term := openTerminal(t, New(Options{}), blocked(began))
	term.write(callBlocked)
	<-began
	term.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":41}}`)
	term.write(`{"jsonrpc":"2.0","id":42,"method":"ping"}`)
	if line := term.read(); !strings.Contains(line, `"id":42`) {
		t.Errorf("a canceled request was answered: %s", line)
	}
}

// cancelRounds is how often a test cancels a request right behind it.
const cancelRounds = 200

func TestStdioCancel_right_behind_the_call(t *testing.T) {
	// A caller that was not canceled would block for ever.
	canceledCaller := callerFunc(func(ctx context.Context, _ string, _ []byte) tools.Outcome {
		<-ctx.Done()
		return tools.Outcome{Failure: &tools.Failure{Kind: tools.Canceled}}
	})
	call := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"get_trip","arguments":{"id":"1"}}}`, id)
	}
	cancel := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id)
	}
	t.Run("message", func(t *testing.T) {
		term := openTerminal(t, New(Options{}), canceledCaller)
		go func() {
			for id := range cancelRounds {
				_, _ = io.WriteString(term.in, call(id)+"\n"+cancel(id)+"\n")
			}
			_, _ = io.WriteString(term.in, `{"jsonrpc":"2.0","id":"last","method":"ping"}`+"\n")
			term.in.Close()
		}()
		if line := term.read(); !strings.Contains(line, `"id":"last"`) {
			t.Errorf("a canceled call was answered: %s", line)
		}
		if err := <-term.ended; err != nil { // when all calls have ended
			t.Errorf("ended with %v", err)
		}
	})
	t.Run("batch", func(t *testing.T) {
		term := openTerminal(t, New(Options{}), canceledCaller)
		term.write(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		term.read()
		go func() {
			for round := range cancelRounds {
				id := 2*round + 1
				_, _ = io.WriteString(term.in, "["+call(id)+","+call(id+1)+"]\n"+cancel(id)+"\n"+cancel(id+1)+"\n")
			}
			term.in.Close()
		}()
		if err := <-term.ended; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	t.Run("HTTP+SSE", func(t *testing.T) {
		e := serveEndpoint(t, Options{}, canceledCaller)
		stream, target := openLegacy(t, e)
		for id := range cancelRounds {
			e.do(t, "POST", target, call(id), nil)
			e.do(t, "POST", target, cancel(id), nil)
		}
		e.do(t, "POST", target, `{"jsonrpc":"2.0","id":"last","method":"ping"}`, nil)
		if _, _, data := stream.event(); !strings.Contains(data, `"id":"last"`) {
			t.Errorf("a canceled call was answered: %s", data)
		}
	})
}

func TestStdioCancel_other_calls_go_on(t *testing.T) {
	term := openTerminal(t, New(Options{}), echo)
	term.write(callBlocked + "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"41"}}`)
	if line := term.read(); !strings.Contains(line, `"id":41,"result"`) {
		t.Errorf("got %s", line)
	}
}

// Errors over standard input do not mention HTTP.
func TestStdio_knows_no_POST(t *testing.T) {
	term := openTerminal(t, New(Options{}), echo)
	term.write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	term.read()
	term.write(`[{"jsonrpc":"2.0","id":2,"method":"ping"}]`)
	if line := term.read(); strings.Contains(line, "POST") || !testkit.ContainsAll(line, "batches 2025-03-26") {
		t.Errorf("got %s", line)
	}
}
