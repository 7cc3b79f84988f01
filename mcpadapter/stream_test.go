package mcpadapter

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
	"github.com/fairwayhq/fairway/tools"
)

// A feed reads the events of a stream.
type feed struct {
	t        *testing.T
	response *http.Response
	lines    *bufio.Reader
}

// event returns the next event that has data or a name; comments are passed over.
func (f *feed) event() (name, id, data string) {
	f.t.Helper()
	for {
		line, err := f.lines.ReadString('\n')
		if err != nil {
			f.t.Fatalf("the stream ended: %v", err)
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "event":
			name = value
		case "id":
			id = value
		case "data":
			data += value
		case "":
			if name != "" || id != "" || data != "" {
				return name, id, data
			}
		}
	}
}

// ends checks that the stream ends in good order.
func (f *feed) ends() {
	f.t.Helper()
	if rest, err := io.ReadAll(f.lines); err != nil {
		f.t.Errorf("the stream broke off after %q: %v", rest, err)
	}
}

// endpoint is a server on a loopback address whose tools can be replaced.
type endpoint struct {
	*httptest.Server
	server *Server
	tools  atomic.Pointer[tools.Toolset]
	user   atomic.Pointer[string]
	access atomic.Pointer[Access]

	expires atomic.Pointer[time.Time] // of the credentials; nil for never
}

func serveEndpoint(t *testing.T, options Options, caller tools.Caller) *endpoint {
	e := &endpoint{server: New(options)}
	e.tools.Store(trains())
	e.user.Store(new(string))
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var expires time.Time
		if at := e.expires.Load(); at != nil {
			expires = *at
		}
		e.server.ServeHTTP(w, r, Site{
			Expires: expires,

			Rest:   strings.TrimPrefix(r.URL.Path, "/mcp"),
			Host:   host{e.tools.Load, caller},
			User:   *e.user.Load(),
			Access: e.access.Load(),
		})
	}))
	t.Cleanup(func() {
		e.server.Close()
		e.Server.Close()
	})
	return e
}

// open sends a request whose answer is a stream.
func (e *endpoint) open(t *testing.T, method, path, body string, header map[string]string) *feed {
	t.Helper()
	response := e.do(t, method, path, body, header)
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
		text, _ := io.ReadAll(response.Body)
		t.Fatalf("status %d, %s: %s", response.StatusCode, response.Header.Get("Content-Type"), text)
	}
	return feedOf(t, response)
}

func feedOf(t *testing.T, response *http.Response) *feed {
	return &feed{t, response, bufio.NewReader(response.Body)}
}

func (e *endpoint) do(t *testing.T, method, path, body string, header map[string]string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, e.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, err := e.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

func TestStream_of_changes(t *testing.T) {
	e := serveEndpoint(t, Options{}, echo)
	id := begin(t, e.server, protocol.V20251125)
	header := map[string]string{sessionHeader: id, versionHeader: "2025-11-25"}
	stream := e.open(t, "GET", "/mcp", "", header)
	_, last, data := stream.event()
	if last == "" || data != "" {
		t.Errorf("the first event has the id %q and the data %q", last, data)
	}
	e.server.Notify(ToolsChanged | PromptsChanged)
	for _, want := range []string{"notifications/tools/list_changed", "notifications/prompts/list_changed"} {
		if name, _, data := stream.event(); name != "message" || !strings.Contains(data, want) {
			t.Errorf("got %s %s, want %s", name, data, want)
		}
	}
	t.Run("Last-Event-ID", func(t *testing.T) {
		e.tools.Store(fewerTrains())
		again := e.open(t, "GET", "/mcp", "", map[string]string{sessionHeader: id, versionHeader: "2025-11-25", "Last-Event-ID": last})
		if _, _, data := again.event(); !strings.Contains(data, "tools/list_changed") {
			t.Errorf("a client that missed a change gets %q", data)
		}
	})
	t.Run("ends with its session", func(t *testing.T) {
		if response := e.do(t, "DELETE", "/mcp", "", header); response.StatusCode != 204 {
			t.Errorf("status %d", response.StatusCode)
		}
		stream.ends()
	})
	t.Run("a dead session has none", func(t *testing.T) {
		if response := e.do(t, "GET", "/mcp", "", header); response.StatusCode != 404 {
			t.Errorf("status %d", response.StatusCode)
		}
	})
}

// TestStream_ends_with_server checks that the server ends streams in good order, and says when to open the next one.
func TestStream_ends_with_server(t *testing.T) {
	e := serveEndpoint(t, Options{}, echo)
	for _, stream := range []*feed{
		e.open(t, "GET", "/mcp", "", map[string]string{versionHeader: "2025-06-18"}),
		e.open(t, "GET", "/mcp", "", map[string]string{versionHeader: "2025-11-25"}),
		e.open(t, "GET", "/mcp/sse", "", nil),
	} {
		e.server.Close()
		rest, err := io.ReadAll(stream.lines)
		if err != nil {
			t.Errorf("the stream broke off: %v", err)
		}
		var delay int
		_, last, _ := strings.Cut(string(rest), "retry: ")
		if _, err := fmt.Sscanf(last, "%d\n\n", &delay); err != nil || delay < 500 || delay >= 1500 {
			t.Errorf("the stream ended with %q, want a retry of 0.5 to 1.5 seconds", rest)
		}
	}
}

// expireSoon lets the credentials of the requests that follow expire in a moment.
func (e *endpoint) expireSoon() {
	soon := time.Now().Add(200 * time.Millisecond)
	e.expires.Store(&soon)
}

func TestStream_ends_with_its_credentials(t *testing.T) {
	for _, v := range []protocol.Revision{protocol.V20250326, protocol.V20250618, protocol.V20251125} {
		t.Run(v.String(), func(t *testing.T) {
			e := serveEndpoint(t, Options{}, echo)
			header := map[string]string{versionHeader: v.String(), sessionHeader: begin(t, e.server, v)}
			e.expireSoon()
			e.open(t, "GET", "/mcp", "", header).ends()
		})
	}
	t.Run("HTTP+SSE", func(t *testing.T) {
		e := serveEndpoint(t, Options{}, echo)
		e.expireSoon()
		stream := e.open(t, "GET", "/mcp/sse", "", nil)
		_, _, target := stream.event()
		stream.ends()
		if response := e.do(t, "POST", target, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, nil); response.StatusCode != http.StatusNotFound {
			t.Errorf("after the end: status %d, want 404", response.StatusCode)
		}
	})
	t.Run("2026-07-28", func(t *testing.T) {
		e := serveEndpoint(t, Options{}, echo)
		e.expireSoon()
		stream := e.open(t, "POST", "/mcp", listenBody(`{"toolsListChanged":true}`), listenHeader)
		stream.event() // acknowledged
		_, _, data := stream.event()
		validate(t, protocol.V20260728, "SubscriptionsListenResult", []byte(data))
		stream.ends()
	})
}

func TestStream_stays_alive(t *testing.T) {
	e := serveEndpoint(t, Options{KeepAlive: time.Millisecond}, echo)
	stream := e.open(t, "GET", "/mcp", "", map[string]string{versionHeader: "2025-06-18"})
	for range 3 {
		if line, err := stream.lines.ReadString('\n'); err != nil || line != ":\n" && line != "\n" {
			t.Fatalf("got %q, %v", line, err)
		}
	}
}

func TestStreams_are_limited(t *testing.T) {
	header := map[string]string{versionHeader: "2025-06-18"}
	for rule, c := range map[string]struct {
		options Options
		status  int
	}{
		"share": {Options{MaxStreams: 3}, 429}, // the third is for another client
	} {
		t.Run(rule, func(t *testing.T) {
			e := serveEndpoint(t, c.options, echo)
			open := []*feed{e.open(t, "GET", "/mcp", "", header), e.open(t, "GET", "/mcp", "", header)}
			response := e.do(t, "GET", "/mcp", "", header)
			if response.StatusCode != c.status || response.Header.Get("Retry-After") == "" {
				t.Errorf("status %d, Retry-After %q", response.StatusCode, response.Header.Get("Retry-After"))
			}
			open[0].response.Body.Close()
			waitUntil(t, func() bool {
				open, _ := e.server.streams.Counts()
				return open == 1
			})
			e.open(t, "GET", "/mcp", "", header)
		})
	}
}

func waitUntil(t *testing.T, reached func() bool) {
	t.Helper()
	testkit.Eventually(t, "the state that the test needs", reached)
}

// TestGet_of_a_browser responds with a text that a person can read.
func TestGet_of_a_browser(t *testing.T) {
	e := serveEndpoint(t, Options{}, echo)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.URL+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/plain") || !strings.Contains(string(body), "MCP endpoint") {
		t.Errorf("%d %s %q %v", response.StatusCode, response.Header.Get("Content-Type"), body, err)
	}
}

func TestGet_without_stream(t *testing.T) {
	all, newest := serveEndpoint(t, Options{}, echo), serveEndpoint(t, Options{Versions: []string{"2026-07-28"}}, echo)
	for rule, c := range map[string]struct {
		endpoint *endpoint
		method   string
		header   map[string]string
		status   int
	}{
		"a browser":               {all, "GET", map[string]string{"Accept": "text/html"}, 406},
		"2026-07-28":              {all, "GET", map[string]string{versionHeader: "2026-07-28"}, 405},
		"2026-07-28/DELETE":       {all, "DELETE", map[string]string{versionHeader: "2026-07-28"}, 405},
		"unknown revision":        {all, "GET", map[string]string{versionHeader: "2025-01-01"}, 400},
		"unknown revision/DELETE": {all, "DELETE", map[string]string{versionHeader: "2025-01-01"}, 400},
		"no session/DELETE":       {all, "DELETE", nil, 400},
		"only 2026-07-28":         {newest, "GET", nil, 405},
		"only 2026-07-28/DELETE":  {newest, "DELETE", nil, 405},
		"not spoken":              {newest, "GET", map[string]string{versionHeader: "2025-11-25"}, 400},
	} {
		if response := c.endpoint.do(t, c.method, "/mcp", "", c.header); response.StatusCode != c.status {
			t.Errorf("%s: status %d", rule, response.StatusCode)
		}
	}
}

func listenBody(filter string) string {
	return `{"jsonrpc":"2.0","id":"L1","method":"subscriptions/listen","params":{"_meta":{"` + metaVersion + `":"2026-07-28","` +
		metaCapabilities + `":{}},"notifications":` + filter + `}}`
}

var listenHeader = map[string]string{versionHeader: "2026-07-28", methodHeader: "subscriptions/listen"}

func TestListen(t *testing.T) {
	e := serveEndpoint(t, Options{}, echo)
	stream := e.open(t, "POST", "/mcp", listenBody(`{"toolsListChanged":true,"resourceSubscriptions":["x://unknown"]}`), listenHeader)
	_, _, data := stream.event()
	want := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},` +
		`"_meta":{"io.modelcontextprotocol/subscriptionId":"L1"}}}`
	if data != want {
		t.Errorf("acknowledged as %s", data)
	}
	e.server.Notify(PromptsChanged) // the client has not subscribed
	e.server.Notify(ToolsChanged)
	if _, _, data = stream.event(); !strings.Contains(data, "tools/list_changed") || !strings.Contains(data, `"io.modelcontextprotocol/subscriptionId":"L1"`) {
		t.Errorf("got %s", data)
	}
	e.server.Close()
	if _, _, data = stream.event(); !strings.Contains(data, `"id":"L1","result":{"resultType":"complete"`) {
		t.Errorf("ended with %s", data)
	}
	validate(t, protocol.V20260728, "SubscriptionsListenResult", []byte(data))
	stream.ends()
}

func TestListen_refused(t *testing.T) {
	e := serveEndpoint(t, Options{}, echo)
	for rule, c := range map[string]struct {
		filter, accept string
		status         int
	}{
		"no filter":   {`null`, "", 200},
		"no stream":   {`{}`, "application/json", 406},
		"not URIs":    {`{"resourceSubscriptions":"x"}`, "", 200},
		"many":        {`{"resourceSubscriptions":[` + strings.Repeat(`"x",`, session.MaxWatched) + `"x"]}`, "", 200},
		"not strings": {`{"resourceSubscriptions":[1]}`, "", 200},
	} {
		header := map[string]string{versionHeader: "2026-07-28", methodHeader: "subscriptions/listen"}
		if c.accept != "" {
			header["Accept"] = c.accept
		}
		response := e.do(t, "POST", "/mcp", listenBody(c.filter), header)
		body, _ := io.ReadAll(response.Body)
		if response.StatusCode != c.status || !strings.Contains(string(body), `"error"`) {
			t.Errorf("%s: status %d: %s", rule, response.StatusCode, body)
		}
	}
}

// blocked answers when its context ends.
func blocked(began chan<- struct{}) callerFunc {
	return func(ctx context.Context, _ string, _ []byte) tools.Outcome {
		began <- struct{}{}
		<-ctx.Done()
		return tools.Outcome{Failure: &tools.Failure{Kind: tools.Canceled, Message: context.Cause(ctx).Error()}}
	}
}

const callBlocked = `{"jsonrpc":"2.0","id":41,"method":"tools/call","params":{"name":"get_trip","arguments":{"id":"1"}}}`

func TestCancel_by_notification(t *testing.T) {
	began := make(chan struct{}, 2)
	e := serveEndpoint(t, Options{}, blocked(began))
	id, other := begin(t, e.server, protocol.V20251125), begin(t, e.server, protocol.V20251125)
	done := make(chan string, 2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for _, sessionID := range []string{id, other} {
		go func() {
			r, _ := http.NewRequestWithContext(ctx, "POST", e.URL+"/mcp", strings.NewReader(callBlocked))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set(versionHeader, "2025-11-25")
			r.Header.Set(sessionHeader, sessionID)
			if response, err := e.Client().Do(r); err == nil {
				body, _ := io.ReadAll(response.Body)
				response.Body.Close()
				done <- string(body)
			}
		}()
		<-began
	}
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":41,"reason":"enough"}}`
	response := e.do(t, "POST", "/mcp", cancel, map[string]string{versionHeader: "2025-11-25", sessionHeader: id})
	if response.StatusCode != 202 {
		t.Errorf("status %d", response.StatusCode)
	}
	if body := <-done; body != "" {
		t.Errorf("a canceled request was answered: %s", body)
	}
	select {
	case body := <-done:
		t.Errorf("the same id of another session was canceled too: %s", body)
	default:
	}
}

// A request that was canceled is not answered. Where clients take streams, one that
// ends stands for that, which all of them bear; else an empty answer.
func TestCanceled_request_is_not_answered(t *testing.T) {
	for rule, c := range map[string]struct {
		accept, contentType, body string
		version                   protocol.Revision
		status                    int
		want                      string
	}{
		"stream": {"application/json, text/event-stream", "text/event-stream", callBlocked, protocol.V20251125, 200, ""},
		"json":   {"application/json", "", callBlocked, protocol.V20251125, 202, ""},
		"batch":  {"application/json, text/event-stream", "application/json", "[" + callBlocked + `,{"jsonrpc":"2.0","id":42,"method":"ping"}]`, protocol.V20250326, 200, `[{"jsonrpc":"2.0","id":42,"result":{}}]`},
	} {
		t.Run(rule, func(t *testing.T) {
			began := make(chan struct{}, 1)
			e := serveEndpoint(t, Options{}, blocked(began))
			header := map[string]string{versionHeader: c.version.String(), sessionHeader: begin(t, e.server, c.version)}
			var canceling sync.WaitGroup
			canceling.Go(func() {
				<-began
				e.do(t, "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":41}}`, header)
			})
			accepting := maps.Clone(header)
			accepting["Accept"] = c.accept
			response := e.do(t, "POST", "/mcp", c.body, accepting)
			body, err := io.ReadAll(response.Body)
			if err != nil || string(body) != c.want {
				t.Errorf("got %q, %v, want %q", body, err, c.want)
			}
			if kind := response.Header.Get("Content-Type"); response.StatusCode != c.status || kind != c.contentType {
				t.Errorf("got the status %d with %q, want %d with %q", response.StatusCode, kind, c.status, c.contentType)
			}
			canceling.Wait()
		})
	}
}

func TestCancel_by_closing(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	caller := callerFunc(func(ctx context.Context, _ string, _ []byte) tools.Outcome {
		began <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return tools.Outcome{Failure: &tools.Failure{Kind: tools.Canceled}}
	})
	e := serveEndpoint(t, Options{}, caller)
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		r, _ := http.NewRequestWithContext(ctx, "POST", e.URL+"/mcp", strings.NewReader(callBlocked))
		r.Header.Set("Content-Type", "application/json")
		if response, err := e.Client().Do(r); err == nil {
			response.Body.Close()
		}
	}()
	<-began
	leave()
	if err := <-ended; err == nil {
		t.Error("the call went on")
	}
}
