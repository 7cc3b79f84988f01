package mcpadapter

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/task"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/storetest"
	"github.com/fairwayhq/fairway/tools"
)

// oneTaskNode returns a server with one of the stores that nodes can share.
func oneTaskNode(t *testing.T, options TaskOptions) *Server {
	t.Helper()
	return taskNodes(t, storetest.Shared()["redis"](t), 1, options)[0]
}

// taskNodes returns servers that share a store, each with a connection of its own.
func taskNodes(t *testing.T, server *storetest.SharedServer, count int, options TaskOptions) []*Server {
	t.Helper()
	nodes := make([]*Server, count)
	for i := range nodes {
		st := server.Open(t)
		own := options
		own.Open = func(ctx context.Context) (store.Store, error) {
			if options.Open != nil { // only to notice that the store is opened
				_, _ = options.Open(ctx)
			}
			return st, nil
		}
		own.Failed = func(err error) { t.Logf("node %d: %v", i, err) }
		nodes[i] = New(Options{Tasks: &own, Secrets: FixedSecrets([]byte("one secret of all nodes"))})
		t.Cleanup(func() { stopNode(nodes[i], 0) })
	}
	return nodes
}

// taskAnswer is the result of a request about a task.
type taskAnswer struct {
	Result struct {
		ResultType, TaskID, Status, StatusMessage string
		Task                                      struct {
			TaskID, Status string
			TTL            int
		}
		Tasks      []struct{ TaskID, Status string }
		NextCursor string
		Content    []struct{ Text string }
		Result     struct{ Content []struct{ Text string } }
		Error      struct{ Code int }
		Meta       map[string]json.RawMessage `json:"_meta"`
	}
	Error struct {
		Code    int
		Message string
	}
}

// taskClient is a client of a user.
type taskClient struct {
	t       *testing.T
	version protocol.Revision
	user    string
	caller  tools.Caller
}

// ask sends a request to a node.
func (c taskClient) ask(node *Server, method, params string) (got taskAnswer) {
	c.t.Helper()
	header := map[string]string{versionHeader: c.version.String()}
	if c.version.Stateless() {
		var named struct{ Name, TaskID string }
		if err := json.Unmarshal([]byte("{"+params+"}"), &named); err != nil {
			c.t.Fatal(err)
		}
		header["Mcp-Method"], header["Mcp-Name"] = method, named.Name+named.TaskID
		params += `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	}
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	site := siteOf(trains(), c.caller)
	site.User = c.user
	w := httptest.NewRecorder()
	node.ServeHTTP(w, r.WithContext(c.t.Context()), site)
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		c.t.Fatalf("%v: %d %s", err, w.Code, w.Body)
	}
	return got
}

func (c taskClient) begin(node *Server, name string) string {
	c.t.Helper()
	got := c.ask(node, "tools/call", fmt.Sprintf(`"name":%q,"arguments":%s,"task":{"ttl":60000}`, name, taskArguments[name]))
	if id := got.Result.TaskID + got.Result.Task.TaskID; id != "" {
		return id
	}
	c.t.Fatalf("no task: %+v", got)
	return ""
}

// taskArguments are valid arguments of the tools of trains.
var taskArguments = map[string]string{"list_trips": `{}`, "book_trip": `{"id":"a"}`, "get_trip": `{"id":"a"}`}

// about asks for a task.
func (c taskClient) about(node *Server, method, id string) taskAnswer {
	c.t.Helper()
	return c.ask(node, method, fmt.Sprintf(`"taskId":%q`, id))
}

// await asks for a task until it has a status.
func (c taskClient) await(node *Server, id, status string) taskAnswer {
	c.t.Helper()
	var got taskAnswer
	testkit.Eventually(c.t, "the status "+status, func() bool {
		got = c.about(node, "tasks/get", id)
		return got.Result.Status == status
	})
	return got
}

// heldCaller holds calls until release is closed, or their context ends.
type heldCaller struct {
	calls    atomic.Int32
	release  chan struct{}
	canceled chan struct{}
	once     sync.Once
}

func newHeldCaller() *heldCaller {
	return &heldCaller{release: make(chan struct{}), canceled: make(chan struct{})}
}

func (h *heldCaller) Call(ctx context.Context, name string, _ []byte) tools.Outcome {
	h.calls.Add(1)
	select {
	case <-h.release:
		outcome := answered(http.StatusOK, "text/plain", "done")
		outcome.Tool, _ = trains().Tool(name)
		return outcome
	case <-ctx.Done():
		h.once.Do(func() { close(h.canceled) })
		return tools.Outcome{Failure: &tools.Failure{Kind: tools.Canceled, Message: "canceled"}}
	}
}

// stopNode stops a node. Its calls have the grace period.
func stopNode(node *Server, grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	node.Close()
	node.Drain(ctx)
}

// TestTasks_of_a_node_that_stops checks that the running calls of tasks end in the grace period, and that those that do not
// are interrupted: an idempotent one is made by another node, another one fails.
func TestTasks_of_a_node_that_stops(t *testing.T) { storetest.OnShared(t, tasksOfStopping) }

func tasksOfStopping(t *testing.T, server *storetest.SharedServer) {
	t.Run("finish", func(t *testing.T) {
		nodes := taskNodes(t, server, 2, TaskOptions{After: time.Millisecond})
		held := newHeldCaller()
		c := taskClient{t, protocol.V20260728, "ann", held}
		id := c.begin(nodes[0], "book_trip")
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			stopNode(nodes[0], testkit.Patience)
		}()
		<-nodes[0].open.Done()
		if got := c.about(nodes[1], "tasks/get", id); got.Result.Status != "working" {
			t.Errorf("while the node stops: %+v", got)
		}
		close(held.release)
		<-stopped
		if got := c.about(nodes[1], "tasks/get", id); got.Result.Status != "completed" || held.calls.Load() != 1 {
			t.Errorf("%d calls, %+v", held.calls.Load(), got)
		}
	})
	for tool, want := range map[string]string{"list_trips": "completed", "book_trip": "failed"} {
		t.Run(tool, func(t *testing.T) {
			nodes := taskNodes(t, server, 2, TaskOptions{After: time.Millisecond})
			held := newHeldCaller()
			id := taskClient{t, protocol.V20260728, "ann", held}.begin(nodes[0], tool)
			stopNode(nodes[0], 0)
			<-held.canceled
			other := newHeldCaller()
			close(other.release)
			taskClient{t, protocol.V20260728, "ann", other}.await(nodes[1], id, want)
		})
	}
}

// TestTasks_result_of_a_node_that_stops checks that a client that waits for a task learns that it must ask again.
func TestTasks_result_of_a_node_that_stops(t *testing.T) { storetest.OnShared(t, resultOfStopping) }

func resultOfStopping(t *testing.T, server *storetest.SharedServer) {
	nodes := taskNodes(t, server, 2, TaskOptions{After: time.Millisecond})
	held := newHeldCaller()
	c := taskClient{t, protocol.V20251125, "ann", held}
	id := c.begin(nodes[0], "list_trips")
	answer := make(chan taskAnswer, 1)
	go func() { answer <- c.about(nodes[0], "tasks/result", id) }()
	nodes[0].Close()
	if got := <-answer; got.Error.Code != protocol.InternalError || !strings.Contains(got.Error.Message, "repeat") {
		t.Errorf("got %+v", got)
	}
	close(held.release)
	c.await(nodes[1], id, "completed")
}

// TestTasks_on_two_nodes asks another node for the state, the end and the result of a task.
func TestTasks_on_two_nodes(t *testing.T) { storetest.OnShared(t, tasksOnTwoNodes) }

func tasksOnTwoNodes(t *testing.T, server *storetest.SharedServer) {
	nodes := taskNodes(t, server, 2, TaskOptions{After: 10 * time.Millisecond})
	for _, v := range []protocol.Revision{protocol.V20251125, protocol.V20260728} {
		t.Run(v.String(), func(t *testing.T) {
			held := newHeldCaller()
			c := taskClient{t, v, "ann", held}
			id := c.begin(nodes[0], "list_trips")
			if got := c.about(nodes[1], "tasks/get", id); got.Result.Status != "working" {
				t.Errorf("got %+v", got)
			}
			other := taskClient{t, v, "bob", held}
			for _, method := range []string{"tasks/get", "tasks/cancel"} {
				if got, unknown := other.about(nodes[1], method, id), other.about(nodes[1], method, "x"); got.Error != unknown.Error || got.Error.Code != -32602 {
					t.Errorf("%s of another user: %+v, want %+v", method, got.Error, unknown.Error)
				}
			}
			close(held.release)
			c.await(nodes[1], id, "completed")
			if n := held.calls.Load(); n != 1 {
				t.Errorf("called %d times", n)
			}

			held = newHeldCaller()
			c.caller = held
			id = c.begin(nodes[0], "list_trips")
			c.about(nodes[1], "tasks/cancel", id)
			select {
			case <-held.canceled:
			case <-time.After(testkit.Patience):
				t.Error("the call goes on after it was canceled on another node")
			}
			c.await(nodes[0], id, "cancelled")
		})
	}
}

// TestTasks_of_a_node_that_died wants a call with a safe method to be made again, and another one to
// fail.
func TestTasks_of_a_node_that_died(t *testing.T) { storetest.OnShared(t, tasksOfDead) }

func tasksOfDead(t *testing.T, server *storetest.SharedServer) {
	nodes := taskNodes(t, server, 2, TaskOptions{After: 10 * time.Millisecond, Lease: 300 * time.Millisecond})
	for name, want := range map[string]string{"list_trips": "completed", "book_trip": "failed"} {
		t.Run(name, func(t *testing.T) {
			held := newHeldCaller()
			defer close(held.release)
			c := taskClient{t, protocol.V20260728, "ann", held}
			id := c.begin(nodes[0], name)
			if _, err := nodes[1].tasks.Change(t.Context(), task.Owner{"ann"}, id, func(r *task.Record) error {
				r.Lease.Token = "of a node that died"
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			ready := newHeldCaller()
			close(ready.release)
			c.caller = ready
			got := c.await(nodes[1], id, want)
			if made := ready.calls.Load(); (want == "completed") != (made == 1) || want == "failed" && got.Result.Error.Code == 0 {
				t.Errorf("called %d times, got %+v", made, got)
			}
		})
	}
}

// TestTasks_with_parameter plays the tasks of 2025-11-25.
func TestTasks_with_parameter(t *testing.T) {
	node := oneTaskNode(t, TaskOptions{After: time.Hour})
	held := newHeldCaller()
	c := taskClient{t, protocol.V20251125, "ann", held}
	id := c.begin(node, "list_trips")
	close(held.release)
	got := c.about(node, "tasks/result", id)
	if len(got.Result.Content) != 1 || got.Result.Content[0].Text != "done" || !strings.Contains(string(got.Result.Meta["io.modelcontextprotocol/related-task"]), id) {
		t.Errorf("tasks/result: %+v", got)
	}
	if got := c.about(node, "tasks/cancel", id); got.Error.Code != -32602 {
		t.Errorf("tasks/cancel of a task that has ended: %+v", got)
	}
	if got := c.ask(node, "tasks/list", ""); len(got.Result.Tasks) != 1 || got.Result.Tasks[0].TaskID != id || got.Result.Tasks[0].Status != "completed" {
		t.Errorf("tasks/list: %+v", got)
	}
	if got := (taskClient{t, protocol.V20251125, "", held}).ask(node, "tasks/list", ""); got.Error.Code != -32601 {
		t.Errorf("tasks/list of an unknown caller: %+v", got)
	}
	for range 50 {
		c.begin(node, "list_trips")
	}
	page := c.ask(node, "tasks/list", "")
	if len(page.Result.Tasks) != 50 || page.Result.NextCursor == "" {
		t.Fatalf("first page: %d tasks, cursor %q", len(page.Result.Tasks), page.Result.NextCursor)
	}
	if got := c.ask(node, "tasks/list", fmt.Sprintf(`"cursor":%q`, page.Result.NextCursor)); len(got.Result.Tasks) != 1 || got.Result.NextCursor != "" {
		t.Errorf("last page: %+v", got)
	}
	if got := c.ask(node, "tasks/list", `"cursor":"x"`); got.Error.Code != -32602 {
		t.Errorf("unknown cursor: %+v", got)
	}
}

// TestTasks_limits wants a call beyond the number of tasks to be an ordinary one.
func TestTasks_limits(t *testing.T) {
	var opened atomic.Pointer[heldCaller]
	node := oneTaskNode(t, TaskOptions{After: time.Millisecond, Open: func(context.Context) (store.Store, error) {
		if held := opened.Load(); held != nil { // the call ends when its task was refused
			held.once.Do(func() { close(held.release) })
		}
		return nil, nil
	}})
	ready := newHeldCaller()
	close(ready.release)
	old := taskClient{t, protocol.V20251125, "ann", ready}
	for range 512 {
		old.begin(node, "list_trips")
	}
	if got := old.ask(node, "tools/call", `"name":"list_trips","arguments":{},"task":{}`); got.Error.Code != -32603 {
		t.Errorf("a task beyond the limit: %+v", got)
	}
	held := newHeldCaller()
	opened.Store(held)
	got := taskClient{t, protocol.V20260728, "ann", held}.ask(node, "tools/call", `"name":"list_trips","arguments":{}`)
	if got.Result.ResultType != "complete" || len(got.Result.Content) != 1 {
		t.Errorf("a call beyond the limit: %+v", got)
	}
	opened.Store(nil)
	held = newHeldCaller()
	defer close(held.release)
	if got := (taskClient{t, protocol.V20260728, "bob", held}).ask(node, "tools/call", `"name":"list_trips","arguments":{}`); got.Result.ResultType != "task" {
		t.Errorf("a call of another user: %+v", got)
	}
}

// TestTasks_notifications wants a stream of subscriptions/listen to report the end of a task, and only
// tasks of its own user.
func TestTasks_notifications(t *testing.T) { storetest.OnShared(t, streamOfTasks) }

func streamOfTasks(t *testing.T, server *storetest.SharedServer) {
	nodes := taskNodes(t, server, 2, TaskOptions{After: time.Millisecond})
	held := newHeldCaller()
	c := taskClient{t, protocol.V20260728, "ann", held}
	id := c.begin(nodes[0], "list_trips")
	foreign := taskClient{t, protocol.V20260728, "bob", held}.begin(nodes[0], "list_trips")
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site := siteOf(trains(), held)
		site.User = "ann"
		nodes[1].ServeHTTP(w, r, site)
	}))
	defer site.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, site.URL, strings.NewReader(fmt.Sprintf(
		`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"taskIds":[%q,%q]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`, id, foreign)))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", versionHeader: "2026-07-28", "Mcp-Method": "subscriptions/listen"} {
		r.Header.Set(name, value)
	}
	stream, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	var seen []string
	for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "" {
			continue
		}
		var message struct {
			Method string
			Params struct {
				TaskID, Status string
				Notifications  struct{ TaskIDs []string }
				Result         struct{ Content []struct{ Text string } }
			}
		}
		if err := json.Unmarshal([]byte(data), &message); err != nil {
			t.Fatal(err)
		}
		if acknowledged := message.Params.Notifications.TaskIDs; len(seen) == 0 && (len(acknowledged) != 1 || acknowledged[0] != id) {
			t.Fatalf("got %s, want the acknowledgment of the own task", data)
		}
		seen = append(seen, message.Method+" "+message.Params.Status)
		if message.Params.Status == "working" {
			close(held.release)
		}
		if message.Params.Status == "completed" {
			if message.Params.TaskID != id || len(message.Params.Result.Content) != 1 {
				t.Errorf("got %s, want the result of the task", data)
			}
			break
		}
	}
	want := []string{"notifications/subscriptions/acknowledged ", "notifications/tasks working", "notifications/tasks completed"}
	if !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
}

// TestTasks_ask_the_user wants tasks/result of 2025-11-25 to ask for what the call needs, and to return
// its result.
func TestTasks_ask_the_user(t *testing.T) {
	node := oneTaskNode(t, TaskOptions{After: time.Hour})
	e := serveAPI(t, paid)
	e.server.tasks, e.server.options.Tasks = node.tasks, node.options.Tasks
	for answer, want := range map[string]string{
		`"result":{"action":"accept","content":{"iban":"DE12"}}`: "iban=DE12&amount=5",
		`"result":{"action":"decline"}`:                          "decline",
		`"error":{"code":-1,"message":"no user"}`:                "no user",
	} {
		t.Run(want, func(t *testing.T) {
			client := newClient(t, e, protocol.V20251125, askable)
			client.answers[elicit.MethodElicit] = answer
			var created taskAnswer
			if err := json.Unmarshal(client.post(t, "pay", `,"arguments":{"amount":5},"task":{}`), &created); err != nil || created.Result.Task.TaskID == "" {
				t.Fatalf("no task: %v, %+v", err, created)
			}
			if len(client.asked) > 0 {
				t.Errorf("asked before tasks/result: %q", client.asked)
			}
			client.method = "tasks/result"
			got := string(client.post(t, "pay", fmt.Sprintf(`,"taskId":%q`, created.Result.Task.TaskID)))
			if !strings.Contains(strings.ReplaceAll(got, `\u0026`, "&"), want) {
				t.Errorf("got %s, want %s", got, want)
			}
			if len(client.asked) != 1 || !strings.Contains(client.asked[0], `"io.modelcontextprotocol/related-task":{"taskId":"`+created.Result.Task.TaskID) {
				t.Errorf("asked %q, want one form of the task", client.asked)
			}
		})
	}
}
