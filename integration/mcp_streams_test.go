package integration

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	openStreams = 1000

	// spareGoroutines is how many goroutines may come and go by themselves: of
	// connections that are kept for a while, and of Caddy's own upkeep.
	spareGoroutines = 25
)

// An openStream is a stream of the server that a client reads.
type openStream struct {
	name     string
	body     io.ReadCloser
	farewell string      // words of the event that must be the last; "" for any
	events   chan string // data of each event; closed at the end of the stream
	err      error       // why it ended, nil if in good order; after events is closed
}

func newOpenStream(name string, body io.ReadCloser) *openStream {
	s := &openStream{name: name, body: body, events: make(chan string, 16)}
	go func() {
		defer close(s.events)
		lines, whole := bufio.NewScanner(body), true
		for lines.Scan() {
			whole = lines.Text() == ""
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "" {
				s.events <- data
			}
		}
		if s.err = lines.Err(); s.err == nil && !whole {
			s.err = errors.New("the last event is not complete")
		}
	}()
	return s
}

// next waits for an event with these words in it.
func (s *openStream) next(ctx context.Context, words string) error {
	for {
		select {
		case data, open := <-s.events:
			switch {
			case !open:
				return fmt.Errorf("%s ended before %q came: %w", s.name, words, cmp.Or(s.err, io.EOF))
			case strings.Contains(data, words):
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("%s: no %q came", s.name, words)
		}
	}
}

// take returns the next event.
func (s *openStream) take(ctx context.Context) (string, error) {
	select {
	case data, open := <-s.events:
		if !open {
			return "", fmt.Errorf("%s ended: %w", s.name, cmp.Or(s.err, io.EOF))
		}
		return data, nil
	case <-ctx.Done():
		return "", fmt.Errorf("%s: nothing came", s.name)
	}
}

// end waits until the server has ended the stream in good order: after a whole
// event, with the words that it must end with, and no broken connection.
func (s *openStream) end(ctx context.Context) error {
	last := ""
	for {
		select {
		case data, open := <-s.events:
			switch {
			case open:
				last = data
			case s.err == nil && !strings.Contains(last, s.farewell):
				return fmt.Errorf("%s ended with %q", s.name, last)
			default:
				return s.err
			}
		case <-ctx.Done():
			return fmt.Errorf("%s is still open", s.name)
		}
	}
}

// A streamClient opens streams of both eras, each on a connection of its own.
type streamClient struct {
	url, session string
	http         *http.Client
	resend       bool // what is dropped unread: see send
}

func (c *streamClient) do(ctx context.Context, method, body string, header map[string]string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := c.send(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusAccepted {
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		return nil, fmt.Errorf("%s: %s", response.Status, text)
	}
	return response, nil
}

// send sends a request, once more if it got no answer and the client is to resend:
// what breaks off twice is a fault.
func (c *streamClient) send(request *http.Request) (*http.Response, error) {
	response, err := c.http.Do(request)
	if !c.resend || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		return response, err
	}
	if request.Body, err = request.GetBody(); err != nil {
		return nil, err
	}
	return c.http.Do(request)
}

// initialize begins a session of 2025-11-25 and returns its id.
func (c *streamClient) initialize(ctx context.Context) (session string, err error) {
	response, err := c.do(ctx, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"fairway-test","version":"1"}}}`, nil)
	if err != nil {
		return "", err
	}
	response.Body.Close()
	if session = response.Header.Get("Mcp-Session-Id"); session == "" {
		return "", errors.New("initialize gave no session")
	}
	return session, nil
}

// open opens stream n: of a session of its own, of 2026-07-28 or of HTTP+SSE in turn.
func (c *streamClient) open(ctx context.Context, n int) (s *openStream, err error) {
	switch n % 3 {
	case 0:
		var session string
		if session, err = c.initialize(ctx); err == nil {
			s, err = c.openSession(ctx, n, session)
		}
	case 1:
		s, err = c.listen(ctx, n)
	default:
		s, err = c.openLegacy(ctx, n)
	}
	if err != nil {
		return nil, fmt.Errorf("stream %d: %w", n, err)
	}
	return s, nil
}

func (c *streamClient) openSession(ctx context.Context, n int, session string) (*openStream, error) {
	response, err := c.do(ctx, http.MethodGet, "", map[string]string{"Mcp-Protocol-Version": "2025-11-25", "Mcp-Session-Id": session})
	if err != nil {
		return nil, err
	}
	return newOpenStream("session stream "+strconv.Itoa(n), response.Body), nil
}

func (c *streamClient) listen(ctx context.Context, n int) (*openStream, error) {
	response, err := c.do(ctx, http.MethodPost,
		`{"jsonrpc":"2.0","id":`+strconv.Itoa(n)+`,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"})
	if err != nil {
		return nil, err
	}
	s := newOpenStream("subscription "+strconv.Itoa(n), response.Body)
	s.farewell = `"id":` + strconv.Itoa(n) + `,"result":{"resultType":"complete"`
	return s, s.next(ctx, "notifications/subscriptions/acknowledged")
}

func (c *streamClient) openLegacy(ctx context.Context, n int) (*openStream, error) {
	response, err := c.do(ctx, http.MethodGet, "", nil)
	if err != nil {
		return nil, err
	}
	s := newOpenStream("HTTP+SSE stream "+strconv.Itoa(n), response.Body)
	target, err := s.take(ctx)
	if err != nil {
		return nil, err
	}
	messages := *c
	messages.url = c.url[:strings.LastIndex(c.url, "/mcp")] + target
	accepted, err := messages.do(ctx, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"fairway-test","version":"1"}}}`, nil)
	if err != nil {
		return nil, err
	}
	accepted.Body.Close()
	return s, s.next(ctx, `"protocolVersion":"2024-11-05"`)
}

// each does something with all streams at once.
func each(t *testing.T, streams []*openStream, do func(*openStream) error) {
	t.Helper()
	var mu sync.Mutex
	var failures []error
	var wg sync.WaitGroup
	for _, s := range streams {
		wg.Go(func() {
			if err := do(s); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failures = append(failures, err)
			}
		})
	}
	wg.Wait()
	if len(failures) > 0 {
		t.Fatalf("%d of %d streams, such as: %v", len(failures), len(streams), failures[0])
	}
}

// goroutines asks Caddy's admin endpoint how many there are.
func goroutines(admin string) (n int, err error) {
	response, err := http.Get("http://" + admin + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = fmt.Fscanf(response.Body, "goroutine profile: total %d", &n)
	return n, err
}

// holdCalls starts an API with one operation, GET /held. It answers when release
// is called, and arrived is closed when it is asked.
func holdCalls(t *testing.T) (address string, arrived <-chan struct{}, release func()) {
	t.Helper()
	asked, released := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(asked) })
	release = sync.OnceFunc(func() { close(released) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		once()
		<-released
		fmt.Fprint(w, "held no longer")
	}))
	t.Cleanup(server.Close)
	t.Cleanup(release)
	return server.Listener.Addr().String(), asked, release
}

// TestStreams_through_reload has a thousand clients listen. They all get the notification that
// the document has changed; when the configuration is loaded anew, their streams
// are ended in good order while a call on the way is waited for; and nothing of
// them is left in the gateway.
func TestStreams_through_reload(t *testing.T) {
	t.Parallel() // it mostly waits
	const timeout = 5 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()

	dir := t.TempDir()
	document := readFixture(t, "openapi.yaml") + `
  /held:
    get:
      operationId: held
      responses: {'200': {description: in its own time, content: {text/plain: {}}}}
`
	writeFile(t, filepath.Join(dir, "openapi.yaml"), document)
	writeFile(t, filepath.Join(dir, "prompts.yaml"), readFixture(t, "prompts.yaml"))
	api, site, admin := freeAddress(t), freeAddress(t), freeAddress(t)
	startFixtureAPI(t, dir, api)
	holding, arrived, release := holdCalls(t)
	config := func(instructions string) string {
		return "{\n\tadmin " + admin + "\n}\n\nhttp://" + site + " {\n\tmcp /mcp openapi.yaml {\n\t\tprompts prompts.yaml\n\t\tinstructions " + instructions +
			"\n\t\tmax_streams " + strconv.Itoa(4*openStreams) + "\n\t}\n\treverse_proxy /held " + holding + "\n\treverse_proxy " + api + "\n}\n"
	}
	g := startGateway(t, dir, site, config("before"))

	transport := &http.Transport{}
	c := &streamClient{url: g.url + "/mcp", http: &http.Client{Transport: transport}}
	var err error
	if c.session, err = c.initialize(ctx); err != nil {
		t.Fatal(err)
	}
	transport.CloseIdleConnections()
	before, err := goroutines(admin)
	if err != nil {
		t.Fatal(err)
	}

	streams := make([]*openStream, openStreams)
	for n := range streams {
		var err error
		if streams[n], err = c.open(ctx, n); err != nil {
			t.Fatal(err)
		}
		defer streams[n].body.Close()
	}

	replaceFile(t, filepath.Join(dir, "openapi.yaml"), document+`
  /another:
    get:
      operationId: another
      responses: {'204': {description: nothing}}
`)
	each(t, streams, func(s *openStream) error { return s.next(ctx, "notifications/tools/list_changed") })

	answered, loaded := make(chan error, 1), make(chan error, 1)
	go func() { answered <- c.callTool(ctx, "held", "held no longer") }()
	select {
	case <-arrived:
	case err := <-answered:
		t.Fatalf("the call to hold: %v", err)
	}
	go func() { loaded <- load(ctx, admin, config("after")) }()
	each(t, streams, func(s *openStream) error { return s.end(ctx) })
	release()
	if err := <-answered; err != nil {
		t.Errorf("the call on the way: %v", err)
	}
	if err := <-loaded; err != nil {
		t.Fatalf("loading the configuration: %v", err)
	}

	waitForOneListener(t, site)
	waitForOneListener(t, admin)
	// Where that cannot be waited for, the server that was replaced may still accept
	// a connection in the moment it closes, and drop it unread.
	c.resend = true
	again, err := c.openSession(ctx, 0, c.session)
	if err != nil {
		t.Fatalf("the session that began before the reload: %v", err)
	}
	again.body.Close()
	for n := range 3 {
		again, err := c.open(ctx, n)
		if err != nil {
			t.Fatalf("after the reload: %v", err)
		}
		again.body.Close()
	}
	if err := c.callTool(ctx, "test_simple_text", "simple text"); err != nil {
		t.Errorf("after the reload: %v", err)
	}

	transport.CloseIdleConnections()
	waitFor(t, waitTimeout, "the goroutines of the streams to end", func() bool {
		n, err := goroutines(admin) // the endpoint too is replaced, and may drop a request
		return err == nil && n <= before+spareGoroutines
	})
}

// callTool calls a tool whose result has that text.
func (c *streamClient) callTool(ctx context.Context, name, says string) error {
	response, err := c.do(ctx, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`"}}`,
		map[string]string{"Mcp-Protocol-Version": "2025-11-25", "Mcp-Session-Id": c.session})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && !strings.Contains(string(body), says) {
		err = fmt.Errorf("answered with %s", body)
	}
	return err
}

// load puts a Caddyfile in the place of the one that runs.
func load(ctx context.Context, admin, caddyfile string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+admin+"/load", strings.NewReader(caddyfile))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "text/caddyfile")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s: %s", response.Status, text)
	}
	return nil
}
