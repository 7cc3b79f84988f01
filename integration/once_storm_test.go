package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/store/storetest"
)

const (
	stormCalls = 1000 // at the same time
	stormIDs   = 100  // keys
)

// stormProtocols are the ways to place an order with a key.
var stormProtocols = map[string]func(n *brittleNode, ctx context.Context, id string) (orderAnswer, error){
	"otc": (*brittleNode).order, "mcp": (*brittleNode).orderOverMCP,
}

// onEachProtocol runs a test with orders over each protocol.
func onEachProtocol(t *testing.T, run func(t *testing.T, protocol string)) {
	for protocol := range stormProtocols {
		t.Run(protocol, func(t *testing.T) { run(t, protocol) })
	}
}

// onceSite is ordersSite with an MCP endpoint that has the same options.
func onceSite(address, store, idempotency string, api *orders) string {
	site := ordersSite(address, store, idempotency, api)
	start, end := strings.Index(site, "\totc /otc orders"), strings.Index(site, "\treverse_proxy")
	return site[:start] + strings.Replace(site[start:end], "otc /otc", "mcp /mcp", 1) + site[start:]
}

// orderOverMCP calls the tool with an idempotency key, which is the order's name too.
func (n *brittleNode) orderOverMCP(ctx context.Context, id string) (orderAnswer, error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"order","arguments":{"name":%q}}}`, id)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url+"/mcp", strings.NewReader(body))
	if err != nil {
		return orderAnswer{}, err
	}
	request.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Protocol-Version": {"2025-11-25"}, "Idempotency-Key": {id}}
	response, err := stormClient.Do(request)
	if err != nil {
		return orderAnswer{}, err
	}
	defer response.Body.Close()
	var message struct {
		Result struct {
			Content    json.RawMessage `json:"content"`
			IsError    bool            `json:"isError"`
			Structured struct {
				Number int `json:"number"`
			} `json:"structuredContent"`
			Meta map[string]json.RawMessage `json:"_meta"`
		} `json:"result"`
	}
	if err := json.NewDecoder(response.Body).Decode(&message); err != nil {
		return orderAnswer{}, err
	}
	result := message.Result
	text := string(result.Content)
	if strings.Contains(string(result.Meta["io.github.fairwayhq/http"]), `"retryable":false,"reason":"idempotency_unknown"`) {
		text += ` "can_retry":false` // as OTC says it
	}
	return orderAnswer{response.StatusCode, text, !result.IsError && len(result.Content) > 0, result.Structured.Number}, nil
}

// storm sends stormCalls calls to the nodes in turn. A client whose node dies
// asks the last one until it is answered. Begun is called when one call of each id
// has been sent, so that who runs it can be settled before the others come.
func storm(t *testing.T, protocol string, nodes []*brittleNode, begun func()) map[string][]orderAnswer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*waitTimeout)
	defer cancel()
	order := stormProtocols[protocol]
	var mu sync.Mutex
	answers := make(map[string][]orderAnswer)
	var group sync.WaitGroup
	for i := range stormCalls {
		if i == stormIDs {
			begun()
		}
		group.Go(func() {
			id := fmt.Sprint("call-", i%stormIDs)
			node := nodes[(i+i/stormIDs)%len(nodes)] // each id is asked of all of them
			got, err := order(node, ctx, id)
			for err != nil && ctx.Err() == nil {
				got, err = order(nodes[len(nodes)-1], ctx, id)
			}
			if err != nil {
				t.Errorf("%s is lost: %v", id, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers[id] = append(answers[id], got)
		})
	}
	group.Wait()
	return answers
}

// checkStorm wants each order once, and the same answer for all who asked.
func checkStorm(t *testing.T, api *orders, answers map[string][]orderAnswer) {
	t.Helper()
	if begun, names := api.total(); begun != stormIDs || names != stormIDs {
		t.Errorf("%d orders of %d names, want %d of each", begun, names, stormIDs)
	}
	if len(answers) != stormIDs {
		t.Errorf("answers to %d call_ids, want %d", len(answers), stormIDs)
	}
	for id, all := range answers {
		if len(all) != stormCalls/stormIDs {
			t.Errorf("%s: %d answers", id, len(all))
		}
		for _, got := range all {
			if got.status != 200 || !got.success || got.body != all[0].body {
				t.Errorf("%s: %d %s, and %s", id, got.status, got.body, all[0].body)
			}
		}
	}
}

// TestOnce_storm_on_one_node repeats calls on one node with the embedded store.
func TestOnce_storm_on_one_node(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, protocol string) {
		api := startOrders(t)
		close(api.hold)
		address := freeAddress(t)
		node := startBrittle(t, t.TempDir(), address, onceSite(address, "bolt", "ttl 1h", api))
		checkStorm(t, api, storm(t, protocol, []*brittleNode{node}, func() {}))
	})
}

// startPair runs two nodes on one store.
func startPair(t *testing.T, api *orders, store, idempotency string) []*brittleNode {
	t.Helper()
	nodes := make([]*brittleNode, 2)
	for i := range nodes {
		address := freeAddress(t)
		nodes[i] = startBrittle(t, t.TempDir(), address, onceSite(address, store, idempotency, api))
	}
	return nodes
}

func TestOnce_storm_on_two_nodes(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, protocol string) {
		storetest.OnShared(t, func(t *testing.T, server *storetest.SharedServer) {
			api := startOrders(t)
			close(api.hold)
			checkStorm(t, api, storm(t, protocol, startPair(t, api, server.Option, "ttl 1h"), func() {}))
		})
	})
}

// TestOnce_storm_with_a_node_killed kills one of two nodes while orders are under
// way. Those that it had begun are reported to clients of the other node.
func TestOnce_storm_with_a_node_killed(t *testing.T) { //nolint:tparallel // stormWithNodeKilled makes the subtests parallel
	t.Parallel() // it mostly waits
	onEachProtocol(t, stormWithNodeKilled)
}

func stormWithNodeKilled(t *testing.T, protocol string) {
	t.Parallel()
	for name, start := range storetest.Shared() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := startOrders(t)
			nodes := startPair(t, api, start(t).Option, "lease 10s") // which a busy machine keeps up too
			answers := storm(t, protocol, nodes, func() {
				waitFor(t, waitTimeout, "orders that are under way", func() bool {
					begun, _ := api.total()
					return begun >= stormIDs
				})
				time.AfterFunc(100*time.Millisecond, func() { // while the others arrive
					nodes[0].kill()
					close(api.hold)
				})
			})

			checkOnce(t, api, answers)
			lost := 0
			for _, all := range answers {
				for _, got := range all {
					if !got.success {
						lost++
						break
					}
				}
			}
			if lost == 0 || lost == stormIDs {
				t.Errorf("%d of %d calls were reported as unfinished: the node did not die in the middle", lost, stormIDs)
			}
		})
	}
}

// checkOnce wants no order twice, and each client to get a result that says it may have
// lost.
func checkOnce(t *testing.T, api *orders, answers map[string][]orderAnswer) {
	t.Helper()
	if twice := api.twice(); len(twice) > 0 {
		t.Errorf("ordered twice: %q", twice)
	}
	if len(answers) != stormIDs {
		t.Errorf("answers to %d call_ids, want %d", len(answers), stormIDs)
	}
	for id, all := range answers {
		if len(all) != stormCalls/stormIDs {
			t.Errorf("%s: %d answers", id, len(all))
		}
		for _, got := range all {
			switch {
			case got.status != 200:
				t.Errorf("%s: %d %s", id, got.status, got.body)
			case got.success && got.number != 1:
				t.Errorf("%s: %s", id, got.body)
			case !got.success && (!strings.Contains(got.body, "unknown whether") || !strings.Contains(got.body, `"can_retry":false`)):
				t.Errorf("%s: %s", id, got.body)
			}
		}
	}
}

// TestOnce_node_killed_and_started_again finds the answers of before in the
// embedded store, and reports what was under way, at once.
func TestOnce_node_killed_and_started_again(t *testing.T) {
	onEachProtocol(t, func(t *testing.T, protocol string) {
		order := stormProtocols[protocol]
		api := startOrders(t)
		dir, address := t.TempDir(), freeAddress(t)
		site := onceSite(address, "bolt", "lease 1h", api)
		node := startBrittle(t, dir, address, site)

		lost := make(chan error, 1)
		close(api.hold)
		before, err := order(node, t.Context(), "done")
		if err != nil || !before.success {
			t.Fatalf("%+v, %v", before, err)
		}

		api.mu.Lock()
		api.hold = make(chan struct{})
		api.mu.Unlock()
		go func() {
			_, err := order(node, t.Context(), "cut-off")
			lost <- err
		}()
		waitFor(t, waitTimeout, "the order", func() bool { begun, _ := api.total(); return begun == 2 })
		node.kill()
		if err := <-lost; err == nil {
			t.Fatal("the client of a killed node was answered")
		}

		node = startBrittle(t, dir, address, site)
		after, err := order(node, t.Context(), "done")
		if err != nil || after.body != before.body {
			t.Errorf("%s, want %s (%v)", after.body, before.body, err)
		}
		cut, err := order(node, t.Context(), "cut-off")
		if err != nil || cut.success || !strings.Contains(cut.body, "unknown whether") {
			t.Errorf("%+v, %v", cut, err)
		}
		if twice := api.twice(); len(twice) > 0 {
			t.Errorf("ordered twice: %q", twice)
		}
	})
}
