package mcpadapter

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
	"github.com/fairwayhq/fairway/tools"
)

// dial sends a request and reads nothing of its answer.
func dial(t *testing.T, e *endpoint, head, body string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", e.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body)
	return conn
}

// A client that does not read what it is sent holds up neither the call for ever,
// nor Notify, nor the end of the server.
func TestStuckClient(t *testing.T) {
	ended := make(chan struct{})
	caller := callerFunc(func(ctx context.Context, _ string, _ []byte) tools.Outcome {
		notify := tools.ListenerFromContext(ctx)
		for n := range 20_000 {
			notify(tools.Event{Kind: tools.EventProgress, Progress: jsontext.Value(strconv.Itoa(n)), Message: strings.Repeat("x", 4<<10)})
		}
		close(ended)
		return answered(200, "application/json", `{}`)
	})
	e := serveEndpoint(t, Options{}, caller)
	e.server.writeWait = 100 * time.Millisecond
	dial(t, e, "POST /mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_trip","arguments":{"id":"1"},"_meta":{"progressToken":1}}}`)
	e.server.Notify(ToolsChanged)
	<-ended
	e.server.Close()
	e.Config.Shutdown(t.Context())
}

// What is sent on a stream for longer than one write may take is not cut off.
func TestDeadline_is_of_each_write(t *testing.T) {
	e := serveEndpoint(t, Options{KeepAlive: 20 * time.Millisecond}, echo)
	e.server.writeWait = 2 * time.Second // a busy machine may pause a process for that long
	conn := dial(t, e, "GET /mcp", "")
	lines := bufio.NewReader(conn)
	for until := time.Now().Add(e.server.writeWait * 3 / 2); time.Now().Before(until); {
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
}

// A server that closes does not wait for an API that is asked whether a resource
// has changed.
func TestClose_ends_looks(t *testing.T) {
	began := make(chan struct{})
	server := New(Options{})
	watcher, state := session.NewWatcher(0), new(session.State)
	state.Watch(watcher)
	state.Subscribe("a")
	state.Subscribe("b")
	w := &session.Watch{
		Host:    &server.host,
		Watcher: watcher,
		State:   state,
		Stamp: func(ctx context.Context, uri string) (string, bool) {
			if uri != "a" {
				t.Errorf("polled %s after the end", uri)
				return "", false
			}
			close(began)
			<-ctx.Done()
			return "", false
		},
	}
	closing := make(chan session.End)
	go func() { closing <- w.Run(t.Context()) }()
	<-began
	server.Close()
	if <-closing != session.ServerClosing {
		t.Error("the end is not reported as that of the server")
	}
}

// Lists that depend on the token are not shared, whatever is configured.
func TestRestricted_lists_are_private(t *testing.T) {
	e := serveEndpoint(t, Options{PublicLists: true}, echo)
	for _, access := range []*Access{nil, {}} {
		e.access.Store(access)
		for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
			r := conformant(protocol.V20260728, method, "")
			r.header[versionHeader] = protocol.V20260728.String()
			body, _ := io.ReadAll(e.do(t, "POST", "/mcp", r.body, r.header).Body)
			if public := strings.Contains(string(body), `"cacheScope":"public"`); public != (access == nil) {
				t.Errorf("%s with %v: %s", method, access, body)
			}
		}
	}
}

// Answers of the user are read while as many requests wait for them as are served
// at once.
func TestStdio_sends_many_requests_at_once(t *testing.T) {
	toolset := buildTools(t, payments, tools.BuildOptions{Name: "payments"})
	fromClient, in := io.Pipe()
	out, toClient := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- New(Options{}).ServeStdio(t.Context(), fromClient, toClient, siteOf(toolset, api{toolset, paid}))
		toClient.Close()
	}()
	const count = maxServing + 8
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		fmt.Fprintln(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`)
		for n := range count {
			fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"pay","arguments":{"amount":5}}}`+"\n", n+1)
		}
	}()
	lines := bufio.NewReader(out)
	for done := 0; done <= count; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var m struct{ ID, Method, Result json.RawMessage }
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if m.Method == nil {
			done++
			continue
		}
		go func() {
			<-sent
			fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`+"\n", m.ID)
		}()
	}
	in.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The stream on which the client is asked shows signs of life while the user
// thinks.
func TestAsk_keeps_stream_alive(t *testing.T) {
	toolset := buildTools(t, payments, tools.BuildOptions{Name: "payments"})
	e := serveEndpoint(t, Options{KeepAlive: time.Millisecond}, api{toolset, paid})
	e.tools.Store(toolset)
	c := newClient(t, e, protocol.V20251125, askable)
	r := conformant(protocol.V20251125, "tools/call", `"name":"pay","arguments":{"amount":5}`)
	stream := e.open(t, "POST", "/mcp", r.body, map[string]string{sessionHeader: c.session, versionHeader: "2025-11-25"})
	stream.event()
	if line, err := stream.lines.ReadString('\n'); line != ":\n" {
		t.Errorf("got %q, %v", line, err)
	}
	stream.response.Body.Close()
}

// Requests of HTTP+SSE that are being served when the server closes are answered
// before the stream ends.
func TestLegacy_stream_ends_with_its_answers(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	e := serveEndpoint(t, Options{}, callerFunc(func(context.Context, string, []byte) tools.Outcome {
		close(began)
		<-release
		return answered(200, "application/json", `{}`)
	}))
	stream, target := openLegacy(t, e)
	e.do(t, "POST", target, callBlocked, nil)
	<-began
	e.server.Close()
	close(release)
	if _, _, data := stream.event(); !strings.Contains(data, `"id":41,"result"`) {
		t.Errorf("got %s", data)
	}
	stream.ends()
}

// A panic while one message of a connection is served ends that connection, and
// not the process.
func TestPanic_ends_connection(t *testing.T) {
	s := New(Options{})
	ended := make(chan any, 1)
	e := &endpoint{server: s}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if value := recover(); value != nil {
				ended <- value
				panic(http.ErrAbortHandler)
			}
		}()
		site := siteOf(trains(), callerFunc(func(context.Context, string, []byte) tools.Outcome { panic("odd") }))
		site.Rest = strings.TrimPrefix(r.URL.Path, "/mcp")
		s.ServeHTTP(w, r, site)
	}))
	t.Cleanup(e.Close)
	_, target := openLegacy(t, e)
	e.do(t, "POST", target, callBlocked, nil)
	if value := <-ended; !strings.HasPrefix(fmt.Sprint(value), "odd\n") {
		t.Errorf("ended with %v", value)
	}
}

// The answer to a batch is sent though the last of its requests was canceled.
func TestStdio_batch_outlives_cancel(t *testing.T) {
	began := make(chan struct{}, 1)
	term := openTerminal(t, New(Options{}), blocked(began))
	term.write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	term.read()
	term.write(`[{"jsonrpc":"2.0","id":40,"method":"ping"},` + callBlocked + `]`)
	<-began
	term.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":41}}`)
	if line := term.read(); !strings.Contains(line, `"id":40,"result"`) {
		t.Errorf("got %s", line)
	}
}

func TestAcceptsStream(t *testing.T) {
	for accept, want := range map[string]bool{
		"application/json, text/event-stream":      true,
		"text/event-stream":                        true,
		"Text/Event-Stream; q=0.5":                 true,
		"application/json,text/event-stream;q=0":   false,
		"text/event-stream-of-another":             false,
		"*/*":                                      false,
		"application/json;x=\"text/event-stream\"": false,
	} {
		if got := protocol.AcceptsStream([]string{"text/plain", accept}); got != want {
			t.Errorf("%s: %v", accept, got)
		}
	}
}

// No message is sent on two streams of a session: the latest has the word, and
// after it the one before. No two of their events have the same id.
func TestNotification_on_one_stream_of_session(t *testing.T) {
	e := serveEndpoint(t, Options{}, echo)
	header := map[string]string{sessionHeader: begin(t, e.server, protocol.V20251125), versionHeader: "2025-11-25"}
	first := e.open(t, "GET", "/mcp", "", header)
	_, firstID, _ := first.event()
	second := e.open(t, "GET", "/mcp", "", header)
	_, secondID, _ := second.event()
	if firstID == secondID {
		t.Errorf("both begin with the event %s", firstID)
	}
	waitUntil(t, func() bool { return streamsThatTell(e.server) == 1 })
	e.server.Notify(ToolsChanged)
	if _, _, data := second.event(); !strings.Contains(data, "tools/list_changed") {
		t.Errorf("got %s", data)
	}
	second.response.Body.Close()
	waitUntil(t, func() bool {
		open, _ := e.server.streams.Counts()
		return open == 1
	})
	waitUntil(t, func() bool { return streamsThatTell(e.server) == 1 })
	e.server.Notify(PromptsChanged)
	if _, _, data := first.event(); !strings.Contains(data, "prompts/list_changed") {
		t.Errorf("got %s", data)
	}
}

func streamsThatTell(s *Server) (count int) {
	_, count = s.streams.Counts()
	return count
}

// The _meta of a result has no member twice: what this server says of itself and
// of the language is not the API's to say.
func TestNative_meta_has_no_member_twice(t *testing.T) {
	native := jsontext.Value(`{"_meta":{"openai/locale":"en","` + metaServer + `":{},"a":1,"` + ocpMetaPrefix + `session":"x"}}`)
	for localized, want := range map[bool]string{true: `"a":1`, false: `"openai/locale":"en","a":1`} {
		if got := string((&callResult{Reply: elicit.Reply{Native: native}}).nativeMeta(localized)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
