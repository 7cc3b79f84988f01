package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/store/storetest"
)

// orderTask is what a node says about a task.
type orderTask struct {
	Result struct {
		TaskID, Status string
		Result         json.RawMessage
		Error          struct{ Code int }
	}
	Error struct{ Code int }
}

// taskOf sends a request of a client that takes tasks.
func taskOf(t *testing.T, n *brittleNode, key, method, name, params string) (got orderTask) {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`, method, params)
	r, err := http.NewRequest(http.MethodPost, n.url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Method": method, "Mcp-Name": name, "Authorization": "Bearer " + key,
	} {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestTasks_with_a_node_killed runs two nodes on one store. The tasks of one are asked for at the
// other, even after it was killed.
func TestTasks_with_a_node_killed(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, start := range storetest.Shared() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := start(t).Option
			api := startOrders(t)
			nodes := make([]*brittleNode, 2)
			for i := range nodes {
				site := freeAddress(t)
				config := strings.Replace(ordersSite(site, store, "ttl 1h", api), "\treverse_proxy",
					"\tmcp /mcp orders {\n\t\ttask_after 100ms\n\t\tsecret one-secret-of-all-nodes\n\t}\n\treverse_proxy", 1)
				nodes[i] = startBrittle(t, t.TempDir(), site, config)
			}
			begin := func(n *brittleNode, name string) string {
				t.Helper()
				got := taskOf(t, n, "ann", "tools/call", "order", fmt.Sprintf(`"name":"order","arguments":{"name":%q}`, name))
				if got.Result.TaskID == "" || got.Result.Status != "working" {
					t.Fatalf("no task: %+v", got)
				}
				return got.Result.TaskID
			}
			about := func(n *brittleNode, key, id string) orderTask {
				t.Helper()
				return taskOf(t, n, key, "tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
			}
			lost, kept := begin(nodes[0], "lost"), begin(nodes[1], "kept")
			if got := about(nodes[1], "ann", lost); got.Result.Status != "working" {
				t.Errorf("at the other node: %+v", got)
			}
			if got := about(nodes[1], "bob", lost); got.Error.Code != -32602 {
				t.Errorf("with other credentials: %+v", got)
			}
			nodes[0].kill()
			close(api.hold)
			waitFor(t, waitTimeout, "the end of the task of the other node", func() bool {
				got := about(nodes[1], "ann", kept)
				return got.Result.Status == "completed" && strings.Contains(string(got.Result.Result), "kept")
			})
			waitFor(t, waitTimeout, "the failure of the task whose node died", func() bool {
				got := about(nodes[1], "ann", lost)
				return got.Result.Status == "failed" && got.Result.Error.Code != 0
			})
			if twice := api.twice(); len(twice) > 0 {
				t.Errorf("ordered twice: %q", twice)
			}
		})
	}
}
