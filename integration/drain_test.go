package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/store/storetest"
)

// Times of the rolling restart.
const (
	drainDelay    = time.Second             // shutdown_delay
	drainGrace    = 8 * time.Second         // grace_period
	drainSlow     = 1500 * time.Millisecond // latency of slow orders: some are in progress when the listeners close
	drainFast     = 30 * time.Millisecond   // latency of the other orders
	drainHandOver = 7 * time.Second         // below the shortest interval in which nodes look for lost work
	drainProbes   = 200 * time.Millisecond  // interval of the balancer
)

// drainSite are two nodes with one store, behind a Caddy that balances.
type drainSite struct {
	*killSite
	slow     *httptest.Server // the API, with a latency
	store    string
	balancer *brittleNode

	mu     sync.Mutex
	counts map[string]*drainCount
}

// drainCount is what the clients of one kind saw.
type drainCount struct {
	done, failed int
	slowest      time.Duration
	names        []string
	errors       []string
}

func startDrainSite(t *testing.T, store string) *drainSite {
	t.Helper()
	s := &drainSite{killSite: newKillSite(t), store: store, counts: make(map[string]*drainCount)}
	s.gates.releaseAll()
	s.slow = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		latency := drainFast
		if bytes.Contains(body, []byte("slow")) {
			latency = drainSlow
		}
		select {
		case <-time.After(latency):
		case <-r.Context().Done(): // no order is made
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.killSite.api.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.slow.Close)
	return s
}

// start starts a node with an empty disk.
func (s *drainSite) start(t *testing.T, address string) *brittleNode {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "agents.yaml"), hostedAgents)
	writeFile(t, filepath.Join(dir, "plain.yaml"), strings.ReplaceAll(ordersDocument, "/orders:", "/plain:"))
	api := strings.TrimPrefix(s.slow.URL, "http://")
	return startBrittle(t, dir, address, fmt.Sprintf(`{
	admin off
	shutdown_delay %s
	grace_period %s
	agents {
		toolset orders orders.yaml
		toolset plain plain.yaml
		store %s
	}
}
http://%s {
%s	mcp /mcp plain
	mcp /tasks plain {
		task_after 100ms
		secret one-secret-of-all-nodes
	}
	otc /otc plain
	reverse_proxy %s
}
`, drainDelay, drainGrace, s.store, address, agentsRoute(s.model.URL, api), api))
}

// drainError is an error response.
type drainError struct {
	status int
	body   string
}

func (e *drainError) Error() string { return fmt.Sprintf("%d %.300s", e.status, e.body) }

// send sends a request through the balancer. It repeats it once if the connection is reset.
func (s *drainSite) send(ctx context.Context, user, method, path, body string, header ...string) (*http.Response, error) {
	for attempt := 0; ; attempt++ {
		r, err := http.NewRequestWithContext(ctx, method, s.balancer.url+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("X-Api-Key", "0123456789abcdef-"+user)
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		response, err := http.DefaultTransport.RoundTrip(r)
		if errors.Is(err, syscall.ECONNRESET) && attempt == 0 {
			continue
		}
		if err != nil {
			return nil, err
		}
		if response.StatusCode >= http.StatusBadRequest {
			defer response.Body.Close()
			text, _ := io.ReadAll(response.Body)
			return nil, &drainError{response.StatusCode, string(text)}
		}
		return response, nil
	}
}

// ask is send, and reads the response as JSON.
func (s *drainSite) ask(ctx context.Context, into any, user, method, path, body string, header ...string) (http.Header, error) {
	response, err := s.send(ctx, user, method, path, body, header...)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && into != nil {
		if err = json.Unmarshal(text, into); err != nil {
			err = fmt.Errorf("%w: %.300s", err, text)
		}
	}
	return response.Header, err
}

// rpc sends a JSON-RPC message. Its result must not be an error.
func (s *drainSite) rpc(ctx context.Context, into *orderTask, path, method, params string, header ...string) (http.Header, error) {
	var failed struct {
		Error  json.RawMessage
		Result struct{ IsError bool }
	}
	var text json.RawMessage
	got, err := s.ask(ctx, &text, "ann", "POST", path, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params),
		append([]string{"Accept", "application/json, text/event-stream"}, header...)...)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &failed); err != nil || failed.Error != nil || failed.Result.IsError {
		return nil, &drainError{http.StatusOK, string(text)}
	}
	if into != nil {
		err = json.Unmarshal(text, into)
	}
	return got, err
}

// events reads a stream of events until handle returns false or the server ends it. hinted reports whether the server
// said when to come back.
func (s *drainSite) events(ctx context.Context, path, last string, handle func(event, id, data string) bool, header ...string) (hinted bool, err error) {
	if last != "" {
		header = append(header, "Last-Event-ID", last)
	}
	response, err := s.send(ctx, "ann", "GET", path, "", append([]string{"Accept", "text/event-stream"}, header...)...)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	event, id := "", ""
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		switch field, value, _ := strings.Cut(lines.Text(), ": "); field {
		case "event":
			event = value
		case "id":
			id = value
			if !handle("", id, "") {
				return false, nil
			}
		case "retry":
			hinted = true
		case "data":
			if !handle(event, id, value) {
				return false, nil
			}
		}
	}
	return hinted, lines.Err()
}

// current returns the parameter and the headers of a request of revision 2026-07-28.
func current(method, name string) (meta string, header []string) {
	return `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`,
		[]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name}
}

const initializeParams = `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`

func orderParams(name string) string {
	return fmt.Sprintf(`"name":"order","arguments":{"name":%q}`, name)
}

// await calls look until it returns true or an error, with a pause.
func await(ctx context.Context, look func() (bool, error)) error {
	for {
		if done, err := look(); done || err != nil {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// runTo follows a run by its events until it has the status.
func (s *drainSite) runTo(ctx context.Context, location, status string) (v hostedView, err error) {
	for v.Status != status {
		hinted, err := s.events(ctx, location, "", func(event, _, data string) bool {
			if event == "state" {
				var now hostedView
				if json.Unmarshal([]byte(data), &now) == nil {
					v = now
				}
			}
			return v.Status != status && v.Status != "error"
		})
		switch {
		case err != nil:
			return v, err
		case v.Status == "error":
			return v, fmt.Errorf("the run ended: %+v", v.Error)
		case v.Status != status && !hinted:
			return v, fmt.Errorf("the stream of %s ended in %s without a hint", location, v.Status)
		}
	}
	return v, nil
}

// begin starts a run and returns its location.
func (s *drainSite) begin(ctx context.Context, agent, name string) (string, error) {
	header, err := s.ask(ctx, nil, "ann", "POST", "/agents/"+agent, fmt.Sprintf(`{"input":%q}`, name))
	return header.Get("Location"), err
}

// otc calls the tool with a call_id.
func (s *drainSite) otc(ctx context.Context, name string) error {
	var got struct{ Success bool }
	_, err := s.ask(ctx, &got, "ann", "POST", "/otc/call", fmt.Sprintf(`{"request":{"call_id":%q,"tool_id":"Orders.order","input":{"name":%q}}}`, name, name))
	if err == nil && !got.Success {
		err = errors.New("the call failed")
	}
	return err
}

// drainKinds are what the clients do. Each function makes one order with that name.
var drainKinds = map[string]func(s *drainSite, ctx context.Context, session, name string) error{
	"MCP 2025-11-25": func(s *drainSite, ctx context.Context, session, name string) error {
		_, err := s.rpc(ctx, nil, "/mcp", "tools/call", orderParams(name), "Mcp-Session-Id", session)
		return err
	},
	"MCP 2025-11-25, slow": func(s *drainSite, ctx context.Context, session, name string) error {
		_, err := s.rpc(ctx, nil, "/mcp", "tools/call", orderParams(name), "Mcp-Session-Id", session)
		return err
	},
	"MCP 2026-07-28": func(s *drainSite, ctx context.Context, _, name string) error {
		meta, header := current("tools/call", "order")
		_, err := s.rpc(ctx, nil, "/mcp", "tools/call", orderParams(name)+meta, header...)
		return err
	},
	"OTC": func(s *drainSite, ctx context.Context, _, name string) error {
		return s.otc(ctx, name)
	},
	"OTC, slow": func(s *drainSite, ctx context.Context, _, name string) error {
		return s.otc(ctx, name)
	},
	"task, slow": func(s *drainSite, ctx context.Context, _, name string) error {
		var begun orderTask
		meta, header := current("tools/call", "order")
		if _, err := s.rpc(ctx, &begun, "/tasks", "tools/call", orderParams(name)+meta, header...); err != nil {
			return err
		}
		id := begun.Result.TaskID
		return await(ctx, func() (bool, error) {
			var got orderTask
			meta, header := current("tasks/get", id)
			_, err := s.rpc(ctx, &got, "/tasks", "tasks/get", fmt.Sprintf(`"taskId":%q`, id)+meta, header...)
			if got.Result.Status != "working" && got.Result.Status != "completed" && err == nil {
				err = fmt.Errorf("the task %s: %+v", id, got)
			}
			return got.Result.Status == "completed", err
		})
	},
	"run": func(s *drainSite, ctx context.Context, _, name string) error {
		location, err := s.begin(ctx, "buyer", name)
		if err == nil {
			_, err = s.runTo(ctx, location, "complete")
		}
		return err
	},
	"run, slow": func(s *drainSite, ctx context.Context, _, name string) error {
		location, err := s.begin(ctx, "buyer", name)
		if err == nil {
			_, err = s.runTo(ctx, location, "complete")
		}
		return err
	},
	"review": func(s *drainSite, ctx context.Context, _, name string) error {
		location, err := s.begin(ctx, "clerk", name)
		if err != nil {
			return err
		}
		v, err := s.runTo(ctx, location, "awaiting-verification")
		if err != nil {
			return err
		}
		for _, review := range v.Reviews {
			if _, err := s.ask(ctx, nil, "boss", "POST", review.Location+"/approve", ""); err != nil {
				return err
			}
		}
		_, err = s.runTo(ctx, location, "complete")
		return err
	},
}

// record counts what a client saw.
func (s *drainSite) record(kind, name string, took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts[kind]
	c.slowest = max(c.slowest, took)
	if c.names = append(c.names, name); err == nil {
		c.done++
		return
	}
	c.failed++
	c.errors = append(c.errors, name+": "+err.Error())
}

// listen keeps a stream open: a server that ends it says when to come back.
func (s *drainSite) listen(ctx context.Context, kind, session string) {
	for last := ""; ctx.Err() == nil; {
		hinted, err := s.events(ctx, "/mcp", last, func(_, id, _ string) bool {
			last = id
			return true
		}, "Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-11-25")
		if ctx.Err() != nil {
			return
		}
		if err == nil && !hinted {
			err = errors.New("the stream ended without a hint")
		}
		if err == nil && last == "" {
			err = errors.New("the stream had no id to resume from")
		}
		s.record(kind, "", 0, err)
	}
}

// TestDrain_rolling_restart restarts both nodes in turn, twice, under load. No client sees an error, and each order is
// made once.
func TestDrain_rolling_restart(t *testing.T) {
	for name, start := range storetest.Shared() {
		t.Run(name, func(t *testing.T) {
			s := startDrainSite(t, start(t).Option)
			addresses := [2]string{freeAddress(t), freeAddress(t)}
			nodes := [2]*brittleNode{s.start(t, addresses[0]), s.start(t, addresses[1])}
			front := freeAddress(t)
			s.balancer = startBrittle(t, t.TempDir(), front, fmt.Sprintf(`{
	admin off
}
http://%s {
	reverse_proxy %s %s {
		lb_policy round_robin
		lb_try_duration 5s
		lb_try_interval 50ms
		health_uri /health/ready
		health_interval %s
		flush_interval -1
	}
}
`, front, addresses[0], addresses[1], drainProbes))

			ctx, cancel := context.WithTimeout(t.Context(), 2*waitTimeout)
			defer cancel()
			header, err := s.rpc(ctx, nil, "/mcp", "initialize", initializeParams)
			if err != nil {
				t.Fatal(err)
			}
			session := header.Get("Mcp-Session-Id")
			var stop atomic.Bool
			var clients, streams sync.WaitGroup
			listening, hangUp := context.WithCancel(ctx)
			defer hangUp()
			for kind, order := range drainKinds {
				s.counts[kind] = &drainCount{}
				workers := 1
				if strings.Contains(kind, "slow") {
					workers = 3
				}
				for worker := range workers {
					clients.Go(func() {
						for i := 0; !stop.Load() && ctx.Err() == nil; i++ {
							name := fmt.Sprintf("%s/%d-%d", kind, worker, i)
							begun := time.Now()
							err := order(s, ctx, session, name)
							s.record(kind, name, time.Since(begun), err)
						}
					})
				}
			}
			const streamKind = "stream"
			s.counts[streamKind] = &drainCount{}
			for range 8 {
				streams.Go(func() { s.listen(listening, streamKind, session) })
			}

			began := time.Now()
			for round := range 2 {
				for i := range nodes {
					s.restart(t, &nodes[i], addresses[i], fmt.Sprintf("restart %d of node %d", round+1, i+1))
				}
			}
			restarted := time.Since(began)
			stop.Store(true)
			clients.Wait()
			hangUp()
			streams.Wait()
			s.report(t, restarted)
		})
	}
}

// restart stops a node as an orchestrator does, and starts it again.
func (s *drainSite) restart(t *testing.T, n **brittleNode, address, what string) {
	t.Helper()
	begun := time.Now()
	if err := (*n).cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitFor(t, waitTimeout, "the first probe that fails", func() bool {
		response, err := stormClient.Get((*n).url + "/health/ready")
		if err != nil {
			t.Fatalf("the node closed its listener before it was not ready: %v", err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return response.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(text), "shutting down")
	})
	failed := time.Since(begun)
	<-(*n).ended
	stopped := time.Since(begun)
	if limit := drainDelay + drainGrace; stopped > limit {
		t.Errorf("%s: the node needed %s to stop; delay and grace are %s", what, stopped, limit)
	}
	if log := (*n).log.String(); strings.Contains(log, "server shutdown") && strings.Contains(log, "graceful shutdown") {
		t.Errorf("%s: requests were still open at the end of the grace period", what)
	}
	*n = s.start(t, address)
	t.Logf("%s: not ready after %d ms, stopped after %d ms, ready again after %d ms", what, failed.Milliseconds(), stopped.Milliseconds(), time.Since(begun).Milliseconds())
}

// report compares what clients saw with what the API counted.
func (s *drainSite) report(t *testing.T, took time.Duration) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killSite.mu.Lock()
	defer s.killSite.mu.Unlock()
	t.Logf("%d restarts in %s", 4, took.Round(time.Millisecond))
	t.Logf("%-22s %6s %6s %6s %6s %10s", "kind", "done", "failed", "lost", "twice", "slowest")
	for _, kind := range slices.Sorted(maps.Keys(s.counts)) {
		c := s.counts[kind]
		lost, twice := 0, 0
		for _, name := range c.names {
			if made := s.orders[name]; name != "" && made == 0 {
				lost++
			} else if made > 1 {
				twice++
			}
		}
		t.Logf("%-22s %6d %6d %6d %6d %7d ms", kind, c.done, c.failed, lost, twice, c.slowest.Milliseconds())
		for _, text := range c.errors[:min(len(c.errors), 5)] {
			t.Errorf("%s: %s", kind, text)
		}
		if c.slowest > drainHandOver {
			t.Errorf("%s: the slowest one took %s, so its work was not handed over but found later", kind, c.slowest)
		}
		if c.done == 0 || lost > 0 || twice > 0 {
			t.Errorf("%s: %d done, %d lost, %d made twice", kind, c.done, lost, twice)
		}
	}
}
